"""Splits a text that is too long for one request at sentences, clauses or spaces."""

import re
from typing import Final

# "The maximum length is 4096 characters": OpenAI's reference of POST /audio/speech, on `input`.
INPUT_MAX_CHARS: Final = 4096

_CLOSING: Final = r"[”’」』）】》\"')\]]*"
# In order of preference. A full stop counts only before a space: 3.14 and example.org are not two sentences.
_BREAKS: Final = (
    re.compile(rf"(?:[。！？；…\n]+|(?<![.!?;])[.!?;]++(?={_CLOSING}\s)){_CLOSING}\s*"),
    re.compile(rf"(?:[，、：]|[,:](?=\s)){_CLOSING}\s*"),
    re.compile(r"\s+"),
)


def cut(text: str, max_chars: int = INPUT_MAX_CHARS) -> list[str]:
    """The text in pieces of at most `max_chars` characters, without blank pieces.

    A piece ends at the last sentence end that fits, else at a comma, else at a space, else at the limit.
    """
    pieces, start = [], 0
    while len(text) - start > max_chars:
        end = _break(text, start, start + max_chars)
        pieces.append(text[start:end])
        start = end
    pieces.append(text[start:])
    return [piece for piece in pieces if piece.strip()]


def _break(text: str, start: int, limit: int) -> int:
    for pattern in _BREAKS:
        # One character past the limit, so that a stop that just fits still sees the space after it.
        ends = [match.end() for match in pattern.finditer(text, start, limit + 1)]
        fitting = [end for end in ends if end <= limit]
        if fitting:
            return fitting[-1]
    return limit
