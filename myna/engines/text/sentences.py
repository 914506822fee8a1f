"""Splits a text into sentences to speak one after another. Joined they are the text."""

from collections.abc import Iterator
from typing import Final

import regex

from myna.engines.text.english.tables import ABBREVIATIONS, BEFORE_NUMBERS, ENDING_SENTENCES
from myna.engines.text.rule import any_of

# The end of a sentence, with the quotes, brackets and spaces after it.
_END: Final = regex.compile(r"(?P<stop>[.!?。！？｡…⋯]++)[\"'”’»」』）)】\]》〉〕｝}]*+\s*+|\n\s*+")
_CHINESE_STOP: Final = regex.compile(r"[。！？｡]")
# Before a full stop: titles and the like, a single letter (J. Smith), a lone number (1. First).
_ABBREVIATION: Final = regex.compile(
    rf"(?:^|[\s(\[\"'“‘])(?:Dr|St|{any_of(ABBREVIATIONS.keys() - ENDING_SENTENCES)}"
    r"|\p{L}\.\s?\p{L}|\p{Lu})$|^\s*\d{1,3}$"
)
_COUNTED: Final = regex.compile(rf"\b{any_of(BEFORE_NUMBERS)}$", regex.IGNORECASE)
_NUMBER: Final = regex.compile(r"[(\[]?[0-9IVX]")
_CLAUSE: Final = regex.compile(r"[，、；：﹔—…]++\s*+|[,;:](?:\s++|$)")
_SPACE: Final = regex.compile(r"\s++")
_CLUSTER: Final = regex.compile(r"\X")  # an extended grapheme cluster
_EXTENDS: Final = regex.compile(r"[\p{Grapheme_Extend}\p{M}\u200d]")
_LOOK_AHEAD: Final = 64  # characters beyond the limit, to see a cluster at the limit whole


def sentences(text: str, max_chars: int) -> list[str]:
    """`text` split after its sentences, none empty and none over `max_chars` characters (at least 1).

    A longer sentence is split after a clause, else after a space, else between two grapheme clusters.
    """
    return [piece for sentence in _sentences(text) for piece in _within(sentence, max_chars)]


def _sentences(text: str) -> Iterator[str]:
    begin = 0
    for end in _END.finditer(text):
        if _ends_here(text, begin, end):
            yield text[begin : end.end()]
            begin = end.end()
    if begin < len(text):
        yield text[begin:]


def _ends_here(text: str, begin: int, end: "regex.Match[str]") -> bool:
    """Whether this is the end of a sentence: not within a grapheme cluster; and for a Western stop, not
    within a number or a name, nor before a lower-case letter."""
    following = text[end.end() : end.end() + 1]
    if _EXTENDS.match(following):
        return False
    stop: str | None = end["stop"]
    if stop is None or _CHINESE_STOP.search(stop):
        return True
    if following and not end[0][-1].isspace():
        return False
    before = text[max(begin, end.start() - 20) : end.start()]
    if stop == "." and (
        _ABBREVIATION.search(before) or (_NUMBER.match(text, end.end()) and _COUNTED.search(before))
    ):
        return False
    return not following.islower() and following not in tuple("=+×<>≤≥≈±")


def _within(sentence: str, max_chars: int) -> Iterator[str]:
    while len(sentence) > max_chars:
        cut = _cut(sentence, max_chars)
        yield sentence[:cut]
        sentence = sentence[cut:]
    if sentence:
        yield sentence


def _cut(sentence: str, max_chars: int) -> int:
    """The position of the split: at least 1, at most `max_chars`."""
    window = sentence[:max_chars]
    for pattern in (_CLAUSE, _SPACE):
        ends: list[int] = [found.end() for found in pattern.finditer(window) if found.start() > 0]
        if ends and not _EXTENDS.match(sentence, ends[-1]):
            return ends[-1]
    clusters = _CLUSTER.finditer(sentence[: max_chars + _LOOK_AHEAD])
    return max((cluster.end() for cluster in clusters if cluster.end() <= max_chars), default=max_chars)
