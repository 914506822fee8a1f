"""How a text says its own reading: `[行长](/hang2 zhang3/)`, as users of Kokoro write it.

    [行长](/hang2 zhang3/)     pinyin, each syllable with the number of its tone, 5 for the neutral one
    [Kokoro](/kˈOkəɹO/)        phonemes: IPA, with Kokoro's letters for diphthongs or without them
    [Myna](/MY-nuh/)           other words; a hyphen divides syllables, capitals have the stress
    [747](:characters)         one by one; also cardinal, date and telephone
    [bonjour](:lang fr)        words of another language
    [](:break 500)             a pause, in milliseconds

People write the first three. The lexicon is applied, and SSML translated, by writing this notation into the
text, so that engines and compute nodes have one thing to read. Brackets of any other kind are text.
"""

import calendar
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final, Literal

import regex
from msgspec import Struct

from myna.engines.kokoro.symbols import NUMBERS
from myna.engines.kokoro.text.syllables import is_syllable
from myna.engines.text.english import numerals as en
from myna.engines.text.mandarin import numerals as zh

How = Literal["pinyin", "ipa", "words", "characters", "cardinal", "date", "telephone", "lang", "break"]
TEXT_MAX_CHARS: Final = 1000
READING_MAX_CHARS: Final = 200
BREAK_MAX_MS: Final = 5000
"""No more than what the characters of a break count in the estimate of the sound."""
AS: Final = ("characters", "cardinal", "date", "telephone")
_SPAN: Final = re.compile(
    rf"\[([^\[\]\n]{{0,{TEXT_MAX_CHARS}}})\]"
    rf"\((?:/([^/()\n]{{1,{READING_MAX_CHARS}}})/|:([a-z]{{4,10}})(?: ([A-Za-z0-9-]{{1,20}}))?)\)"
)
_PINYIN: Final = re.compile(r"(?:[a-zêü:]{1,7}[1-5][ '’-]?)+")
_SYLLABLE: Final = re.compile(r"[a-zêü:]+[1-5]")
_IPA_LETTERS: Final = frozenset(NUMBERS) - set(';:,.!?—…"()“”↓→↗↘')
_IPA_ONLY: Final = frozenset(symbol for symbol in _IPA_LETTERS if symbol > "ƀ" or symbol in "æð")
_IPA: Final = _IPA_LETTERS | set("abcdefghijklmnopqrstuvwxyzɫ͡ʲ̩.")
_WORDS: Final = regex.compile(r"[\p{L}\p{M} '’-]*\p{L}[\p{L}\p{M} '’-]*")
_HAN: Final = regex.compile(r"\p{Script=Han}")
_NUMBER: Final = re.compile(r"[-+±]?[0-9][0-9,]*(?:\.[0-9]+)?")
_YMD: Final = re.compile(r"\s*([0-9]{4})[-/.年]([0-9]{1,2})[-/.月]([0-9]{1,2})日?\s*")
_PARTS: Final = re.compile(r"\s*([0-9]{1,2})[-/.]([0-9]{1,2})[-/.]([0-9]{4})\s*")
_LETTER_A: Final = {"A": "ay"}
"""Alone it is an article."""


class Said(Struct, frozen=True):
    """Words of a text, how to say them, and the reading: syllables, phonemes, words, the format of a date, a
    language or milliseconds."""

    text: str
    how: How
    value: str = ""


def kind_of(reading: str) -> tuple[How, str] | None:
    """How a reading between slashes is written, and its usual form; None if it can't be read."""
    reading = unicodedata.normalize("NFC", reading.strip())
    if len(reading) > READING_MAX_CHARS:
        return None
    lower = reading.lower()
    if _PINYIN.fullmatch(lower):
        syllables = [one.replace("u:", "ü") for one in _SYLLABLE.findall(lower)]
        return ("pinyin", " ".join(syllables)) if all(map(is_syllable, syllables)) else None
    if set(reading) & _IPA_ONLY:
        return ("ipa", reading) if set(reading) <= _IPA else None
    return ("words", reading) if _WORDS.fullmatch(reading) else None


def spans(text: str) -> Iterator[str | Said]:
    """The text in order: what has no reading of its own, and what has."""
    begin = 0
    for found in _SPAN.finditer(text):
        said = _said(*found.groups())
        if said is not None:
            yield text[begin : found.start()]
            yield said
            begin = found.end()
    yield text[begin:]


def outside(text: str, change: Callable[[str], str]) -> str:
    """The text, changed where it has no reading of its own."""
    return "".join(change(part) if isinstance(part, str) else _written(part) for part in spans(text))


def flat(text: str) -> str:
    """The text for an engine that reads no notation. Pinyin, phonemes and other languages are left out."""
    if "[" not in text:
        return text
    chinese = _HAN.search(text) is not None
    return "".join(part if isinstance(part, str) else _flat(part, chinese) for part in spans(text))


def said_as(said: Said, language: str) -> str:
    """Words that are said as one of `AS`, in Mandarin (zh) or English (en); in another language with the
    digits that its voices read."""
    text, chinese, english = said.text.strip(), language == "zh", language == "en"
    if said.how == "characters":
        letters = [one for one in text.upper() if not one.isspace()]
        named = _LETTER_A if english else {}
        return " ".join(zh.by_one(one) if chinese else named.get(one, one) for one in letters)
    if said.how == "telephone":
        groups = re.findall(r"[0-9]+", text)
        return "，".join(map(zh.called, groups)) if chinese else ", ".join(map(" ".join, groups))
    if said.how == "cardinal" and _NUMBER.fullmatch(text) and (chinese or english):
        return zh.number(text) if chinese else en.number(text)
    if said.how == "date" and (date := _date(text, said.value)) and (chinese or english):
        year, month, day = date
        return f"{year}年{month}月{day}日" if chinese else f"{calendar.month_name[month]} {day}, {year}"
    return text


def _said(text: str, reading: str | None, name: str | None, value: str | None) -> Said | None:
    if reading is not None:
        kind = kind_of(reading)
        return Said(text, *kind) if kind and text.strip() else None
    if name == "break" and not text and value and value.isdecimal():
        return Said("", "break", str(min(int(value), BREAK_MAX_MS)))
    if name == "lang" and value and text.strip():
        return Said(text, "lang", value)
    for how in AS:
        if name == how and text.strip():
            return Said(text, how, value or "")
    return None


def _written(said: Said) -> str:
    if said.how in ("pinyin", "ipa", "words"):
        return f"[{said.text}](/{said.value}/)"
    return f"[{said.text}](:{said.how}{' ' + said.value if said.value else ''})"


def _flat(said: Said, chinese: bool) -> str:
    if said.how == "break":
        return ", "
    if said.how == "words":
        return said.value
    return said_as(said, "zh" if chinese else "en")


def _date(text: str, order: str) -> tuple[int, int, int] | None:
    """Year, month and day; `order` is such as mdy, for a date that ends with its year."""
    if found := _YMD.fullmatch(text):
        year, month, day = map(int, found.groups())
    elif found := _PARTS.fullmatch(text):
        month, day, year = map(int, found.groups())
        if order.startswith("d") or month > 12:
            month, day = day, month
    else:
        return None
    return (year, month, day) if 1 <= month <= 12 and 1 <= day <= 31 else None
