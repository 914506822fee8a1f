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
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal

import regex
from msgspec import Struct

from myna.engines.kokoro.symbols import NUMBERS, is_syllable
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
_PINYIN_FROM: Final = 0xF0000
_OTHERS_FROM: Final = 0x100000
_MARKS_MAX: Final = 65_000
MARK_OF_PINYIN: Final = "[\U000f0000-\U000ffffd]"
OTHER_MARK: Final = "[\U00100000-\U0010fffd]"
_ALL: Final = regex.compile(f"(?P<mark>{MARK_OF_PINYIN})囗*|(?P<mark>{OTHER_MARK})")
_FILLER: Final = "囗"
"""Stands for a syllable of a word that is not one Han for each syllable."""
_ONLY_HAN: Final = regex.compile(r"\p{Script=Han}+")


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


class Marked(Struct, frozen=True):
    """A text with marks in place of its readings, and what the marks mean.

    A mark is a private-use character, so that no rule of reading matches it. Texts have none of these: they
    are removed first. A mark of pinyin stands before the characters that it gives the readings of; any other
    mark stands for its words.
    """

    text: str
    said: Mapping[str, Said]

    def as_words(self, sentence: str, language: str) -> str:
        """A sentence of the text with the marks of say-as replaced by words to read, in zh, en or another
        language."""
        return self._replaced(
            sentence, lambda mark, said: said_as(said, language) if said.how in AS else mark
        )

    def shown(self, sentence: str) -> str:
        """A sentence in words, without its marks."""
        return self._replaced(sentence, self._shown)

    def _replaced(self, sentence: str, shown: Callable[[str, Said], str]) -> str:
        if not self.said:
            return sentence
        replaced: str = _ALL.sub(lambda found: shown(found[0], self.said[found["mark"]]), sentence)
        return replaced

    def _shown(self, mark: str, said: Said) -> str:
        if said.how == "pinyin" and len(mark) == 1:
            return ""
        return said.value if said.how == "words" else said.text


def marked(text: str, clean: Callable[[str], str]) -> Marked:
    """The text, cleaned between its readings, with marks for these."""
    if "[" not in text:
        return Marked(clean(text), {})
    said: dict[str, Said] = {}
    return Marked("".join(_marked_part(part, said, clean) for part in spans(text)), said)


def given(text: str, said: Mapping[str, Said]) -> tuple[str, list[int], dict[int, str]]:
    """A run of Han without its marks, the places of its characters in the run, those of the marks where these
    begin a word, and the syllables that the marks give, by place without them."""
    plain, mark = "", -1
    places: list[int] = []
    readings: dict[int, str] = {}
    for place, character in enumerate(text):
        if character in said:
            readings |= dict(enumerate(said[character].value.split(), len(plain)))
            mark = place
        else:
            plain += character
            begins = mark >= 0 and (character == _FILLER or place == mark + 1)
            places.append(mark if begins else place)
    return plain, places, {at: syllable for at, syllable in readings.items() if at < len(plain)}


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


def _marked_part(part: str | Said, said: dict[str, Said], clean: Callable[[str], str]) -> str:
    if isinstance(part, str):
        return clean(part)
    if (part.how == "words" and _HAN.search(part.value)) or len(said) >= _MARKS_MAX:
        return clean(part.value if part.how == "words" else part.text)
    mark = chr((_PINYIN_FROM if part.how == "pinyin" else _OTHERS_FROM) + len(said))
    said[mark] = Said(clean(part.text), part.how, part.value)
    if part.how != "pinyin":
        return mark
    syllables = part.value.count(" ") + 1
    own = _ONLY_HAN.fullmatch(part.text) and len(part.text) == syllables
    return mark + (part.text if own else _FILLER * syllables)
