"""Chinese text as people say it: years, money, times, phones and the like written out in Han.

The voice reads Han rightly and digits by guesswork. A pass of our own (`reading_rules`) takes what the
`wetext` normaliser gets wrong; the normaliser reads the rest. Its grammars lie in its wheel, nothing is
fetched. Its import waits for the first number, or for `warm`.
"""

import functools
import re
import threading
from collections.abc import Callable
from typing import Any, Protocol

import regex

from myna.engines.reading_rules import rewritten
from myna.engines.reading_signs import fractions_in_han, plain

_HAN = regex.compile(r"\p{Script=Han}")
_DIGIT = re.compile(r"[0-9]")
_SIGN = r"[0-9A-Za-z .,:/%+~*×÷=°￥$€£²³≥≤±-]"
_SIGNS_TO_DIGIT = r"[A-Za-z .,:/%+~*×÷=°￥$€£²³≥≤±-]*+[0-9]"
# What the normaliser is given: a number and up to four Han on each side, so that it knows 下午 and 公里.
# It can lose or escape nothing else, and it is slow enough (0.2 to 0.5 ms a character) to be spared the rest.
_PIECE = re.compile(
    rf"(?:[一-鿿]{{1,4}})?{_SIGNS_TO_DIGIT}(?:{_SIGN}|[一-鿿](?=[一-鿿]{{0,3}}{_SIGNS_TO_DIGIT}))*+[一-鿿]{{0,4}}"
)


class _Normaliser(Protocol):
    def normalize(self, text: str) -> str: ...


def spoken_form(text: str) -> str:
    """`text` with its numbers, signs and units written as one says them in Mandarin.

    Text without Han, or without a number, only gets its digits and letters in their plain form. Words,
    quotes, line ends, emoji and whatever else stands between the numbers stay. Any `str` is taken, lone
    surrogates too; nothing is raised.
    """
    text = plain(text)
    if not _HAN.search(text):
        return text
    text = fractions_in_han(text)
    if not _DIGIT.search(text):
        return text
    return _PIECE.sub(_normalised, rewritten(text))


def warm() -> None:
    """Loads the normaliser now instead of at the first number."""
    _normaliser().normalize("1")


_importing = threading.Lock()
"""Of two threads the second would take the first one's stand-in for the real reader, and leave it there."""


class _Grammar:
    """One of the normaliser's grammars, read from its file when it is first asked."""

    def __init__(self, read: Callable[..., Callable[[str], str]], *where: Any, **options: Any) -> None:
        self._grammar = functools.cache(functools.partial(read, *where, **options))

    def __call__(self, text: str) -> str:
        return self._grammar()(text)


@functools.cache
def _normaliser() -> _Normaliser:
    """Its import would read twenty grammars of three languages, of which two are asked."""
    import kaldifst

    with _importing:
        read: Any = kaldifst.TextNormalizer
        kaldifst.TextNormalizer = functools.partial(_Grammar, read)
        try:
            from wetext import Normalizer
        finally:
            kaldifst.TextNormalizer = read
    normaliser: _Normaliser = Normalizer(lang="zh", operator="tn")
    return normaliser


def _normalised(piece: re.Match[str]) -> str:
    """One piece through the normaliser, its outer spaces kept, which the normaliser would strip."""
    inner = piece[0].strip(" ")
    before, after = piece[0].split(inner, 1)
    return before + _normaliser().normalize(inner) + after
