"""Text as it is spoken: years, money, times, phone numbers, signs, addresses and so on in words.

The rules of Mandarin and English are in their packages, and are applied in order: the most specific ones are
first, and each writes out what it matches, so that no later rule reads it again. Those of other languages are
in `others.py`.
"""

import re
from typing import Final

import regex

from myna.engines.text.english import amounts as english_amounts
from myna.engines.text.english.dates import DATES as ENGLISH_DATES
from myna.engines.text.english.dates import WHOLE_DATES
from myna.engines.text.english.formulas import FORMULAS
from myna.engines.text.english.heteronyms import HETERONYMS, TWO_SOUNDS
from myna.engines.text.english.words import CODES as ENGLISH_CODES
from myna.engines.text.english.words import WORDS, acronyms
from myna.engines.text.mandarin import amounts, codes
from myna.engines.text.mandarin.dates import DATES
from myna.engines.text.mandarin.formulas import FORMULAS as CHINESE_FORMULAS
from myna.engines.text.mandarin.numerals import by_one
from myna.engines.text.mandarin.tables import NAMED_SIGNS, OPERATORS
from myna.engines.text.mandarin.traditional import simplified
from myna.engines.text.rule import applied
from myna.engines.text.sentences import sentences
from myna.engines.text.signs import fractions_in_han, plain, unified, visible

_HAN: Final = regex.compile(r"\p{Script=Han}")
_SPEAKABLE: Final = regex.compile(r"[\p{L}\p{N}]")
_CHINESE: Final = ("zh", "cmn", "yue")
_PIECE_MAX_CHARS: Final = 120
_MANDARIN: Final = (
    *amounts.NOTATIONS,
    *codes.CODES,
    *amounts.SCORES,
    *DATES,
    *amounts.AMOUNTS,
    *CHINESE_FORMULAS,
    *amounts.SPANS,
    *codes.NAMES,
    *amounts.LEFT,
)
_SIGNS: Final = re.escape("".join((*OPERATORS, *NAMED_SIGNS))) + "⁰¹²³⁴-⁹⁺⁻₀-₉%°^&#@Ͱ-Ͽ"
_WRITTEN: Final = re.compile(
    rf"[0-9{_SIGNS}]|[-~–—] ?(?:周|今)|[Nn][Oo]\.|(?<=[一-鿿 ])[IVXL]|[IVXL] ?[世期型级类度区]"
    r"|[A-F]-|\(-\)|[_*]|\w[./]\w| -",
    re.ASCII,
)
"""What some rule of Mandarin matches; most sentences have none of it."""
_ENGLISH: Final = (
    *english_amounts.NOTATIONS,
    *WHOLE_DATES,
    *ENGLISH_CODES,
    *english_amounts.MONEY,
    *ENGLISH_DATES,
    *english_amounts.UNITS_AND_SHARES,
    *FORMULAS,
    *WORDS,
    *english_amounts.LEFT,
)
_FIGURES: Final = re.compile(
    r"[^A-Za-z\s.,;:!?'\"()‘’“”—-]|\s-\S|--|[-—](?=[A-Z])|\.\w|\(\)|[a-z][A-Z]", re.ASCII
)
"""What some rule of English numbers, dates and codes matches; most sentences have none of it."""
_SPACED_NUMBER: Final = re.compile(
    r"(?<=[一-鿿]) ?([$€£¥]?[0-9][0-9.,%+]*(?: ?[-~–—] ?[0-9.]+)?)(?: (?=[一-鿿]))?"
)
"""A number or a span of a Han word, which is one word with it however it is spaced."""
_SPACES: Final = re.compile(" {2,}")
_ADDRESS: Final = regex.compile(
    r"(?:(?:https?|ftp)://|www\.)[!-~]+|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)*\.[a-z][\w-]*"
    r"|(?<![\w.-])(?:[\w-]+\.)+(?:com|cn|net|org|io|ai|top|gov|edu|me|app|dev)(?![\w-])(?:/[!-~]*)?",
    regex.ASCII | regex.IGNORECASE,
)
_SCHEME: Final = regex.compile(r"^(?:(?:https?|ftp)://)?(?:www\.)?|/$", regex.IGNORECASE)
_STOPS: Final = ".,:;!?)'\""
_ADDRESS_PART: Final = regex.compile(r"[A-Za-z]+|[0-9]|[^A-Za-z0-9]")
_SIGNS_OF_ADDRESSES: Final = "./@:?=&%#_+~-"
_IN_MANDARIN: Final = "点 斜杠 艾特 冒号 问号 等于 和 百分号 井号 下划线 加 波浪号 杠"
_IN_ENGLISH: Final = "dot/slash/at/colon/question mark/equals/and/percent/hash/underscore/plus/tilde/dash"
_CHINESE_SIGNS: Final = dict(zip(_SIGNS_OF_ADDRESSES, _IN_MANDARIN.split(), strict=True))
_ENGLISH_SIGNS: Final = dict(zip(_SIGNS_OF_ADDRESSES, _IN_ENGLISH.split("/"), strict=True))
_RUN: Final = re.compile(
    r"(?:(?<![一-鿿$€£])[0-9$€£]|[A-Za-z])[ -~‘’€£°–—]*(?:[A-Za-z.!?%]|[0-9](?![一-鿿]))"
)
"""Words that are not Han in a Mandarin text; a number beside a Han character is its."""
_GRAMMAR: Final = (
    "the|an|is|are|was|were|(?<![0-9] )(?<![0-9])am|i|you|we|they|he|she|it|my|your|our|his|her|their|"
    "this|that|these|those|have|has|had|do|does|did|will|would|can|could|should|at|in|on|of|to|for|with|from|by|and|or|but|not|no|be|been|"
    "than|about|after|before|until|there|what|how|when|who|get|me|us|them"
)
_CLAUSE: Final = re.compile(
    rf"^(?=.*[0-9])(?=.*[A-Za-z][^A-Za-z]+[A-Za-z]).*(?<![\w.@/-])(?:{_GRAMMAR}|\d+(?:st|nd|rd|th))(?![\w.@/($-])",
    re.ASCII | re.IGNORECASE,
)
"""An English clause with a number: two words, one of them a word of grammar, or an ordinal."""


def in_mandarin(text: str) -> str:
    """`text` in Mandarin words, if it has numbers or signs in simplified characters, and its English clauses
    in English ones. Accepts any `str`, also lone surrogates, and raises nothing."""
    text = _RUN.sub(lambda run: in_english(run[0]) if _CLAUSE.search(run[0]) else run[0], plain(text))
    text = _SPACED_NUMBER.sub(r"\1", text)
    text = unified(fractions_in_han(_addresses_in_words(text, chinese=True)))
    return applied(_MANDARIN, simplified(text)) if _WRITTEN.search(text) else text


def in_english(text: str) -> str:
    """`text` in English words; its Han are unchanged. Accepts any `str` and raises nothing."""
    text = unified(_addresses_in_words(plain(text), chinese=False))
    if TWO_SOUNDS.search(text):
        text = applied(HETERONYMS, text)
    rules = _ENGLISH if _FIGURES.search(text) else WORDS
    return acronyms(_SPACES.sub(" ", applied(rules, text)))


def spoken_form(text: str) -> str:
    """`text` in Mandarin words if there are Han in it, else with its digits and letters in plain form."""
    return in_mandarin(text) if _HAN.search(text) else plain(text)


def readable(text: str, language: str) -> str:
    """`text` for a neural voice: without invisible characters and, in Chinese, with its numbers in words."""
    chinese = language.lower().partition("-")[0] in _CHINESE
    return spoken_form(visible(text)) if chinese else visible(text)


def pieces(text: str, language: str) -> list[str]:
    """The readable text in pieces to speak in order, short and each with a sound."""
    cut = sentences(readable(text, language), _PIECE_MAX_CHARS)
    return [piece.strip() for piece in cut if _SPEAKABLE.search(piece)]


def _addresses_in_words(text: str, *, chinese: bool) -> str:
    """The text with its web and mail addresses in words; the scheme and www. are omitted."""
    said: str = _ADDRESS.sub(lambda found: _address(found[0], chinese), text)
    return said


def _address(address: str, chinese: bool) -> str:
    end = len(address.rstrip(_STOPS))
    names = _CHINESE_SIGNS if chinese else _ENGLISH_SIGNS
    parts = _ADDRESS_PART.findall(_SCHEME.sub("", address[:end]))
    said = (by_one(part) if chinese and part.isdigit() else names.get(part, part) for part in parts)
    return f" {' '.join(said)} {address[end:]}"
