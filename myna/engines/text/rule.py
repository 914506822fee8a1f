"""A rule of a reader: a pattern, and what is said in its place. Rules are applied one after another."""

import re
from collections.abc import Callable, Iterable, Sequence

Written = str | Callable[[re.Match[str]], str]
Rule = tuple[re.Pattern[str], Written]


def rule(pattern: str, written: Written) -> Rule:
    """`\\d` and `\\w` are ASCII, so that Han are no part of a word."""
    return re.compile(pattern, re.ASCII), written


def applied(rules: Sequence[Rule], text: str) -> str:
    """The text after all rules."""
    for pattern, written in rules:
        text = pattern.sub(written, text)
    return text


def any_of(words: Iterable[str]) -> str:
    """A pattern that matches any of the words, the longest first."""
    return "(?:" + "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True)) + ")"
