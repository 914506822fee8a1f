"""Readings that a text gives itself (see `text/notation.py`), as single characters among the others.

A mark is a private-use character, so that no rule of reading matches it. Texts have none of these: they are
removed first. A mark of pinyin stands before the characters that it gives the readings of; any other mark
stands for its words.
"""

from collections.abc import Callable, Mapping
from typing import Final

import regex
from msgspec import Struct

from myna.engines.text.notation import AS, Said, said_as, spans

_PINYIN_FROM: Final = 0xF0000
_OTHERS_FROM: Final = 0x100000
_MARKS_MAX: Final = 65_000
MARK_OF_PINYIN: Final = "[\U000f0000-\U000ffffd]"
OTHER_MARK: Final = "[\U00100000-\U0010fffd]"
_ALL: Final = regex.compile(f"(?P<mark>{MARK_OF_PINYIN})囗*|(?P<mark>{OTHER_MARK})")
_FILLER: Final = "囗"
"""Stands for a syllable of a word that is not one Han for each syllable."""
_HAN: Final = regex.compile(r"\p{Script=Han}")
_ONLY_HAN: Final = regex.compile(r"\p{Script=Han}+")


class Marked(Struct, frozen=True):
    """A text with its marks, and what they mean."""

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
    return Marked("".join(_part(part, said, clean) for part in spans(text)), said)


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


def _part(part: str | Said, said: dict[str, Said], clean: Callable[[str], str]) -> str:
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
