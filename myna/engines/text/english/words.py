"""English readings of abbreviations, acronyms, codes, and numbers that are names."""

import re

from myna.engines.text.english.numerals import by_one, cardinal, in_pairs, ordinal
from myna.engines.text.english.tables import (
    ABBREVIATIONS,
    AS_WORDS,
    BEARINGS,
    BEGINNINGS,
    BY_ONE_AFTER,
    ELEMENTS,
    ENDINGS,
    FILE_ENDINGS,
    MONARCHS,
    NAMES,
    NUMBERED,
    ROMAN_AFTER,
    SAME_WORDS,
    SHORT_WORDS,
    SPELLED,
    SPOKEN_ENDINGS,
    WITH_STOPS,
)
from myna.engines.text.rule import EXPONENTS, ROMAN, Rule, any_of, roman_value, rule, spoken

_STREET = (
    r"(?:[A-Z][a-z'’]+ |\d+(?:st|nd|rd|th) ){1,3}(?:St|Ave|Blvd|Rd|Dr|Ln|Pl|Ct|Pkwy|Street|Avenue|Boulevard|"
    r"Road|Drive|Lane|Place|Court|Parkway|Terrace|Way)(?!\w)"
)
_START = r"(?:(?<=^)|(?<=[\s(\"“]))"
_HEALTH = re.compile(
    r"(?<![A-Za-z-])((?:[Tt]he|THE) |\()WHO(?!\w)|(?<![A-Za-z-])WHO(?=-[a-z])|"
    r"(?<!\w)((?:by|from|of|to|at) )WHO(?=[.,;)]|$)|(?<=[A-Z]{2} and )WHO(?!\w)|"
    r"(?<![A-Za-z-])WHO(?= (?:said|says|issued?s?|declare[sd]|announce[sd]|report(?:s|ed)?|recommend(?:s|ed)|"
    r"warn(?:s|ed)|estimate[sd]?|publishe[sd]|launche[sd]|approve[sd]|classifie[sd]|guid(?:ance|elines?)|"
    r"officials?|experts?|data|[Dd]irector)(?!\w)(?![^.!?]{0,100}\?))"
)
"""WHO that is the organization, rather than the pronoun in capitals."""
_SHOUTED = re.compile(r"(?<![A-Za-z])[A-Z]{2,}(?![A-Za-z])")
_VOWEL = re.compile("[AEIOUY]")
_ACRONYM = re.compile(r"(?<![A-Za-z'’-])([A-Z]{2,6})(s?)(?![A-Za-z])")
_NO_WORD = re.compile(
    rf"(?!{any_of(BEGINNINGS)})[^AEIOUY]{{2}}|[A-Z]*[^AEIOUY]{{2}}(?![A-Z])(?<!{any_of(ENDINGS)})"
)
"""Letters that no English word begins or ends with."""


def _grouped(written: str) -> str:
    """The digits of a phone one by one, with a pause between the groups, but none after a single digit."""
    groups = (by_one(group) + ("," if group[1:] else "") for group in re.findall(r"\d+", written))
    return ("plus " if written[0] == "+" else "") + " ".join(groups).removesuffix(",")


def name_number(digits: str) -> str:
    """The number of a name: B-52, A380, RTX 4090, 007."""
    if digits[0] == "0":
        return by_one(digits, "oh" if digits[1:] else "zero")
    if len(digits) in (3, 4):
        return in_pairs(digits)
    return cardinal(digits) if len(digits) < 3 else by_one(digits)


def _named(match: re.Match[str]) -> str:
    after = re.match(r"(?!s\b)[A-Za-z]", match.string[match.end() : match.end() + 2])
    return f"{match[1]} {name_number(match[2])}{' ' if after else ''}"


def _abbreviation(match: re.Match[str]) -> str:
    """A full stop at the end of the text remains."""
    ends = not match.string[match.end() :].strip()
    if match[1] in SAME_WORDS and (ends or match[0] == match[1]):
        return match[0]
    return ABBREVIATIONS[match[1]] + ("." if ends else "")


_STREETS = {"St": "Street", "Dr": "Drive", "Pl": "Place", "Ct": "Court", "Cir": "Circle", "Ter": "Terrace"}


def _acronym(match: re.Match[str]) -> str:
    """The letters of an acronym; GPUs is G P U's."""
    letters, ending = match[1], match[2]
    if letters in AS_WORDS:
        return letters.lower() + ending if len(letters) == 3 else match[0]
    unknown = len(letters) > 5 and letters not in SPELLED
    spelled = letters in SPELLED or not _VOWEL.search(letters) or (ending and len(letters) <= 4)
    short = len(letters) == 2 or (len(letters) == 3 and letters[0] in "AEIOU")
    unusual = _NO_WORD.match(letters) or (short and letters not in SHORT_WORDS)
    if unknown or not (spelled or unusual):
        return match[0]
    if ending and letters[-1] == "I":
        return " ".join(letters[:-1]) + " eyes"
    return " ".join(letters) + ("'s" if ending else "")


def _formula(written: str) -> str:
    """The letters and numbers of a chemical formula, if it has a number or an element such as Na."""
    if not re.search(r"\d|Na|Cl|Ca|Fe|Cu|Zn|Ag|Br|Mg|Al|Li", written):
        return written
    return " ".join(
        cardinal(one) if one.isdigit() else one.upper() for one in re.findall(r"\d+|[A-Za-z]", written)
    )


def _path(written: str) -> str:
    """The slashes of a path; its full stops are left to the rules of file names."""
    return written.replace("~", "tilde").replace("/", " slash ").strip()


CODES: tuple[Rule, ...] = (
    rule(
        r"(?<![\w.])(\d{1,3}(?:\.\d{1,3}){3})(?::(\d{2,5})|/(\d\d?))?(?!\d|\.\d)",
        lambda m: (
            " dot ".join(by_one(part) for part in m[1].split("."))
            + (f" port {by_one(m[2])}" if m[2] else f" slash {cardinal(m[3])}" if m[3] else "")
        ),
    ),
    rule(r"(?<!\w)(?:v(?=\d+(?:\.\d+)?(?![\w.]))|[vV]\.? ?(?=\d+\.\d+\.\d))", "version "),
    spoken(
        r"(?<![\d.])(?!\d{3}\.\d{3}\.\d{4}(?!\d))\d+(?:\.\d+){2,}(?!\d)",
        lambda version: version.replace(".", " point "),
    ),
    # ISO 9001:2015; 221B Baker St.
    rule(r"(?<!\w)((?:ISO|IEC|EN|IEEE|DIN|ASTM)(?:/[A-Z]+)* \d[\d.-]*):(?=(?:19|20)\d\d(?!\d))", r"\1, "),
    rule(rf"(?<=\d) ([NSEW])\.?(?= {_STREET})", lambda m: f" {BEARINGS[m[1]]}"),
    rule(
        rf"(?<![\w.,$€£-])(?<!\b[IiBb][ny] )(\d{{3,4}})([A-Z]?)(?= (?:(?:nor|sou|ea|we)\w+ )?{_STREET})",
        lambda m: f"{in_pairs(m[1])} {m[2]}".strip(),
    ),
    rule(
        r"(?<!\w)([Aa]pt|Ste|Rm|Bldg)\.? (?=#?\d|[A-Z](?!\w))",
        lambda m: f"{ABBREVIATIONS[m[1].capitalize()]} ",
    ),
    rule(r"(?<=\d-\d{4}) ?x ?(?=\d{2,5}(?![\w.]))", " extension "),
    rule(r"(?<!\w)((?i:order|invoice|ticket|case|item|lot|claim|booking) )#(?=[A-Z]{1,4}-?\d)", r"\1number "),
    # 9-1-1, 1-800-FLOWERS, 978-3-16-148410-0, H.264, NY 10001.
    spoken(r"(?<![\w-])\d(?:-\d){2,}(?![\w-])", by_one),
    rule(r"(?<![\w-])1-(8\d\d)-(?=[A-Z])", lambda m: f"one {in_pairs(m[1])} "),
    spoken(r"(?<![\w-])\d+(?:-\d+){3,}(?![\w-])", _grouped),
    rule(r"(?<![\w.])802\.(?=1\d[a-z])", "eight oh two point "),
    rule(r"(?<![A-Za-z.])([A-Z])\.(\d{3})(?!\w)", lambda m: f"{m[1]} {by_one(m[2])}"),
    spoken(r"(?<=\b[A-Z]{2} )\d{5}(?:-\d{4})?(?!\w|[.,-]\d)", _grouped),
    spoken(
        r"(?<![\w.])(?:\+\d{1,3}[ .-]?|\d{1,2}[ .-])?(?:\(\d{3}\) ?|\d{3}[ -.])?\d{3}[-.]\d{4}(?![\w-]|\.\d)",
        _grouped,
    ),
    spoken(r"(?<![\w.])\+(?=(?:[ ()-]{0,2}\d){7})\d{1,3}(?:[- ]?\(?\d{1,5}\)?){2,5}(?![\w%]|\.\d)", _grouped),
    spoken(
        r"(?<![\w.-])\d{4}([ -])\d{4}(?:\1\d{4}){1,3}(?!\w|[.-]\w)|"
        r"(?<![\w.,-])\d{3}-\d\d-\d{4}(?![\w-])|(?<![\w.,-])\d{3}([ -])\d{3}\2\d{3,4}(?![\w-]|[.,]\d)",
        _grouped,
    ),
    spoken(r"(?<![\w.,-])(?:\(0\d{1,4}\) ?|0\d{2,4}[ -])\d{3,4}[ -]?\d{3,4}(?![\w-]|[.,]\d)", _grouped),
    # Call 112, PIN: 1234, your code is 0429, account no. 1234 5678.
    rule(
        rf"(?<!\w)((?:{BY_ONE_AFTER})(?: (?:number|code|plate|ID))?(?: [Nn]o\.)?(?: (?:is|was|on|at))?"
        r"[: #]{1,2}(?:[A-Z]{1,3}-?(?=\d))?)"
        r"(?=\d[\d -]*\d\d)(\d+(?:[ -]\d{2,})*)"
        r"(?![\w:/%-]|[.,]\d| (?!for|(?:has|is|was|ships)\b)[a-z]+s(?!\w)| people| percent| ?%)",
        lambda m: re.sub(r"#|[Nn]o\.", "number", m[1]).rstrip() + " " + _grouped(m[2]),
    ),
    rule(r"(?<!\w)(40[13])\(?([kb])\)?(?!\w)", lambda m: f"{in_pairs(m[1])} {m[2]}"),
    rule(r"(?<!\w)([Ff]light [A-Z]{2}) (\d{3,4})(?![\w/%]|[.,:]\d)", _named),
    rule(rf"(?<!\w)((?:{NAMES}) ?#?)(?<! )(?<!#) ?(\d{{3,4}})(?![\d/%]|[A-Za-z]{{2}}|[a-z]|[.,:]\d)", _named),
    spoken(r"(?<![\w.,])(?:[45]0\d(?= (?:[Ee]rror|Not Found)\b)|404(?= page\b))", name_number),
    rule(r"(?<![\w.,:/-])911(?![\w:/%-]|[.,]\d)", "nine one one"),
    rule(r"(?<![\w.,:/-])0\d{2,}(?![\w:/%-]|[.,]\d)", lambda m: by_one(m[0], "oh")),
    # file.txt, self.name, .NET, @john, foo().
    rule(
        rf"(?<=\w)\.({FILE_ENDINGS})(?!\w)",
        lambda m: f" dot {m[1] if m[1] in SPOKEN_ENDINGS else ' '.join(m[1].upper())}",
    ),
    rule(r"(?<=[A-Za-z_]{2})\.(?=[A-Za-z_]{3})(?![A-Z][a-z])", " dot "),
    rule(rf"{_START}\.(?=[A-Za-z]{{2}})", "dot "),
    rule(r"(?<!\w)@(?=\w)", "at "),
    rule(r"(?<!\w)\$(?=[A-Za-z_{(])", "dollar "),
    # Dial *67, press #; Ctrl+Alt+Del; 747-400; A–F.
    rule(
        r"(?<!\w)([Dd]ial|[Pp]ress|[Hh]it|[Uu]se|[Tt]he) ([*#])(\d{0,4})(?=[\s.,]|$)",
        lambda m: f"{m[1]} {'star' if m[2] == '*' else 'pound'} {by_one(m[3])}",
    ),
    rule(r"(?<!\w)(?:Ctrl|CTRL|ctrl)(?!\w)", "control"),
    rule(r"(?<!\w)(?:Cmd|CMD)(?=[ +])", "command"),
    rule(r"(?<=\+)Del(?!\w)", "delete"),
    rule(
        r"(?<![\w.-])(A?)([37]\d\d)-(\d00\d?)(?![\w-])",
        lambda m: f"{m[1]} {in_pairs(m[2])} {in_pairs(m[3])}".strip(),
    ),
    rule(r"(?<=SELECT )\*", "star"),
    rule(r"(?<![\w–])([A-Z])–([A-Z])(?![\w–])|(?<!\w)A-Z(?!\w)", lambda m: f"{m[1] or 'A'} to {m[2] or 'Z'}"),
    rule(r"(?<![\w&#/])#(?=[A-Za-z]|\d+[A-Za-z]{3})", "hashtag "),
    rule(r"(?<=localhost):(\d+)", lambda m: f" port {by_one(m[1])}"),
    spoken(rf"{_START}(?:~|\.{{1,2}})?(?:/[\w.@+-]*[A-Za-z][\w.@+-]*)+/?", _path),
    # Options of a command, but not the dashes around an insertion: the dog --a big one-- barked.
    rule(rf"{_START}--(?=[a-z])(?![^.!?]{{0,80}}\w--(?!\w))", "dash dash "),
    rule(r"(?<=[a-z] )-(?=[A-Za-z](?![\w']))(?![^.!?]{0,80}\w-(?![\w-]))", "dash "),
    rule(r"(?<=\w)_+(?=\w)|(?<![^\s(])_+(?=[a-z])|(?<=[a-z])_+(?=[\s.,)]|$)", " underscore "),
    rule(r"(?<=\w)\(\)", ""),
    # B2B, but H2SO4, NaCl, Ca²⁺.
    rule(r"(?<![A-Za-z0-9])([BCDEGOPSV])2([BCDEGOPSV])(?![A-Za-z0-9])", r"\1 to \2"),
    rule(r"(?<!\w)NaN(?!\w)", "nan"),
    spoken(rf"(?<![\w.-])(?:(?:{ELEMENTS})(?:\d{{1,2}}(?!\d))?){{2,8}}(?!\w)", _formula),
    rule(rf"(?<![\w.-])({ELEMENTS})(?=[²³⁴]?[⁺⁻](?![⁰¹²³⁴-⁹]))", lambda m: " ".join(m[1].upper())),
    rule(
        r"(?<=[A-Za-z\d])([²³⁴]?)([⁺⁻])(?![⁰¹²³⁴-⁹])",
        lambda m: f" {m[1].translate(EXPONENTS)} {'plus' if m[2] == '⁺' else 'minus'}",
    ),
)
"""After addresses. `Room 101`, `call 911`."""
WORDS: tuple[Rule, ...] = (
    rule(r"(?<!\w)(UTC|GMT)-(?=\d)", r"\1 minus "),
    rule(rf"(?<![\w.]){any_of(WITH_STOPS)}(?![A-Za-z])(?!(?<=[a-z])\.\w)", lambda m: WITH_STOPS[m[0]]),
    rule(r"№ ?(?=\d)|(?<![\w&])#(?=\d)", "number "),
    rule(
        rf"(?<!\w)((?i:{any_of(NUMBERED)})\. ?(?=[(\[]?\d|(?<=[lsh]\. )[IVX])|(?:Fig|Vol|Ch|Ep|Rte?) (?=\d))",
        lambda m: f"{NUMBERED[m[1].strip('. ').lower()]} ",
    ),
    rule(
        r"(?<![\w.])([A-Z][a-z'’]+|\d+(?:st|nd|rd|th)) (St|Dr|Pl|Ct|Cir|Ter)(?:\.|(?=$|[,)]))"
        r"(?! [A-Z][a-z])( (?=[a-z])|)",
        lambda m: f"{m[1]} {_STREETS[m[2]]}{m[3] or ''}",
    ),
    rule(r"(?<!\w)(St|Dr)\.? (?=[A-Z])", lambda m: "Saint " if m[1] == "St" else "Doctor "),
    rule(rf"(?<![\w.])({any_of(ABBREVIATIONS)})(?:\.(?!\w)|(?<![JGR]..|eat)(?=: ))", _abbreviation),
    rule(
        r"(?<=[a-z\d] )(?:Ave|Blvd|Rd|Hwy|Pkwy)(?=,|$| (?:[NS][EW]?|[EW]|and|at|in|near|to)(?!\w))|"
        r"(?<![\w.&])(?:Mr|Mrs|Ms|Mt|Ft|[Hh]wy|Sgt|Capt|Prof|Jr|Sr|vs|[Pp]ls)(?![\w.'])",
        lambda m: ABBREVIATIONS[m[0]],
    ),
    rule(r"(?<=day) ?[-–] ?(?=(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun))", " to "),
    rule(
        rf"(?<!\w)((?i:{ROMAN_AFTER})\.?) ({ROMAN}|[ivx]{{2,5}})(?![\w'’])",
        lambda m: f"{m[1]} {cardinal(str(roman_value(m[2].upper())))}",
    ),
    rule(
        r"(?<!\w)((?:King|Queen|Pope|Emperor|Tsar)(?: [A-Z][a-z]+){1,2} |"
        rf"(?:{MONARCHS}|John|Robert|Thomas|David)(?: [A-Z][a-z]+)? (?=[IVX]{{2}})|"
        rf"(?:{MONARCHS}) (?!I[ ,](?!of )[a-z']))"
        rf"({ROMAN})(?![\w'’])",
        lambda m: f"{m[1]}the {ordinal(str(roman_value(m[2])))}",
    ),
    rule(rf"(?<![\w-])({ROMAN})(?:st|nd|rd|th)?(?= [Cc]entur)", lambda m: ordinal(str(roman_value(m[1])))),
    # Rocky III, Civilization VI, XXI; but not an IV drip, Xi, XL.
    rule(
        r"(?<![\w.-])(?:(?!(?:An|The|This|His|Her|My|Your|Our|With)\s)([A-Z][a-z]+ )(?=IV|VI|IX|XI)|"
        rf"(?=II|VII|X[IVX]{{2}}|[XL]{{1,2}}[IVX]{{2}}))({ROMAN})(?![\w'’-])",
        lambda m: (m[1] or "") + cardinal(str(roman_value(m[2]))),
    ),
    rule(r"(?<![\w-])IV(?= [a-z]|s?[.,;)]|$)", "I V"),
    rule(r"(?<!\w)WW(I{1,2})(?!\w)", lambda m: f"World War {cardinal(str(len(m[1])))}"),
    # 7ABC123, X7K9P: digits by one where letters and digits change more than once.
    spoken(
        r"(?<![\w.-])(?=[A-Z\d]{5,}(?![\w-]))(?=[A-Z]*\d+[A-Z]+\d|\d+[A-Z]+\d)[A-Z\d]+",
        lambda code: " ".join(by_one(one) if one.isdigit() else one for one in code),
    ),
    rule(r"(?<![\w.,])(480|720|1080|1440|2160)([pi])(?!\w)", lambda m: f"{in_pairs(m[1])} {m[2].upper()}"),
    rule(r"(?<![A-Za-z])([A-Z]{2,5})v(?=\d)", lambda m: f"{' '.join(m[1])} V "),
    rule(r"(?<!\w)([A-Z])(\d{1,3}) ?[-–] ?(?=\1\d)", r"\1\2 to "),
    # F-16, B12, A380, COVID-19, iPhone 15.
    rule(
        r"(?<![A-Za-z0-9])((?:A|I)(?=-)|US|M|F|B|C|E|X|MiG|Su|GPT|COVID|SARS|MH|BA|AA|RTX|"
        r"GTX)[- ](\d{1,4})(?![\w:/%]|[.,]\d|-\d)",
        _named,
    ),
    rule(r"(?<![\w.-])([A-Za-z]+)-?(\d{1,4})(?![\d:/%]|[.,]\d|-\d)", _named),
    rule(r"(?<!\w)([RG]TX|RX) (\d{3,4})(?=[A-Za-z]{1,2}(?!\w))", _named),
    rule(r"(?<!\w)([A-F])([-+])(?=$|[\s.,;)])", lambda m: f"{m[1]} {'plus' if m[2] == '+' else 'minus'}"),
    rule(r"(?<![A-Za-z0-9])(i|mac|iPad|watch|tv)OS(?!\w)", r"\1 O S"),
    rule(r"(?<=[A-Z]{2})-(?=[A-Z](?!\w))", " "),
    rule(r"(?<![\w.])nginx(?!\w)", "engine X"),
    spoken(r"(?<![\w.])(?:idk|omw|ttyl|irl|aka)(?![\w.])", lambda letters: " ".join(letters.upper())),
    rule(r"(?<![A-Za-z])([A-Z])#", r"\1 sharp"),
    rule(r"(?<![A-Za-z])([A-Za-z])\+\+", r"\1 plus plus"),
    rule(
        r"(?<![A-Za-z])([A-Z]{1,3})&([A-Z]{1,3})(s?)(?![A-Za-z])",
        lambda m: f"{' '.join(m[1])} and {' '.join(m[2])}" + ("'s" if m[3] else ""),
    ),
    rule(r"\s?&&?(?!\w{2,8};)\s?", " and "),
)
"""Abbreviations, and names with numbers."""


def acronyms(text: str) -> str:
    """The text with its acronyms by their letters; a text of which most words are capitals is shouted."""
    capitals = _SHOUTED.findall(text)
    words = re.findall(r"[A-Za-z]{2,}", text)
    shouted = len(capitals) > 1 and 2 * len(capitals) > len(words)
    if shouted and any(one not in AS_WORDS and _ACRONYM.sub(_acronym, one) == one for one in capitals):
        return text
    text = re.sub(r"(?<!\w)OK(?!\w)", "okay", text)
    return _ACRONYM.sub(_acronym, _HEALTH.sub(r"\1\2W H O", text))
