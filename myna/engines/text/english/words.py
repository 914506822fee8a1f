"""English readings of abbreviations, acronyms, codes, numbers that are names, and words of one spelling
and two sounds, spelled so that espeak-ng says the one that is meant."""

import re
from collections.abc import Iterator

from myna.engines.text.english.numerals import by_one, cardinal, in_pairs, ordinal
from myna.engines.text.english.tables import (
    ABBREVIATIONS,
    AS_WORDS,
    BY_ONE_AFTER,
    FILE_ENDINGS,
    MONARCHS,
    NAMES,
    NUMBERED,
    ROMAN_AFTER,
    SAME_WORDS,
    SPELLED,
    SPOKEN_ENDINGS,
    WITH_STOPS,
)
from myna.engines.text.rule import Rule, any_of, roman_value, rule, spoken

_PARTS = {
    "OBJECT": (
        "(?:the|a|an|it|them|this|that|these|those|your|my|our|his|her|all|its|their|every|each|up|down)"
    ),
    "AUXILIARY": (
        "(?:to|will|would|can|could|should|must|may|might|shall|please|Please|don't|Don't|not|never|let's|Let's|"
        "and|or|then)"
    ),
    "PAST": (
        "(?:yesterday|last (?:night|week|month|year|summer|winter|spring|fall|time)|ago|earlier today|once|"
        "as a child)"
    ),
}
"""The parts of the patterns below, by their names there."""
_HETERONYMS = r"""
# read, in the past: I read it yesterday
\1_red (?<!\w)(I|[Yy]ou|[Ww]e|[Tt]hey) read(?= [^.!?;]{0,60}\bPAST\b)
\1_red (?<!\w)([Hh]e|[Ss]he|[Ii]t|[Ww]ho|[Nn]obody|[Ee]veryone) read(?!\w)
\1_red (?<!\w)([Ww]as|[Ww]ere|[Bb]een|[Ii]s|[Bb]eing|[Gg]ot|[Ww]ell|'ve|'d) read(?= (?:by|to|aloud|out|in|as))
# close, the verb
\1loze (?:(?<=^)|(?<=[.!?;:,] )|(?<=[\"“(]))([Cc])lose(?= OBJECT\b)
\1_cloze (?<!\w)(AUXILIARY) close(?= (?!to\b|by\b|enough\b|friend|together))
# live, the adjective
\1_lyve (?<!\w)([Gg]o|[Gg]oes|[Gg]oing|[Ww]ent|[Gg]one|[Ii]s|[Aa]re|[Ww]as|[Ww]atch(?:ed|ing)?|[Ss]hown|
    [Pp]erform(?:s|ed|ing)?|[Bb]roadcast|[Ss]tream(?:s|ed|ing)?|[Pp]lay(?:s|ed|ing)?|[Aa]ired) live(?!\w)
\1yve (?<!\w)([Ll])ive(?= (?:show|music|stream|broadcast|tv|TV|television|concert|event|band|performance|
    audience|coverage|chat|wire|ammunition|update|video|record|action|demo|session|feed|report|album|version|
    game|sport|on air|on stage|on TV|from the)s?)
# lead, the metal
\1ed (?<!\w)([Ll])ead(?= (?:pipe|paint|poison|acid|pencil|batter|weight|shield|free|bullet|ore|level|
    exposure|content|mine|glass|crystal|ball|solder|shot))
\1_led (?<!\w)((?:made (?:of|from)|contains?|containing|molten|melted|heavy as|tons? of|of)) lead
    (?=[\s.,;!?]|$)(?! (?:the|a|an|to)\b)
# wind, wound, tear, bow, dove, minute, bass, resume: the rarer sound
\1ined (?<!\w)([Ww])ind(?= (?:OBJECT\b|through\b|back\b|around\b))
\1ines (?<!\w)([Ww])inds(?= (?:through|its|up|down|around|along))
\1_wownd (?<!\w)([Hh]e|[Ss]he|[Ii]t|[Ww]e|[Tt]hey|I|[Rr]oad|[Rr]iver|[Pp]ath) wound(?!\w)
wownd (?<!\w)wound(?= (?:up|down|around|through|its way|the clock|the watch))
\1are (?<!\w)([Tt])ear(?= (?:OBJECT\b|apart\b|off\b|out\b|open\b|into\b|through\b|away\b|at\b|along\b))
\1_tare (?<!\w)((?:[Ww]ear and|[Tt]o|[Dd]on't|[Ww]ill|[Cc]an)) tear(?!\w)
\1are (?<!\w)([Tt])ear(?= in (?:the|his|her|my) (?:shirt|dress|fabric|muscle|pants|jacket|sleeve|paper))
\1_bough (?<!\w)(take|takes|took|taking|to|must|a deep|the ship's|ship's|the) bow
    (?=[.,;!?]|$| (?:to|before|down|of the (?:ship|boat)))
\1ough (?<!\w)([Bb])ow(?= (?:to|before|down))
dohv (?<!\w)dove(?= (?:in|into|down|off|under|deep|for|right|head))
\1y_newt (?<!\w)([Mm])inute(?= (?:detail|amount|difference|quantit|particle|trace|change|fraction|crack|
    variation))
\1_bas (?<!\w)((?:[Ss]ea|[Ss]triped|[Ll]argemouth|[Ss]mallmouth|[Bb]lack|[Ff]ish for|[Cc]aught a|
    [Gg]rilled)) bass(?!\w)
\1_résumé (?<!\w)((?:[Mm]y|[Yy]our|[Hh]is|[Hh]er|[Aa]|[Tt]he|[Tt]heir|[Oo]ur)) resume
    (?=[.,;!?]|$| (?:and|is|was|to|for|with|in|on|shows|should|that|looks))
"""
"""How to spell a word of two sounds so that espeak-ng says the one that is meant, with _ for a space, and the
pattern in which it is. espeak-ng knows most after `to`, a pronoun or an article; these it gets wrong. A line
that begins with spaces continues the one before, and one with # is a comment."""
_SHOUTED = re.compile(r"(?<![A-Za-z])[A-Z]{2,}(?![A-Za-z])")
_VOWEL = re.compile("[AEIOUY]")
_ACRONYM = re.compile(r"(?<![A-Za-z'’-])([A-Z]{2,6})(s?)(?![A-Za-z])")


def _respellings(rows: str) -> Iterator[Rule]:
    for row in re.sub("\n +", "", rows).strip().split("\n"):
        if row.startswith("#"):
            continue
        respelling, _, pattern = row.partition(" ")
        for name, part in _PARTS.items():
            pattern = pattern.replace(name, part)
        yield rule(pattern, respelling.replace("_", " "))


def _grouped(match: re.Match[str]) -> str:
    """The digits of a phone one by one, with a pause between the groups."""
    groups = (by_one(group) for group in re.findall(r"\d+", match[0]))
    return ("plus " if match[0][0] == "+" else "") + ", ".join(groups)


def _version(match: re.Match[str]) -> str:
    before = "version " if match[1] else ""
    return before + " point ".join(cardinal(part) for part in match[2].split("."))


def name_number(digits: str) -> str:
    """The number of a name: B-52, A380, RTX 4090, 007."""
    if digits[0] == "0":
        return by_one(digits, "oh")
    if len(digits) in (3, 4):
        return in_pairs(digits)
    return cardinal(digits) if len(digits) < 3 else by_one(digits)


def _named(match: re.Match[str]) -> str:
    after = " " if match.string[match.end() : match.end() + 1].isalpha() else ""
    return f"{match[1]} {name_number(match[2])}{after}"


def _abbreviation(match: re.Match[str]) -> str:
    """A full stop at the end of the text remains."""
    ends = not match.string[match.end() :].strip()
    if ends and match[1] in SAME_WORDS:
        return match[0]
    return ABBREVIATIONS[match[1]] + ("." if ends else "")


def _street(match: re.Match[str]) -> str:
    return f"{match[1]} {'Street' if match[2] == 'St' else 'Drive'}" + (match[3] or "")


def _acronym(match: re.Match[str]) -> str:
    """The letters of an acronym; GPUs is G P U's."""
    letters, ending = match[1], match[2]
    if letters in AS_WORDS or (len(letters) > 5 and letters not in SPELLED):
        return match[0]
    if letters in SPELLED or not _VOWEL.search(letters) or (ending and len(letters) <= 4):
        return " ".join(letters) + ("'s" if ending else "")
    return match[0]


HETERONYMS: tuple[Rule, ...] = tuple(_respellings(_HETERONYMS))
CODES: tuple[Rule, ...] = (
    rule(
        r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?!\d|\.\d)",
        lambda m: " dot ".join(by_one(part) for part in m[0].split(".")),
    ),
    rule(r"(?:(?<!\w)([vV])\.? ?)?(?<![\d.])(\d+(?:\.\d+){2,})(?!\d)", _version),
    rule(r"(?<!\w)v(?=\d+(?:\.\d+)?(?![\w.]))", "version "),
    # 9-1-1, 1-800-FLOWERS, 978-3-16-148410-0, H.264, NY 10001.
    spoken(r"(?<![\w-])\d(?:-\d){2,}(?![\w-])", by_one),
    rule(r"(?<![\w-])1-(8\d\d)-(?=[A-Z])", lambda m: f"one {in_pairs(m[1])} "),
    rule(r"(?<![\w-])\d+(?:-\d+){3,}(?![\w-])", _grouped),
    rule(r"(?<![\w.])802\.(?=1\d[a-z])", "eight oh two point "),
    rule(r"(?<![A-Za-z.])([A-Z])\.(\d{3})(?!\w)", lambda m: f"{m[1]} {by_one(m[2])}"),
    spoken(r"(?<=\b[A-Z]{2} )\d{5}(?!\w|[.,-]\d)", by_one),
    rule(
        r"(?<![\w.])(?:\+\d{1,3}[ .-]?|\d{1,2}[ .-])?(?:\(\d{3}\) ?|\d{3}[ -.])?\d{3}[-.]\d{4}(?![\w-]|\.\d)",
        _grouped,
    ),
    rule(r"(?<![\w.])\+\d{1,3}(?:[- ]?(?:\(\d{1,4}\)|\d{1,5})){2,5}(?![\w.%])", _grouped),
    rule(
        r"(?<![\w.-])\d{4}([ -])\d{4}(?:\1\d{4}){1,3}(?!\w|[.-]\w)|"
        r"(?<![\w.,-])\d{3}-\d\d-\d{4}(?![\w-])|(?<![\w.,-])\d{3}([ -])\d{3}\2\d{3,4}(?![\w-]|[.,]\d)",
        _grouped,
    ),
    rule(
        rf"(?<!\w)((?:{BY_ONE_AFTER})(?: number)?[: #]{{1,2}})(\d{{3,}})(?![\w:/%-]|[.,]\d)",
        lambda m: m[1].replace("#", "number ") + by_one(m[2]),
    ),
    rule(r"(?<!\w)(40[13])\(?([kb])\)?(?!\w)", lambda m: f"{in_pairs(m[1])} {m[2]}"),
    rule(r"(?<!\w)([Ff]light [A-Z]{2}) (\d{3,4})(?![\w:/%]|[.,]\d)", _named),
    rule(r"(?<![\w.,:/-])911(?![\w:/%-]|[.,]\d)", "nine one one"),
    rule(rf"(?<!\w)((?:{NAMES}) ?#?)(?<! )(?<!#) ?(\d{{3,4}})(?![\w:/%]|[.,]\d)", _named),
    rule(r"(?<![\w.,:/-])0\d{2,}(?![\w:/%-]|[.,]\d)", lambda m: by_one(m[0], "oh")),
    # file.txt, self.name, .NET, @john, foo().
    rule(
        rf"(?<=\w)\.({FILE_ENDINGS})(?!\w)",
        lambda m: f" dot {m[1] if m[1] in SPOKEN_ENDINGS else ' '.join(m[1].upper())}",
    ),
    rule(r"(?<=[A-Za-z_]{2})\.(?=[A-Za-z_]{3})(?![A-Z][a-z])", " dot "),
    rule(r"(?:(?<=^)|(?<=\s))\.(?=[A-Za-z]{2})", "dot "),
    rule(r"(?<!\w)@(?=\w)", "at "),
    rule(r"(?<=\w)\(\)", ""),
    rule(r"(?<=[a-z])_(?=[a-z])", " "),
)
"""After addresses. `Room 101`, `call 911`."""
WORDS: tuple[Rule, ...] = (
    rule(r"(?<!\w)(UTC|GMT)-(?=\d)", r"\1 minus "),
    rule(rf"(?<![\w.]){any_of(WITH_STOPS)}(?![A-Za-z])(?!(?<=[a-z])\.\w)", lambda m: WITH_STOPS[m[0]]),
    rule(r"№ ?(?=\d)|(?<![\w&])#(?=\d)", "number "),
    rule(rf"(?<!\w)({any_of(NUMBERED)})\. ?(?=\d)", lambda m: f"{NUMBERED[m[1]]} "),
    rule(r"(?<!\w)(Vols?|vols?|Ch|ch|Chap)\. ?(?=[IVX])", lambda m: f"{NUMBERED[m[1]]} "),
    rule(
        r"(?<![\w.])([A-Z][a-z]+|\d(?:st|nd|rd|th)) (St|Dr)(?:\.|(?=$|,))(?! [A-Z][a-z])( (?=[a-z])|)",
        _street,
    ),
    rule(r"(?<!\w)St\.? (?=[A-Z])", "Saint "),
    rule(r"(?<!\w)Dr\.? (?=[A-Z])", "Doctor "),
    rule(r"(?<!\w)dept\. of", "department of"),
    rule(rf"(?<![\w.])({any_of(ABBREVIATIONS)})\.(?!\w)", _abbreviation),
    rule(r"(?<![\w.])(Mr|Mrs|Ms|Mt|Ft|Sgt|Capt|Prof|Jr|Sr|vs)(?![\w.'])", lambda m: ABBREVIATIONS[m[1]]),
    rule(r"(?<=day) ?[-–] ?(?=(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun))", " to "),
    rule(
        rf"(?<!\w)((?:{ROMAN_AFTER})\.?) ([IVXLC]{{1,6}})(?![\w'’])",
        lambda m: f"{m[1]} {cardinal(str(roman_value(m[2])))}",
    ),
    rule(
        rf"(?<!\w)((?:King |Queen |Pope |Emperor )?(?:{MONARCHS})) "
        r"((?!I[ ,](?!of )[a-z'])[IVX]{1,5})(?![\w'’])",
        lambda m: f"{m[1]} the {ordinal(str(roman_value(m[2])))}",
    ),
    rule(r"(?<![A-Za-z0-9])(CO|NO|SO|NH|CH)(\d)(?!\w)", lambda m: f"{' '.join(m[1])} {cardinal(m[2])}"),
    rule(r"(?<!\w)WW(I{1,2})(?!\w)", lambda m: f"World War {cardinal(str(len(m[1])))}"),
    # B2B, F-16, B12, A380, COVID-19, iPhone 15.
    rule(r"(?<![A-Za-z0-9])([BCDEGOPSV])2([BCDEGOPSV])(?![A-Za-z0-9])", r"\1 to \2"),
    rule(
        r"(?<![A-Za-z0-9])(I|US|M|A|F|B|C|E|X|MiG|Su|GPT|COVID|SARS|MH|BA|AA|RTX|"
        r"GTX)[- ](\d{1,4})(?![\w:/%]|[.,]\d|-\d)",
        _named,
    ),
    rule(r"(?<![\w.-])([A-Z][A-Za-z]*)-?(\d{1,4})(?![\w:/%]|[.,]\d|-\d)", _named),
    rule(r"(?<![\w.-])([A-Za-z]+)-?(\d{1,4})(?![\d:/%]|[.,]\d|-\d)", _named),
    rule(r"(?<!\w)([RG]TX|RX) (\d{3,4})(?=[A-Za-z]{1,2}(?!\w))", _named),
    rule(r"(?<!\w)([A-F])([-+])(?=$|[\s.,;)])", lambda m: f"{m[1]} {'plus' if m[2] == '+' else 'minus'}"),
    rule(r"(?<![A-Za-z0-9])(i|mac|iPad|watch|tv)OS(?!\w)", r"\1 O S"),
    rule(r"(?<![\w.])nginx(?!\w)", "engine X"),
    rule(r"(?<![A-Za-z])([A-Z])#", r"\1 sharp"),
    rule(r"(?<![A-Za-z])([A-Za-z])\+\+", r"\1 plus plus"),
    rule(
        r"(?<![A-Za-z])([A-Z]{1,3})&([A-Z]{1,3})(?![A-Za-z])",
        lambda m: f"{' '.join(m[1])} and {' '.join(m[2])}",
    ),
    rule(r"\s?&(?!\w{2,8};)\s?", " and "),
)
"""Abbreviations, and names with numbers."""


def acronyms(text: str) -> str:
    """The text with its acronyms by their letters; a text of which most words are capitals is shouted."""
    capitals = _SHOUTED.findall(text)
    words = re.findall(r"[A-Za-z]{2,}", text)
    if len(capitals) > 1 and 2 * len(capitals) > len(words):
        known = [word for word in capitals if word in SPELLED or not _VOWEL.search(word)]
        if len(known) < len(capitals):
            return text
    return _ACRONYM.sub(_acronym, re.sub(r"(?<!\w)OK(?!\w)", "okay", text))
