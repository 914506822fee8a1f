"""Text normalisation for Mandarin: writes out years, money, times, phone numbers and so on in Han.

Voices read Han correctly and guess at digits. The rules of `rules.py` rewrite what the `wetext` normaliser
gets wrong; the normaliser does the rest. Its grammars are in its wheel, so nothing is downloaded. It is
imported at the first number, or by `warm`.
"""

import functools
import re
import threading
from collections.abc import Callable
from typing import Any, Protocol

import regex

from myna.engines.text.rules import rewritten
from myna.engines.text.signs import fractions_in_han, plain

_HAN = regex.compile(r"\p{Script=Han}")
_DIGIT = re.compile(r"[0-9]")
_SIGN = r"[0-9A-Za-z .,:/%+~*×÷=°￥$€£²³≥≤±-]"
_SIGNS_TO_DIGIT = r"[A-Za-z .,:/%+~*×÷=°￥$€£²³≥≤±-]*+[0-9]"
# The input of the normaliser: a number and up to four Han on each side, so that it sees 下午 and 公里.
# The rest can't be lost or escaped, and is skipped since the normaliser takes 0.2 to 0.5 ms a character.
_PIECE = re.compile(
    rf"(?:[一-鿿]{{1,4}})?{_SIGNS_TO_DIGIT}(?:{_SIGN}|[一-鿿](?=[一-鿿]{{0,3}}{_SIGNS_TO_DIGIT}))*+[一-鿿]{{0,4}}"
)


class _Normaliser(Protocol):
    def normalize(self, text: str) -> str: ...


def spoken_form(text: str) -> str:
    """`text` with its numbers, signs and units written out in Mandarin.

    In text without Han, or without a number, only digits and letters are put into their plain form.
    Everything between the numbers is unchanged. Accepts any `str`, also lone surrogates, and raises nothing.
    """
    text = plain(text)
    if not _HAN.search(text):
        return text
    text = fractions_in_han(text)
    if not _DIGIT.search(text):
        return text
    return _PIECE.sub(_normalised, rewritten(text))


def warm() -> None:
    """Loads the normaliser."""
    _normaliser().normalize("1")


_importing = threading.Lock()
"""Without it a second thread would save the first one's patch as the original, and restore that."""


class _Grammar:
    """A grammar of the normaliser, read from its file at its first use."""

    def __init__(self, read: Callable[..., Callable[[str], str]], *where: Any, **options: Any) -> None:
        self._grammar = functools.cache(functools.partial(read, *where, **options))

    def __call__(self, text: str) -> str:
        return self._grammar()(text)


@functools.cache
def _normaliser() -> _Normaliser:
    """The normaliser, with lazy grammars: its import would read twenty grammars, of which two are used."""
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
    """Normalises one piece and keeps its outer spaces, which the normaliser strips."""
    inner = piece[0].strip(" ")
    before, after = piece[0].split(inner, 1)
    return before + _normaliser().normalize(inner) + after
