"""English readings of amounts: money, units, shares, fractions, ranges, formulas, and all that is left."""

import re

from myna.engines.text.english.numerals import by_one, cardinal, fraction, number, ordinal
from myna.engines.text.english.tables import (
    BEARINGS,
    BOOKS,
    CURRENCIES,
    GREEK,
    NAMED_SIGNS,
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
    rule,
    spoken,
)

_FREE = any_of(unit for unit in UNITS if unit not in SPACED_ONLY)
_PER_WORDS = (
    "second|minute|hour|day|night|week|month|year|person|serving|dose|unit|user|mile|gallon|item|piece|side|"
    "page|share|seat|head|class|word|bottle|box|pair|set"
)
_UNIT = any_of(UNITS)
_PRODUCT = rf"{_FREE}(?:[·⋅]{_UNIT})*"
_PER = (
    rf"(?:(?P<base>10{{1,3}}) ?)?(?P<per>(?:{_UNIT}|{_PER_WORDS})(?:/(?:{_UNIT}|{_PER_WORDS}))*"
    rf"|\(?{_UNIT}(?:[·⋅/]?{_UNIT})+\)?)"
)
"""What follows the slash of a unit: s, 100 km, m²K, (m·K), day."""
_FACTOR = re.compile(_UNIT)
_DETERMINER = re.compile(
    r"(?<!\w)([Aa]n?|[Tt]he|[Ee]ach|[Ee]very|[Aa]nother|[Mm]y|[Yy]our|[Hh]is|[Hh]er|[Oo]ur|[Tt]heir) $"
)
_NOUN_AFTER = re.compile(
    r" (?!(?:of|in|on|at|or|and|to|is|are|was|were|per|from|for|than|with|by|as|before|after|between|that|"
    r"which|I|you|we|he|she|they|it|my|his|our|their|the|an?|there|this|if|when|because|until|"
    r"long|wide|tall|high|deep|thick|away|apart|later|earlier|each|worth|more|less|too|also|but|so|then)(?!\w))[A-Za-z]"
)
_PREDICATE_AFTER = re.compile(
    r" (?:(?:yesterday|today|tomorrow|tonight|now|again|together|equally|ready|here|bought|paid|seemed|"
    r"last|back|left|still|just|only|never|already|really|went|took|felt|came|made|got|gave|lent|"
    r"spent|earned|invested|donated|lost|ha[sd]|have|will|would|could|should|must|did|does|can(?! of)|add|"
    r"covers|goes|comes|makes|gets|pays|buys|helps|means|feels|seems|includes)(?!\w)|"
    r"[a-z]{2,}[^e\s]ed(?:$|[.,;!?]| (?:me|us|him|her|them|it|you|the|an?|my|his|our|their|to|in|on|for|by|"
    r"from|at|with|over|out|up)(?!\w)))"
)
"""The verb or adverb after a sum or a measure that is the subject or the object: the $20 covers lunch."""
_VERB_AFTER_EACH = re.compile(r" [a-z]+[^su]s(?!\w)")
_SCALE_WORDS = "thousand|million|billion|trillion|hundred|lakh|crore"
_FRACTIONS = {"½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3"}
_BOUNDS = {"<": "less than", ">": "more than", "≥": "at least", "≤": "at most", "≈": "about"}
_RAISED = str.maketrans("23", "²³")
_ALONE = any_of(unit for unit in UNITS if unit not in {*SPACED_ONLY, "h", "s", "L", "N"})
"""Units that are known beside another one without a number."""
_POWERED = any_of(unit for unit in UNITS if unit[-1] in "²³" and unit != "s²")


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
    adjective = match["dashed"] or (scale and f"-{scale}" in match[0]) or _describes(match)
    many = bool(scale or high) or _several(low)
    return f"{before}{amount}{f' {scale}' if scale else ''} {_plural(name, many and not adjective)}"


def _plural(name: str, several: bool) -> str:
    return name + "s" if several and name not in UNCHANGED else name


def _describes(match: re.Match[str]) -> bool:
    """Whether the amount says of what size a thing is, as in a 9mm pistol, so that its unit is one."""
    text, begin = match.string, match.start()
    before = _DETERMINER.search(text[max(0, begin - 9) : begin])
    if before is None or _NOUN_AFTER.match(text, match.end()) is None:
        return False
    determiner = before[1].lower()
    if determiner in ("each", "every") and _VERB_AFTER_EACH.match(text, match.end()):
        return False
    return determiner in ("a", "an") or _PREDICATE_AFTER.match(text, match.end()) is None


def _named_unit(unit: str, several: bool) -> str:
    """The name of a unit or of a product such as N·m."""
    *factors, last = _FACTOR.findall(unit)
    return " ".join([*(UNITS[one] for one in factors), plural_unit(UNITS[last]) if several else UNITS[last]])


def _per(match: re.Match[str]) -> str:
    base, per = match.group("base", "per")
    if not per:
        return ""
    names = (one if one in _PER_WORDS.split("|") else _named_unit(one, bool(base)) for one in per.split("/"))
    name = re.sub(r"\bK\b", "kelvin", " per ".join(names))  # K alone is often a thousand
    return f" per {cardinal(base)} {name}" if base else f" per {name}"


def _unit(match: re.Match[str]) -> str:
    low, high, unit = match.group("low", "high", "unit")
    joined = match["dash"] == "-" and match.string[match.end() : match.end() + 2].strip().isalpha()
    sized = (
        not match["dash"] and unit in ("mm", "W", "V", "MP") and _NOUN_AFTER.match(match.string, match.end())
    )
    many = (bool(high) or _several(low)) and not joined and not sized and not _describes(match)
    return f"{_span(low, high)} {_named_unit(unit, many)}{_per(match)}"


def _unit_alone(match: re.Match[str]) -> str:
    return _named_unit(match["unit"], True) + _per(match)


def _length(match: re.Match[str]) -> str:
    """Feet or inches by their mark, unless it ends a quotation: the "Big 12"."""
    mark = match[0][-1]
    if re.search(rf"(?<!\w){mark}[^{mark}]*$", match.string[max(0, match.start() - 60) : match.start()]):
        return match[0]
    one, many = ("foot", "feet") if mark in "'′" else ("inch", "inches")
    return f"{_span(match[1], match[2])} {one if _describes(match) else many}"


def _range(match: re.Match[str]) -> str:
    low, high = match.groups()
    return f"{number(low)} {number(high)}" if low == high else f"{number(low)} to {number(high)}"


def _fraction_of(upper: str, lower: str) -> str:
    """A fraction up to 99/100, or 1/250; others are `over`: 120/80."""
    if int(upper) < int(lower) > 1 and (int(lower) <= 100 or upper == "1"):
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
    rule(r"(?:(\d) ?)?([½¼¾⅓⅔])", lambda m: (f"{m[1]} " if m[1] else "") + _FRACTIONS[m[2]]),
    # 1 000 000, also with spaces that break no line.
    spoken(
        r"(?<![\w.,-])(?<!\d )[1-9]\d{0,2}(?=([ \xa0\u2009\u202f]))(?:\1\d{3})*\1[0]{3}(?![\w-]|[ .,]\d)",
        lambda written: re.sub(r"\D", "", written),
    ),
    rule(r"(?<!\w)(sq|cu|fl)\. ?(ft|in|yd|mi|m|km|oz)(?!\w)\.?", r"\1 \2"),
    rule(
        r"(?<!\w)((?:(?i:ratio|dilut|scale|odds|proportion)[a-z]*(?: [a-z]+){0,3}|"
        r"(?i:mix)[a-z]*(?: (?!(?:at|by|from|until|till) )[a-z]+){0,3})) (\d+):(\d+)"
        r"(?![\w:]| ?[AaPp]\.?[Mm]\b)",
        r"\1 \2 to \3",
    ),
    rule(
        r"(?<![\w:.])(?!\d\d:[0-5]\d (?:mix|model))(\d+):(\d+)(?= (?:scale|ratio|odds|mix|model|dilution)\b)",
        r"\1 to \2",
    ),
    rule(r"(?<!\w)((?:[Ee]q|[Ff]ig|[Rr]ef|[Tt]ab)[a-z]*\.? [(\[]\d+[)\]]) ?[-–—] ?(?=[(\[]\d)", r"\1 to "),
    rule(r"(?:(?<=[Oo]pen )|(?<=able ))24-7(?!\d)|(?<!\w)24-7(?= support)", "24/7"),
    rule(r"(?<!\w)([$€£])-(?=\d)", r"-\1"),
    rule(r"(?<=\d) / (?=\d)", " divided by "),
    rule(r"(?:(?<=^)|(?<=[\s(]))\+ (?=\d)(?<![\w)] \+ )", "plus "),
    rule("log([₀-₉]+) ?", r"log base \1 of "),
    # A score, or one of several: rated 4/5, 4.5/5, 10/10, 3/5 stars, page 3/10.
    rule(
        r"(?<![\w.])(\d+(?:\.\d)?)/(5|10)(?= stars?\b)|(?<![\w./])(\d\.\d|10)/(5|10)(?![\w/])",
        lambda m: f"{m[1] or m[3]} out of {m[2] or m[4]}",
    ),
    rule(
        r"(?<!\w)((?:[Rr]ated|[Rr]ating|[Ss]cored?|[Gg]ot|[Gg]ave (?:it|them)|[Gg]rade|[Mm]arks?):?"
        r"(?: an?| of)?) (\d+(?:\.\d+)?)/(\d+)(?![\w/]|[.,]\d)",
        r"\1 \2 out of \3",
    ),
    rule(
        r"(?<!\w)([Pp]age|[Ss]tep|[Pp]art|[Ss]lide|[Qq]uestion|[Ll]esson|[Rr]ound) (\d+)/(\d+)(?![\w/])",
        r"\1 \2 of \3",
    ),
    rule(r"(?<=\d)-?[kK]t?(?= (?:\w+ )?gold\b)", " karat"),
    rule(r"(?<=\d)(?:°| degrees?) (?=[CF](?![\w.]))", "°"),
    rule(r"(?<=\d)(/\d{1,3})(?:st|nd|rd|th)s?(?!\w)", r"\1"),
    rule(r">=", "≥"),
    *SPELLINGS,
    # m s⁻¹ as m/s.
    rule(
        rf"(?<=[A-Za-zΩ²³¹])[ ·⋅](?=[A-Za-zμÅΩ°]{{1,5}}[⁻^])({_UNIT})(?:⁻([¹²³])|\^-([123]))",
        lambda m: f"/{m[1]}{m[2].strip('¹') if m[2] else m[3].strip('1').translate(_RAISED)}",
    ),
    rule(r"(?<!\d )(?:(?<=^)|(?<=[\s(]))–(?=\d)", "-"),
    # What stands before an amount alone, while its unit is written as a sign.
    rule(
        r"((?:(?<=^)|(?<=[\s(])(?<![\w)²³πα-ω|] ))|(?<=[A-Za-z]{2} )(?=\S\S)"
        r"|(?<!\w)(?:is|are|was|be|of|to|than|(?i:use|take|keep|need|requires?|want|have|has|with|at|for|by|eat|"
        r"drink|add|set|get|buy|only|allow|contains?|stay|wait)) )([<>≥≤≈])\s?(?=[\d$€£.])",
        lambda m: f"{m[1]}{_BOUNDS[m[2]]} ",
    ),
    rule(r"(?:(?<=^)|(?<=[\s(]))~\s?(?=[\d$€£.])", "about "),
    rule(r"(?<![\w.])(\d+(?:\.\d+)?)[eE]([-+]?\d{1,3})(?![\w.])", r"\1 × 10^\2"),
    rule(r"!=|<>", "≠"),
    rule(r"(?<=\w)\s?->\s?(?=\w)", "→"),
    rule("[₀-₉]+", lambda m: m[0].translate(SUBSCRIPTS)),
)
MONEY: tuple[Rule, ...] = (
    rule(rf"({any_of(CURRENCIES)})\.(?=\d\d(?!\d))", r"\g<1>0."),
    # $3m-$5m, $3m-5m.
    rule(
        rf"({any_of(CURRENCIES)})({NUM})(bn|mn|tn|[kKmMbBT]) ?{TO} ?(?:{any_of(CURRENCIES)})?"
        rf"(?={NUM}\3(?!\w))",
        r"\1\2\3 to \1",
    ),
    rule(
        rf"(?P<sign>(?<!\w)[-+])?(?<![A-Za-z])(?P<cur>{any_of(CURRENCIES)})\s?(?P<low>{NUM})"
        rf"(?: ?{TO} ?(?:{any_of(CURRENCIES)})?(?P<high>{NUM}))?"
        rf"(?:[ -](?P<scale>{_SCALE_WORDS})(?!\w)|(?P<letter>bn|mn|tn|"
        rf"[kKmMbBT])(?!\w))?(?P<dashed>-(?=[a-z])| (?=bills?\b|notes?\b))?",
        lambda m: _money(m) + (" " if m["dashed"] else ""),
    ),
    rule(
        rf"(?<![\w.,])({NUM})(bn|[kKMm])?\s?({any_of(CURRENCIES)})(?![\w])",
        lambda m: (
            f"{number(m[1])} {SCALES[m[2]] + ' ' if m[2] else ''}"
            f"{_plural(CURRENCIES[m[3]], bool(m[2]) or _several(m[1]))}"
        ),
    ),
    rule(rf"(?<![\w.,])({NUM}) ?¢", lambda m: f"{number(m[1])} {'cents' if _several(m[1]) else 'cent'}"),
)
UNITS_AND_SHARES: tuple[Rule, ...] = (
    # A 6-ft. ladder, 30 yrs. at.
    rule(rf"(?<=\d)([ -]?{_FREE})\.(?= [a-z(])", r"\1"),
    rule(r"(?<=\d) ?[xX] ?(?=\d+(?:\.\d+)? ?=)", " times "),
    # 1920x1080, 2 x 500 mg, 10 ft x 12 ft; vision of 20/40.
    rule(
        r"(?<=\d) ?[xX] ?(?=\d)|(?<=\d{3}) ?× ?(?=\d{3})|"
        r"(?:(?<=[\d ](?:ft|in|cm|mm))|(?<=[\d ]m)) ?[xX×] ?(?=\d)",
        " by ",
    ),
    rule(r"(?<![\w./])20/(15|25|[3-8]0|200)(?![\w/])", r"20 \1"),
    # 11h 40m, 11 st 4 lb.
    rule(r"(?<![\w.,])(\d+) ?h ?(\d{1,2}) ?m(?:in)?(?!\w)", r"\1 hr \2 min"),
    rule(r"(?<![\w.,])(\d+) ?st (?=\d+ ?lbs?(?!\w))", r"\1 stone "),
    rule(r"(?<![\w.])(\d{2,3})/(\d{2,3})(?= ?mmHg)", lambda m: f"{cardinal(m[1])} over {m[2]}"),
    rule(
        r"(?<![\w.])(\d) ?ft\.? ?(\d{1,2}) ?in(?:\.|(?!\w))",
        r"\1 feet \2 inches",
    ),
    rule(r"(?<![\w.])(\d)['′’] ?(\d{1,2}(?:\.\d+)?)[\"″”]", r"\1 foot \2"),
    rule(r"(?<=\d)° ?(\d{1,2})['′’]", r" degrees \1 minutes"),
    rule(r"(?<=minutes) ?(\d{1,2}(?:\.\d+)?)[\"″”]", r" \1 seconds"),
    rule(r"(?:(?<=minutes)|(?<=seconds)) ?([NSEW])(?!\w)", lambda m: f" {BEARINGS[m[1]]}"),
    rule(r"(?<![\w.])([4-7])['′’](\d|1[01])(?![\w'\"])", lambda m: f"{cardinal(m[1])} foot {cardinal(m[2])}"),
    rule(r"(?<![\w.])(\d+)['′] ?[x×] ?(\d+)['′]", r"\1 by \2 feet"),
    rule(r"(?<![\w./])((?:\d{1,3}[ -])?\d{1,2}/\d{1,2}) ?[\"″](?=$|[\s,.;)])", r"\1 inch"),
    rule(r"(?<![\w.])(\d+)[\"″] ?[x×] ?(\d+)[\"″]", r"\1 by \2 inches"),
    rule(
        rf"(?<![\w./])(?:(\d{{1,3}})[ -])?(\d\d?)/(\d\d?|(?<=\b1/)\d{{3,4}})[ -]?({_FREE})(?![\w²³'/])",
        lambda m: (_mixed(m) if m[1] else _fraction_of(m[2], m[3])) + f" {_named_unit(m[4], bool(m[1]))}",
    ),
    # 10⁻³ mol, cells/mL.
    rule(
        rf"(?<=[{SUPERSCRIPTS}]) ?(?P<unit>{_PRODUCT})(?:/{_PER})?(?![\w²³'/])",
        lambda m: f" {_unit_alone(m)}",
    ),
    rule(
        rf"(?:(?<=[a-z]s)|(?<=pence)|(?<=yuan)|(?<=yen)|(?<=dollar)|(?<=[A-Z]{{2}})(?=/[a-z]))/({_FREE})(?![\w/])",
        lambda m: f" per {UNITS[m[1]]}",
    ),
    rule(
        r"(?<!\w)((?:(?:I|US|SR)-|(?:Interstate|Route|Highway|Hwy\.?) )\d{1,3}) ([NSEW])(?!\w)",
        lambda m: f"{m[1]} {BEARINGS[m[2]]}",
    ),
    rule(r"(?<=\d)° ?([NSEW])(?!\w)", lambda m: f" degrees {BEARINGS[m[1]]}"),
    rule(
        rf"(?<![\w.'\"])(?<![A-Za-z]-)(\d{{1,3}}(?:\.\d+)?)(?: ?{TO} ?(\d{{1,3}}(?:\.\d+)?))?"
        r"(?:[\"″](?=$|[\s,.;)])|['′](?![\w']))",
        _length,
    ),
    rule(
        rf"(?<![\w.,])(?P<low>{SIGNED}|\.\d+)(?: ?°[CF]?)?(?: ?{TO} ?(?P<high>[-+]?{NUM}))?(?P<dash>[ -]?)"
        rf"(?P<unit>{_PRODUCT})(?:/{_PER})?(?![\w²³']|/[A-Za-z])",
        _unit,
    ),
    rule(
        rf"(?<![\w.,])(?P<low>{SIGNED})(?:{TO}(?P<high>{NUM}))?(?P<dash> )(?P<unit>in|t|A)(?P<base>(?!))?"
        rf"(?P<per>(?!))?(?:\.(?= [a-z])|(?=$|[,.;)]| (?:long|wide|tall|high|deep|by \d)))",
        _unit,
    ),
    rule(
        rf"(?<![\w./-])(?!W/L)(?=[A-Za-zμÅΩ°]{{1,5}}[·⋅/²³])(?P<unit>{_ALONE}(?=[·⋅/])(?:[·⋅]{_UNIT})*|{_POWERED})(?:/{_PER})?"
        r"(?![\w²³'/(-])",
        _unit_alone,
    ),
    rule(rf"(?<![\w.,])({SIGNED})%?(?: ?{TO} ?({NUM}))? ?%", lambda m: f"{_span(m[1], m[2])} percent"),
)
LEFT: tuple[Rule, ...] = (
    rule(rf"(?<=[a-z])/(?=(?:{_PER_WORDS})\b)", " per "),
    # 1 1/2, 3/4, 120/80.
    rule(r"(?<![\w./])(\d{1,3}) (\d{1,2})/(\d{1,2})(?![\w/])", _mixed),
    rule(r"(?<![\w./])(\d{1,4})/(\d{1,4})(?![\w/])", lambda m: _fraction_of(m[1], m[2])),
    rule(
        rf"(?<![\w.,])(\d{{1,3}}(?:,\d{{3}})+|\d+)(?:st|nd|rd|th)(?:( ?{TO} ?)(?=\d+(?:st|nd|rd|th))|(?!\w))",
        lambda m: ordinal(m[1].replace(",", "")) + (" to " if m[2] else ""),
    ),
    rule(r"(?<![\w.,])(\d+(?:\.\d+)?)(?:(bn)(?!\w)|([kM])(?=\+| [a-z]|(?<=\.\d.)(?!\w)))", _scaled),
    rule(r"(?<![\w.,])(\d{2,}|\d+\.\d+)(K)(?=\+| (?!race|run|walk|in |under )[a-z])", _scaled),
    rule(
        rf"(?<!\w)({BOOKS}) (\d{{1,3}}):(\d{{1,3}})(?![\w:-])",
        r"\1 \2 \3",
    ),
    # Psalm 23:1-4.
    rule(
        rf"(?<![\w:.])(\d{{1,3}}):(\d{{1,3}}){TO}(\d{{1,3}})(?![\w:])",
        r"\1 \2 to \3",
    ),
    rule(rf"(?<![\w.,:/-])({NUM}) ?{TO} ?({NUM})(?![\w/-]|[.,:]\d)", _range),
    rule(r"(?<=[A-Za-z\d])(?<!-)[–—](?=\d)", " to "),
    spoken(
        r"(?<![\w:.])\d+(?:\.\d+)?(?::\d+(?:\.\d+)?)+(?![\w:]|\.\d)",
        lambda written: " to ".join(map(number, written.split(":"))),
    ),
    spoken(r"(?<![\w.,)-])[-+](?=[\d.])(?:(?P<n>\d[\d,]*(?:\.\d+)?|\.\d+))", number),
    rule(r"(?<!\w)\.\d+(?!\.)", lambda m: "point " + by_one(m[0])),
    rule(rf"{THOUSANDS}(?:\.\d+)?|\d+(?:\.\d+)?", _left),
    rule(any_of(NAMED_SIGNS), lambda m: f" {NAMED_SIGNS[m[0]]} "),
    rule(GREEK_ALONE, lambda m: f" {' '.join(GREEK.get(letter, letter) for letter in m[0])} "),
)
