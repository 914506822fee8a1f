"""Text for neural voices: numbers beside Han are written out, and the text is split into short pieces."""

from pathlib import Path
from typing import Final

import regex

from myna.engines.text import reading
from myna.engines.text.sentences import sentences

PIECE_MAX_CHARS: Final = 120
_INVISIBLE: Final = regex.compile(r"\p{Cf}")
_CONTROL: Final = regex.compile(r"[\p{Cc}\p{Cs}\p{Co}--[\n\t]]", regex.VERSION1)
_SPEAKABLE: Final = regex.compile(r"[\p{L}\p{N}]")
_CHINESE: Final = ("zh", "cmn", "yue")


def is_chinese(language: str) -> bool:
    """Whether a BCP-47 or espeak-ng code is one of Chinese."""
    return language.lower().partition("-")[0] in _CHINESE


def readable(text: str, language: str) -> str:
    """`text` without invisible characters; in Chinese, with its numbers written out."""
    text = _CONTROL.sub(" ", _INVISIBLE.sub("", text))
    return reading.spoken_form(text) if is_chinese(language) else text


def pieces(text: str, language: str) -> list[str]:
    """The pieces to speak in order, at most PIECE_MAX_CHARS each, without pieces that have no sound."""
    cut = sentences(readable(text, language), PIECE_MAX_CHARS)
    return [piece.strip() for piece in cut if _SPEAKABLE.search(piece)]


_WORD: Final = regex.compile(r"\p{Script=Han}|[^\W_]+(?:['’][^\W_]+)*")


class Words:
    """The words of lexicon files. The word of a line ends at `||`, or at the first space or tab."""

    def __init__(self, lexicons: tuple[Path, ...]) -> None:
        self._known: set[str] = set()
        for lexicon in lexicons:
            with lexicon.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    word, separator, _ = line.partition("||")
                    if not separator:
                        word = line.partition("\t")[0].split(" ", 1)[0]
                    self._known.update(_WORD.findall(word.lower()))

    def any_in(self, text: str) -> bool:
        """Whether the lexicon has a word of the text; True without a lexicon."""
        return not self._known or any(word in self._known for word in _WORD.findall(text.lower()))
