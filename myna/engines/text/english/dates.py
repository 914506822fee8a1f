"""English readings of dates, times, years and decades."""

import re

from myna.engines.text.english.numerals import cardinal, in_pairs, number, ordinal, plural, year
from myna.engines.text.english.tables import ABBREVIATIONS, MONTH, MONTHS, SHORT_MONTHS
from myna.engines.text.rule import TO, Rule, rule, spoken

_YEAR = r"(?:1[1-9]|20)\d\d"
_CLOCK = r"(?:[01]?\d|2[0-4]):[0-5]\d(?::[0-5]\d)?"
_DAY_OF_MONTH = r"(?:0?[1-9]|[12]\d|3[01])"
_PLURAL = r"(?!(?:is|was|has|its|this|as|us|does|across|versus|less|plus)(?!\w))[a-z]+s(?!\w)"
_HOURS = "noon|midnight|dawn"
_GOES_ON = r" (?!at (?:\d|noon))\w"
"""After a fraction, rather than a date: 1/2 tablet, but 1/2 at noon."""
_DAY_NAMES = "Mon|Tues?|Wed|Thu(?:rs?)?|Fri|Sat|Sun"


def _month(name: str) -> str:
    return next(month for month in MONTHS if month.startswith(name[:3]))


def _slashed(match: re.Match[str]) -> str:
    """5/1/2024: the month is first unless it is above 12. With full stops the day is first: 1.5.2024."""
    first, separator, second, written = match.groups()
    month, day = (second, first) if separator == "." else (first, second)
    month, day = sorted((month, day), key=lambda part: int(part) > 12)
    if int(month) > 12:
        return match[0]
    return f"{MONTHS[int(month) - 1]} {ordinal(day)}, {_any_year(written)}"


def _any_year(digits: str) -> str:
    return year(digits) if len(digits) == 4 else ("oh " if digits[0] == "0" else "") + cardinal(digits)


def _month_day(match: re.Match[str]) -> str:
    name, first, last = match.groups()
    return f"{_month(name)} {ordinal(first)}" + (f" to {ordinal(last)}" if last else "")


def _day_month(match: re.Match[str]) -> str:
    article = "" if match.string[: match.start()].endswith("the ") else "the "
    return f"{article}{ordinal(match[1])} of {_month(match[2])}"


def _time(written: str) -> str:
    hours, minutes, *seconds = written.split(":")
    said = cardinal(hours)
    if int(minutes):
        said += f" {'oh ' if minutes[0] == '0' else ''}{cardinal(minutes)}"
    if seconds:
        said += f" and {cardinal(seconds[0])} seconds"
    return said


def _times(match: re.Match[str]) -> str:
    times = [_time(part.strip()) for part in re.split(TO, match["times"])]
    hundred = not times[1:] and not match["half"] and re.fullmatch(r"(?:1[3-9]|2\d):00", match["times"])
    return " to ".join(times) + (" hundred" if hundred else _half(match["half"]))


def _part_of_time(written: str) -> str:
    return ("oh " if written[0] == "0" else "") + number(written)


def _military(match: re.Match[str]) -> str:
    """The four digits before `hours`: oh six hundred, fourteen thirty."""
    hours, minutes = match[1], match[2]
    said = f"oh {cardinal(hours)}" if hours[0] == "0" else cardinal(hours)
    return f"{said} {in_pairs('1' + minutes).removeprefix('one ')} hours"


def _race(match: re.Match[str]) -> str:
    """The time of a race: in thirty nine forty five, in one oh two thirty."""
    return (match[1] or "") + " ".join(_part_of_time(part) for part in match.groups()[1:] if part)


def _half(written: str | None) -> str:
    return f" {written[0].upper()} M" if written else ""


def _hour(match: re.Match[str]) -> str:
    return " to ".join(cardinal(part) for part in match.group(1, 2) if part) + _half(match[3])


def _decade(match: re.Match[str]) -> str:
    """1990s as nineteen nineties, '90s as nineties, 1900s as nineteen hundreds."""
    century, tens = match[1] or "", match[2]
    if tens == "00":
        return f"{cardinal(century)} hundreds" if century != "20" else "two thousands"
    return f"{cardinal(century) + ' ' if century else ''}{plural(cardinal(tens))}"


def _years(match: re.Match[str]) -> str:
    """1999-2003, 2023-24, and 2023-02 as a month."""
    last = match[2]
    if len(last) == 2 and "-" in match[0] and "01" <= last <= min("12", match[1][2:]):
        return f"{MONTHS[int(last) - 1]} {year(match[1])}"
    return f"{year(match[1])} to {_any_year(last)}"


def _winter(match: re.Match[str]) -> str:
    """2010/11, if these are two years that follow each other."""
    first, last = match.groups()
    return f"{year(first)} to {_any_year(last)}" if (int(first) + 1) % 100 == int(last) else match[0]


def _iso_time(match: re.Match[str]) -> str:
    zone = match[3] or ""
    return f"{match[1]}, {match[2].removesuffix(':00')} UTC{zone.strip('Zz')}"


_DATE_ENDS = rf"(?:\d/(?:19|20)?\d\d|\d-\d\d|(?:{MONTH}|\d(?:st|nd|rd|th)?,) {_YEAR})"
_DATE_BEGINS = rf"(?:\d\d?/\d\d?/\d|\d{{4}}-\d\d-|(?:\d\d? )?{MONTH} \d|(?:[Pp]resent|[Nn]ow)(?!\w))"
WHOLE_DATES: tuple[Rule, ...] = (
    rule(rf"(?<=\d[ -])(?:{SHORT_MONTHS.upper()}|MAY)(?=[ -](?:\d\d)?\d\d(?!\w))", lambda m: m[0].title()),
    rule(r"(?<!\w)([CF]Y)(?=(?:19|20)\d\d(?!\w))", r"\1 "),
    # 6/1/25–5/31/26, 1 Jan 2026 – 31 Dec 2026, Mar 2020 – Present.
    rule(rf"({_DATE_ENDS})(?:–| [-–—] )(?={_DATE_BEGINS})", r"\1 to "),
    rule(
        r"(?<!\w)((?i:exp(?:ir[a-z]+)?)\.?:?) (0[1-9]|1[0-2])/(\d\d)(?![\w/])",
        lambda m: f"{m[1]} {MONTHS[int(m[2]) - 1]} {year('20' + m[3])}",
    ),
    # At 1430 hours, 0600 hours, 14:30 hours; but 2000 hours of work.
    rule(
        r"(?<![\w:.,-])(?:(?<=\b[Aa]t )|(?<=\b[Bb]y )|(?<=\b[Ff]rom )|(?<=\b[Uu]ntil )|(?<=\b[Bb]efore )|"
        r"(?<=\b[Aa]fter )|(?<=\d{4} to )|(?<=hours to )|(?=0|\d\d:))"
        r"([01]\d|2[0-4]):?([0-5]\d) (?:hours|hrs)(?!\w| of(?!\w))",
        _military,
    ),
    rule(
        r"(?<![\w.])(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d(?::\d\d)?)(?:\.\d+)?([Zz]|[-+]\d\d:?\d\d)(?!\w)",
        _iso_time,
    ),
    rule(
        rf"(?<![\w.])((?:1\d|20)\d\d)([-/.])(0?[1-9]|1[0-2])\2({_DAY_OF_MONTH})(?![\w-]|[./]\d)",
        lambda m: f"{MONTHS[int(m[3]) - 1]} {ordinal(m[4])}, {year(m[1])}",
    ),
    rule(rf"(?<![\w./-])({_DAY_OF_MONTH})(/)({_DAY_OF_MONTH})/((?:1\d|20)?\d\d)(?![\w/-]|\.\d)", _slashed),
    rule(rf"(?<![\w./-])({_DAY_OF_MONTH})([-.])({_DAY_OF_MONTH})\2((?:1\d|20)\d\d)(?![\w/-]|\.\d)", _slashed),
    rule(
        rf"(?<![\w./-])({_DAY_OF_MONTH})-({MONTH})-((?:19|20)?\d\d)(?![\w/-])",
        lambda m: f"{_month(m[2])} {ordinal(m[1])}, {_any_year(m[3])}",
    ),
)
"""Day, month and year in figures, which look like versions and phone numbers."""
DATES: tuple[Rule, ...] = (
    rule(
        rf"(?<![\w.:/-])(?!(?:1/2|[12]/3|[13]/4){_GOES_ON})"
        rf"(?:(?:(?<=\bon )|(?<=\bdue ))(?=\d+/\d+\b(?!{_GOES_ON}))|(?<=eek of )|"
        r"(?<=(?:on|es|rs|ri|ur|un)day )|(?=\d\d?/(?:1[3-57-9]|2\d|3[01])))"
        rf"(1[0-2]|0?[1-9])/({_DAY_OF_MONTH})(?![\w/-]|[.,]\d| ?(?:inch|in\.|\"|cup|mile|heat|of ))",
        lambda m: f"{MONTHS[int(m[1]) - 1]} {ordinal(m[2])}",
    ),
    rule(
        rf"(?<!\w)(?:({_DAY_NAMES})\.? ?[-–] ?({_DAY_NAMES})|({SHORT_MONTHS})\.?[-–]({SHORT_MONTHS}))"
        r"(?:\.(?=[,;]| [a-z])|(?!\w))",
        lambda m: f"{ABBREVIATIONS[m[1] or m[3]]} to {ABBREVIATIONS[m[2] or m[4]]}",
    ),
    rule(r"(?<![\w.-])M ?[-–] ?F(?=$|[,.;)]| \d)", "Monday to Friday"),
    spoken(
        rf"(?<!\w)(?:{_DAY_NAMES})(?:(?:/|, |,? & |,? and )(?:{_DAY_NAMES}))+(?!\w)",
        lambda days: re.sub("[A-Z][a-z]+", lambda day: ABBREVIATIONS[day[0]], days.replace("/", ", ")),
    ),
    rule(
        r"(?<!\w)([Yy]ear|AD|A\.D\.|ca?\.|[Cc]irca) (\d{3,4})(?![\w-]|[.,:]\d)",
        lambda m: f"{'circa' if m[1] == 'c.' else m[1]} {year(m[2])}",
    ),
    spoken(r"(?<![\w.,-])\d{3,4}(?= (?:AD|BCE?|CE|A\.D\.|B\.C\.)(?!\w))", year),
    # 03/2027 and 03.2027, the month and the year.
    rule(
        r"(?<![\w./-])(?:(0[1-9]|1[0-2])/|(0[1-9])\.)((?:19|20)\d\d)(?![\w/-]|[.,]\d)",
        lambda m: f"{MONTHS[int(m[1] or m[2]) - 1]} {year(m[3])}",
    ),
    # 12.30-1.30pm, 7.30pm, 15.00 GMT.
    rule(
        rf"(?<![\w.:$€£])(\d{{1,2}})\.([0-5]\d)(?= ?(?:{TO} ?\d{{1,2}}[.:][0-5]\d ?)?"
        r"(?:[AaPp]\.?[Mm]|(?<= )(?:GMT|BST|UTC|CET|EST|hrs|hours))(?!\w))",
        r"\1:\2",
    ),
    rule(
        rf"(?<!\w)({MONTH}),? (?:({_YEAR})|['’](\d\d))(?![\w-]|[.,:]\d)",
        lambda m: f"{_month(m[1])} {_any_year(m[2] or m[3])}",
    ),
    rule(
        rf"(?<!\w)({_DAY_NAMES})\.?(?=,? (?:\d\d?(?:[:.]\d\d|[ap]m| ?[-–] ?\d)|closed|only|"
        rf"{MONTH}|{_DAY_OF_MONTH} {MONTH})(?!\w))",
        lambda m: ABBREVIATIONS[m[1]],
    ),
    rule(r"(?<!\w)['’](\d\d)(?![\w'’\"”])", lambda m: _any_year(m[1])),
    rule(
        rf"(\d ?[AaPp]\.?[Mm]\.?|(?<!\w)(?i:{_HOURS})) ?{TO} ?(?=\d|(?i:{_HOURS}|close|late)(?!\w))",
        r"\1 to ",
    ),
    # May 5, May 5-7, 5 May 2024.
    rule(
        rf"(?<!\w)({MONTH}) ({_DAY_OF_MONTH})(?:st|nd|rd|th)?(?: ?{TO} ?({_DAY_OF_MONTH}))?"
        r"(?![\w:/%-]|[.,]\d)",
        _month_day,
    ),
    rule(
        rf"(?<![\w.,:/-])({_DAY_OF_MONTH}) ?{TO} ?({_DAY_OF_MONTH}) ({MONTH})(?!\w)",
        lambda m: f"the {ordinal(m[1])} to the {ordinal(m[2])} of {_month(m[3])}",
    ),
    rule(rf"(?<![\w.,:/-])({_DAY_OF_MONTH}) ({MONTH})(?!\w)", _day_month),
    rule(r"(?<=\d0s)[-–](?=\d0s)", " to "),
    rule(r"(?<![\w'’])['’]?((?:1\d|20)?)(\d0)['’]?s(?!\w)", _decade),
    # The time of a race, with parts of a second or after a word for it.
    rule(
        r"(?:(?<!\w)((?:in|under|below|[Tt]imes?|best|PB|PR|[Rr]ecord|ran|run|clocked|finished)(?: is| was|"
        r" of|:)?(?: an?)? )(?=\d+:\d\d:|2[5-9]:|[3-9]\d:)|(?<![\w:.])(?=[\d:]+\.\d))"
        r"(?:(\d{1,2}):)?(\d{1,2}):([0-5]\d(?:\.\d{1,3})?)(?![\w:]|\.\d)",
        _race,
    ),
    rule(rf"(?<![\w:.,-])(\d\d?) ?{TO} ?(?={_CLOCK} ?[AaPp]\.?[Mm]\b)", lambda m: f"{cardinal(m[1])} to "),
    rule(
        rf"(?<![\w:.])(?P<times>{_CLOCK}(?: ?{TO} ?{_CLOCK})?)(?: ?(?P<half>[AaPp]\.?[Mm]\b\.?))?"
        rf"(?![\w:]|\.\d)",
        _times,
    ),
    rule(rf"(?<![\w:.,-])(\d\d?)(?:{TO}(\d\d?))? ?([AaPp](?:\.[Mm]\.|[Mm]))(?!\w)", _hour),
    rule(rf"(?<![\w.,-])({_YEAR}){TO}({_YEAR}|\d\d)(?![\w-]|[.,]\d|%)", _years),
    rule(rf"(?<![\w.,/-])({_YEAR})/(\d\d)(?![\w/])", _winter),
    spoken(rf"(?<![\w.,:/$€£¥#-])(?:(?<=\b[Ii]n )|(?<=[a-z], )){_YEAR}(?![\w-]|[.,:]\d|%)", year),
    # A year rather than a count, unless things in the plural follow.
    spoken(
        rf"(?<![\w.,:/$€£¥+×÷=<>*#-])(?<![+×÷=<>*] ){_YEAR}(?!-?\w|[.,:/]\d|%| ?[+×÷=<>*°]|"
        rf" (?:[a-z]+ )?{_PLURAL}| people| men| women)",
        year,
    ),
)
