"""A rule of a reader: a pattern, and what is said in its place. Rules are applied one after another."""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final

Written = str | Callable[[re.Match[str]], str]
GREEK_ALONE: Final = r"(?<![Ͱ-Ͽἀ-῿])[Ͱ-Ͽ∆]{1,2}(?![Ͱ-Ͽἀ-῿])"
"""Letters that are said by their names. More of them are a word of Greek."""
_GREEK: Final = (
    *("αΑ", "βΒ", "γΓ", "δΔ∆", "εΕϵ", "ζΖ", "ηΗ", "θΘϑ", "ιΙ", "κΚ", "λΛ", "μΜ"),
    *("νΝ", "ξΞ", "οΟ", "πΠ", "ρΡ", "σςΣ", "τΤ", "υΥ", "φΦϕ", "χΧ", "ψΨ", "ωΩ"),
)
Rule = tuple[re.Pattern[str], Written]


def rule(pattern: str, written: Written) -> Rule:
    """`\\d` and `\\w` are ASCII, so that Han are no part of a word."""
    return re.compile(pattern, re.ASCII), written


def applied(rules: Sequence[Rule], text: str) -> str:
    """The text after all rules."""
    for pattern, written in rules:
        text = pattern.sub(written, text)
    return text


def greek_letters(names: str) -> dict[str, str]:
    """The names of the Greek letters, in the order of their alphabet, by letter."""
    pairs = zip(_GREEK, names.split(), strict=True)
    return {letter: name for letters, name in pairs for letter in letters}


def any_of(words: Iterable[str]) -> str:
    """A pattern that matches any of the words, the longest first."""
    return "(?:" + "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)) + ")"
