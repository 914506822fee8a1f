"""A long text in sentences, so that they can be spoken one after another. Joined they are the text again."""

from collections.abc import Iterator
from typing import Final

import regex

# Where a sentence may end, with what belongs to its end: quotes, brackets and the space behind.
_END: Final = regex.compile(r"(?P<stop>[.!?。！？｡…⋯]++)[\"'”’»」』）)】\]》〉〕｝}]*+\s*+|\n\s*+")
_CHINESE_STOP: Final = regex.compile(r"[。！？｡]")
# Before a full stop: titles and the like, a single letter (J. Smith), a lone number (1. First).
_ABBREVIATION: Final = regex.compile(
    r"(?:^|[\s(\[\"'“‘])(?:[DM]rs?|Ms|Prof|St|Sr|Jr|vs|Gen|Col|Capt|Lt|Sgt|Rev|Hon|cf|approx"
    r"|\p{L}\.\s?\p{L}|\p{Lu})$|^\s*\d{1,3}$"
)
_COUNTED: Final = regex.compile(r"\b(?:Nos?|Figs?|Vols?|Ch|pp?)$", regex.IGNORECASE)  # before a number
_CLAUSE: Final = regex.compile(r"[，、；：﹔—…]++\s*+|[,;:](?:\s++|$)")
_SPACE: Final = regex.compile(r"\s++")
_SIGN: Final = regex.compile(r"\X")  # what the eye sees as one
_EXTENDS: Final = regex.compile(r"[\p{Grapheme_Extend}\p{M}\u200d]")
_LOOK_AHEAD: Final = 64  # characters that a sign may reach beyond the limit and still be seen whole


def sentences(text: str, max_chars: int) -> list[str]:
    """`text` cut behind its sentences, none empty and none over `max_chars` characters (at least 1).

    What is longer is cut behind a clause, else behind a space, else between two signs as the eye sees them.
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
    """Not within a sign; and a Western stop ends nothing in a number, a name or before a small letter."""
    behind = text[end.end() : end.end() + 1]
    if _EXTENDS.match(behind):
        return False
    stop: str | None = end["stop"]
    if stop is None or _CHINESE_STOP.search(stop):
        return True
    if behind and not end[0][-1].isspace():
        return False
    before = text[max(begin, end.start() - 20) : end.start()]
    if stop == "." and (_ABBREVIATION.search(before) or (behind.isdigit() and _COUNTED.search(before))):
        return False
    return not behind.islower()


def _within(sentence: str, max_chars: int) -> Iterator[str]:
    while len(sentence) > max_chars:
        cut = _cut(sentence, max_chars)
        yield sentence[:cut]
        sentence = sentence[cut:]
    if sentence:
        yield sentence


def _cut(sentence: str, max_chars: int) -> int:
    """Where to cut so that at most `max_chars` come before, and at least one."""
    window = sentence[:max_chars]
    for pattern in (_CLAUSE, _SPACE):
        ends: list[int] = [found.end() for found in pattern.finditer(window) if found.start() > 0]
        if ends and not _EXTENDS.match(sentence, ends[-1]):
            return ends[-1]
    signs = _SIGN.finditer(sentence[: max_chars + _LOOK_AHEAD])
    return max((sign.end() for sign in signs if sign.end() <= max_chars), default=max_chars)
