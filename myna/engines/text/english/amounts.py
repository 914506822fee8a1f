"""English readings of amounts: money, units, shares, fractions, ranges, formulas, and all that is left."""

import re

from myna.engines.text.english.numerals import by_one, cardinal, fraction, number, ordinal
from myna.engines.text.english.tables import (
    CURRENCIES,
    GREEK,
    NAMED_SIGNS,
    OPERATORS,
    SCALES,
    SMALL,
    SPACED_ONLY,
    UNCHANGED,
    UNITS,
    plural_unit,
)
from myna.engines.text.rule import (
    GREEK_ALONE,
    NUM,
    SIGNED,
    SPELLINGS,
    SUBSCRIPTS,
    SUPERSCRIPTS,
    THOUSANDS,
    TO,
    Rule,
    any_of,
    exponent,
    rule,
    spoken,
)

_SCALE_WORDS = "thousand|million|billion|trillion|hundred"
_FREE = any_of(unit for unit in UNITS if unit not in SPACED_ONLY)
_HALVES = {"½": "a half", "¼": "a quarter", "¾": "three quarters", "⅓": "a third", "⅔": "two thirds"}
_BEARINGS = {"N": "north", "S": "south", "E": "east", "W": "west"}
_RIGHT, _LEFT = r"[\w(√π∞.-]", r"[\w)%°²³π]"


def _several(written: str) -> bool:
    return written.lstrip("-+±") not in ("1", "1.0")


def _span(low: str, high: str | None) -> str:
    return f"{number(low)} to {number(high)}" if high else number(low)


def _coins(currency: str, cents: str) -> str:
    one, many = SMALL.get(currency, ("cent", "cents"))
    return f"{cardinal(cents)} {one if int(cents) == 1 else many}"


def _money(match: re.Match[str]) -> str:
    sign, currency, low, high, scale, letter = match.group("sign", "cur", "low", "high", "scale", "letter")
    name = CURRENCIES[currency]
    before = {"-": "minus ", "+": "plus "}.get(sign, "")
    scale = scale or SCALES.get(letter or "")
    whole, _, rest = low.replace(",", "").partition(".")
    if not scale and not high and len(rest) == 2 and name not in UNCHANGED:
        coins = _coins(currency, rest) if int(rest) else ""
        if coins and not int(whole):
            return before + coins
        return f"{before}{cardinal(whole)} {_plural(name, whole != '1')}" + (f" {coins}" if coins else "")
    amount = _span(low, high)
    adjective = match["dashed"] or (scale and f"-{scale}" in match[0])
    many = bool(scale or high) or _several(low)
    return f"{before}{amount}{f' {scale}' if scale else ''} {_plural(name, many and not adjective)}"


def _plural(name: str, several: bool) -> str:
    return name + "s" if several and name not in UNCHANGED else name


def _named_unit(unit: str, several: bool) -> str:
    return plural_unit(UNITS[unit]) if several else UNITS[unit]


def _unit(match: re.Match[str]) -> str:
    low, high, unit, per = match.group("low", "high", "unit", "per")
    many = bool(high) or _several(low)
    return f"{_span(low, high)} {_named_unit(unit, many)}" + (f" per {UNITS[per]}" if per else "")


def _power(match: re.Match[str]) -> str:
    power = exponent(match)
    if power in ("2", "3"):
        return " squared" if power == "2" else " cubed"
    return " to the power of " + (number(power) if power.lstrip("-+").isdigit() else power)


def _operator(match: re.Match[str]) -> str:
    return f" {OPERATORS[match[0].strip()]} "


def _fraction_of(upper: str, lower: str) -> str:
    """A fraction up to 99/100; others are `over`: 120/80."""
    if 1 < int(lower) <= 100 and int(upper) < int(lower):
        return fraction(upper, lower)
    if upper == lower:  # 50/50, 20/20
        return f"{cardinal(upper)} {cardinal(lower)}"
    return f"{cardinal(upper)} over {cardinal(lower)}"


def _mixed(match: re.Match[str]) -> str:
    upper, lower = match[2], match[3]
    part = fraction(upper, lower)
    return f"{cardinal(match[1])} and {'a' + part[3:] if upper == '1' else part}"


def _scaled(match: re.Match[str]) -> str:
    return f"{number(match[1])} {SCALES[match[match.lastindex or 2]]}"


def _left(match: re.Match[str]) -> str:
    written = match[0]
    before = " " if match.start() and match.string[match.start() - 1].isalpha() else ""
    after = " " if match.string[match.end() : match.end() + 1].isalpha() else ""
    return before + number(written) + after


NOTATIONS: tuple[Rule, ...] = (
    rule("log([₀-₉]+) ?", r"log base \1 of "),
    rule(
        r"(?<![\w.])(\d+(?:\.\d)?)/(5|10)(?= stars?\b)|(?<![\w./])(\d\.\d|10)/(10)(?![\w/])",
        lambda m: f"{m[1] or m[3]} out of {m[2] or m[4]}",
    ),
    rule(r">=", "≥"),
    *SPELLINGS,
    # What stands before an amount alone, while its unit is written as a sign.
    *(
        rule(rf"(?:(?<=^)|(?<=[\s(])(?<![\w)²³] )){sign}\s?(?=[\d$€£.])", f"{words} ")
        for sign, words in (("<", "less than"), (">", "more than"), ("≥", "at least"), ("≤", "at most"))
    ),
    rule(r"(?:(?<=^)|(?<=[\s(]))~\s?(?=[\d$€£.])", "about "),
    rule(r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([-+]?\d{1,3})(?![\w.])", r"\1 × 10^\2"),
    rule(r"!=|<>", "≠"),
    rule(r"(?<=\w)\s?->\s?(?=\w)", "→"),
    rule("[₀-₉]+", lambda m: m[0].translate(SUBSCRIPTS)),
)
MONEY: tuple[Rule, ...] = (
    rule(
        rf"(?P<sign>(?<!\w)[-+])?(?<![A-Za-z])(?P<cur>{any_of(CURRENCIES)})\s?(?P<low>{NUM})"
        rf"(?: ?{TO} ?(?:{any_of(CURRENCIES)})?(?P<high>{NUM}))?"
        rf"(?:[ -](?P<scale>{_SCALE_WORDS})(?!\w)|(?P<letter>bn|mn|tn|"
        rf"[kKmMbBT])(?!\w))?(?P<dashed>-(?=[a-z])| (?=bills?\b|notes?\b))?",
        lambda m: _money(m) + (" " if m["dashed"] else ""),
    ),
    rule(
        rf"(?<![\w.,])({NUM})\s?({any_of(CURRENCIES)})(?![\w])",
        lambda m: f"{number(m[1])} {_plural(CURRENCIES[m[2]], _several(m[1]))}",
    ),
    rule(rf"(?<![\w.,])({NUM}) ?¢", lambda m: f"{number(m[1])} {'cents' if _several(m[1]) else 'cent'}"),
    rule(
        rf"\b(dollars?|euros?|pounds?|cents?|pence|yen|yuan)/({_FREE})(?!\w)",
        lambda m: f"{m[1]} per {UNITS[m[2]]}",
    ),
)
UNITS_AND_SHARES: tuple[Rule, ...] = (
    rule(r"(?<![\w.])(\d{2,3})/(\d{2,3})(?= ?mmHg)", lambda m: f"{cardinal(m[1])} over {m[2]}"),
    rule(
        r"(?<![\w.])(\d) ?ft\.? ?(\d{1,2}) ?in(?:\.|(?!\w))",
        lambda m: f"{cardinal(m[1])} feet {cardinal(m[2])} inches",
    ),
    rule(
        r"(?<![\w.])(\d)['′’] ?(\d{1,2}(?:\.\d+)?)[\"″”]", lambda m: f"{cardinal(m[1])} foot {number(m[2])}"
    ),
    rule(r"(?<![\w.'])(\d{1,3})['′](?![\w'])", lambda m: f"{cardinal(m[1])} feet"),
    rule(r"(?<![\w.])(\d+)[\"″] ?[x×] ?(\d+)[\"″]", r"\1 by \2 inches"),
    rule(
        rf"(?<![\w./])(?:(\d{{1,3}}) )?(\d{{1,2}})/(\d{{1,2}}) ?({_FREE})(?![\w²³'/])",
        lambda m: (_mixed(m) if m[1] else _fraction_of(m[2], m[3])) + f" {_named_unit(m[4], bool(m[1]))}",
    ),
    rule(r"(?<!\w)((?:I|US|SR)-\d{1,3}) ([NSEW])(?!\w)", lambda m: f"{m[1]} {_BEARINGS[m[2]]}"),
    rule(r"(?<=\d)° ?([NSEW])(?!\w)", lambda m: f" degrees {_BEARINGS[m[1]]}"),
    rule(r"(?<![\w.'\"])(\d{1,3}(?:\.\d+)?)[\"″](?=$|[\s,.;)])", lambda m: f"{number(m[1])} inches"),
    rule(
        rf"(?<![\w.,])(?P<low>{SIGNED})(?: ?°[CF]?)?(?: ?{TO} ?(?P<high>-?{NUM}))?[ -]?"
        rf"(?P<unit>{_FREE})(?:/(?P<per>{any_of(UNITS)}))?(?![\w²³']|/\w)",
        _unit,
    ),
    rule(
        rf"(?<![\w.,])(?P<low>{SIGNED})(?:{TO}(?P<high>{NUM}))? (?P<unit>in|t|A)(?P<per>(?!))?(?=$|"
        rf"[,.;)]|$| (?:long|wide|tall|high|deep))",
        _unit,
    ),
    rule(rf"(?<![\w.,])({SIGNED})%?(?: ?{TO} ?({NUM}))? ?%", lambda m: f"{_span(m[1], m[2])} percent"),
)
FORMULAS: tuple[Rule, ...] = (
    rule(rf"(?<![\w.-])({NUM}|[A-Za-z])\s?-\s?(?={NUM}\s?[-+×÷*=≈≥≤<>]|[A-Za-z]\s?[=≈≥≤<>])", r"\1 minus "),
    rule(rf"(?<=[=≈+×÷])(\s?{NUM})\s?-\s?(?={NUM})", r"\1 minus "),
    rule(rf"(?<=[\w)π])(?:([{SUPERSCRIPTS}]+)|\^(\([^()\s]{{1,8}}\)|[-+]?\d+|[A-Za-z]))", _power),
    rule(r"(?<![\w.])(\d{3,4}) ?[x×] ?(\d{3,4})(?!\w)", lambda m: f"{number(m[1])} by {number(m[2])}"),
    rule(r"(?<=\d) ?[xX] ?(?=\d)", " by "),
    rule(r"(?<=[\w)²³]) - (?=[\w(][^.!?;=]*=)", " minus "),
    rule(
        r"(?<![\w.])(\d+(?:\.\d+)?)[xX](?!\w|\s?[-+=^²³)]|\s?(?:minus|plus|equals))",
        lambda m: f"{number(m[1])} times",
    ),
    rule(rf"\s?[×÷≈≠≥≤≡∝≫≪∈→]\s?(?={_RIGHT})", _operator),
    rule(r"(?<=[\w)])\s?\*\s?(?=[\w(])", " times "),
    rule(
        rf"(?<={_LEFT})\s[<>]\s(?={_RIGHT})|(?<=[\w)])[<>](?=\d)|(?<=\d)[<>](?=[A-Za-z](?![A-Za-z]*>))",
        _operator,
    ),
    rule(rf"(?<={_LEFT})\s?=\s?(?={_RIGHT})", " equals "),
    rule(r"(?<=[\w)π])\s?\+\s?(?=[\w(π√])", " plus "),
    rule(r"(?<=\d)\+(?![\w+])", " plus"),
    rule(r"±\s?(?=[\dA-Za-z])", "plus or minus "),
    rule(r"√\s?(?=[\w(π])", "the square root of "),
)
LEFT: tuple[Rule, ...] = (
    rule(
        r"(?<=[a-z])/(?=(?:month|year|day|week|hour|person|night|unit|user|mile|minute|second|"
        r"gallon|item|piece)\b)",
        " per ",
    ),
    rule(r"(?<![\w/])(km|m|ft|mi)/([sh])(?!\w)", lambda m: f"{_named_unit(m[1], True)} per {UNITS[m[2]]}"),
    # 2½, 1 1/2, 3/4, 120/80.
    rule(r"(?<!\d)(\d+) ?([½¼¾⅓⅔])", lambda m: f"{cardinal(m[1])} and {_HALVES[m[2]]}"),
    rule(r"(?<![\w./])(\d{1,3}) (\d{1,2})/(\d{1,2})(?![\w/])", _mixed),
    rule(r"(?<![\w./])(\d{1,4})/(\d{1,4})(?![\w/])", lambda m: _fraction_of(m[1], m[2])),
    rule(
        r"(?<![\w.,])(\d{1,3}(?:,\d{3})+|\d+)(?:st|nd|rd|th)(?!\w)", lambda m: ordinal(m[1].replace(",", ""))
    ),
    rule(r"(?<![\w.,])(\d+(?:\.\d+)?)(?:(bn)(?!\w)|([kM])(?=\+| [a-z]))", _scaled),
    rule(r"(?<![\w.,])(\d{2,}|\d+\.\d+)(K)(?=\+| [a-z])", _scaled),
    rule(rf"(?<![\w.,:/-])({NUM}) ?{TO} ?(?={NUM}(?![\w/-]|[.,:]\d))", lambda m: f"{number(m[1])} to "),
    rule(r"(?<=[A-Za-z\d])(?<!-)[–—](?=\d)", " to "),
    rule(r"(?<![\w:.])(\d{1,4}):(\d{1,4})(?![\w:])", lambda m: f"{cardinal(m[1])} to {cardinal(m[2])}"),
    spoken(r"(?<![\w.,)-])[-+](?=[\d.])(?:(?P<n>\d[\d,]*(?:\.\d+)?|\.\d+))", number),
    rule(r"(?<!\w)\.\d+(?!\.)", lambda m: "point " + by_one(m[0])),
    rule(rf"{THOUSANDS}(?:\.\d+)?|\d+(?:\.\d+)?", _left),
    rule(any_of(NAMED_SIGNS), lambda m: f" {NAMED_SIGNS[m[0]]} "),
    rule(GREEK_ALONE, lambda m: f" {' '.join(GREEK.get(letter, letter) for letter in m[0])} "),
)
