"""Latin words as people say them within Mandarin text."""

from collections.abc import Iterator
from typing import Final

import msgspec
import regex

from myna.engines.text.mandarin.numerals import by_one, cardinal

_PART: Final = regex.compile(
    r"(?P<letters>(?:\p{Lu}{2,}|(?<!\p{L})\p{L})(?=s?(?!\p{Ll}))|\p{Lu}+(?=\p{Lu}\p{Ll}))"
    r"|(?P<word>\p{Lu}?(?:\p{Ll}|\p{M}|['’](?=\p{L}))+|\p{L}+)|(?P<digits>\d+)|."
)
_WORDS_IN_CAPITALS: Final = (
    "NASA NATO UNESCO UNICEF OPEC AIDS RAM ROM SIM PIN GIF COVID SARS JSON YAML CUDA BIOS DOS ASEAN APEC "
    "WIFI LASER RADAR OPPO VIVO SONY NIKE LEGO ZARA MUJI TOEFL IKEA HELLO WORLD THE AND FOR YOU ARE NOT ALL "
    "NEW HI NO GO TO OF IN IS IT ON MY WE SO UP DO BE"
)
_AS_WORDS: Final = frozenset(_WORDS_IN_CAPITALS.split())
_SPELLED_WORDS: Final = frozenset(("vip", "ai", "id", "ip", "ui", "ux", "tv", "pc", "dj", "ktv", "qq"))
"""Acronyms that people also write in lower case."""
_SAID_AS: Final = ((regex.compile(r"\bSaaS\b"), "sass"), (regex.compile(r"\bPaaS\b"), "pass"))
_LETTERS_MAX: Final = 5
"""A longer word in capitals is a word, not an acronym."""


class Spelled(msgspec.Struct, frozen=True):
    """Letters that are said one by one."""

    letters: str


def spoken_words(text: str) -> Iterator[tuple[str | Spelled, list[int]]]:
    """A Latin run within Mandarin: its words, letters said one by one, and its digits in Han, each with the
    places of its words in the run."""
    for pattern, written in _SAID_AS:
        text = pattern.sub(written, text)
    words: dict[int, str] = {}
    for found in _PART.finditer(text):
        part, place = found[0], found.start()
        spelled = part in _SPELLED_WORDS or (found["letters"] and not _is_word(part))
        if words and (spelled or found["digits"]):
            yield " ".join(words.values()), list(words)
            words = {}
        if spelled:
            yield Spelled(part.upper()), [place]
        elif found["digits"]:
            yield cardinal(part, pairs=False) if len(part) <= 2 else by_one(part), [place]
        elif found["letters"] or found["word"]:
            words[place] = part
    if words:
        yield " ".join(words.values()), list(words)


def _is_word(letters: str) -> bool:
    return letters in _AS_WORDS or len(letters) > _LETTERS_MAX or letters == "a"
