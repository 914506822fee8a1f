"""Text for neural voices: numbers beside Han are written out, and the text is split into short pieces."""

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
