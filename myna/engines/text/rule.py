"""A rule of a reader: a pattern, and what is said in its place. Rules are applied one after another."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

Written = str | Callable[[re.Match[str]], str]
GREEK_ALONE: Final = r"(?<![Ͱ-Ͽἀ-῿])[Ͱ-Ͽ∆]{1,2}(?![Ͱ-Ͽἀ-῿])"
"""Letters that are said by their names. More of them are a word of Greek."""
_GREEK: Final = (
    *("αΑ", "βΒ", "γΓ", "δΔ∆", "εΕϵ", "ζΖ", "ηΗ", "θΘϑ", "ιΙ", "κΚ", "λΛ", "μΜ"),
    *("νΝ", "ξΞ", "οΟ", "πΠ", "ρΡ", "σςΣ", "τΤ", "υΥ", "φΦϕ", "χΧ", "ψΨ", "ωΩ"),
)
Rule = tuple[re.Pattern[str], Written]
THOUSANDS: Final = r"(?:\d{1,2}(?:,\d\d){1,6},\d{3}|\d{1,3}(?:,\d{3})+)(?!,?\d)"
"""1,000,000, and 10,00,000 as in India."""
NUM: Final = rf"(?:{THOUSANDS}|\d+)(?:\.\d+)?"
SIGNED: Final = rf"[-+±]?{NUM}"
TO: Final = "[-~–—]"
"""Between the ends of a span."""
SPACED_TO: Final = f"(?:{TO}| ?{TO} )"
"""The same with spaces, but `3 -5` is no span."""
YEAR: Final = r"(?:1[0-9]|20)\d\d"
SUPERSCRIPTS: Final = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿˣ"
EXPONENTS: Final = str.maketrans(SUPERSCRIPTS, "0123456789+-nx")
SUBSCRIPTS: Final = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
ROMAN: Final = r"(?=[IVXLC]{2}|[IVX])C{0,3}(?:XC|XL|L?X{0,3})(?:IX|IV|V?I{0,3})"
"""A Roman number. C and L alone are letters."""
_ROMAN: Final = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100}


def rule(pattern: str, written: Written) -> Rule:
    """`\\d` and `\\w` are ASCII, so that Han are no part of a word."""
    return re.compile(pattern, re.ASCII), written


def spoken(pattern: str, read: Callable[[str], str]) -> Rule:
    """What matches the pattern, read as a whole."""
    return rule(pattern, lambda match: read(match[0]))


SPELLINGS: Final = (
    rule(r"<=", "≤"),
    rule(r"(?<=[\w)\s])==(?=[\w(\s])", "="),
    rule(r"\+/-|\+-(?=\d)", "±"),
    rule(r"\*\*(?=\d)|(?<=[\w)]) \^ (?=[\w(])", "^"),
)
"""Signs as programs write them."""


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


def with_powers(lengths: Mapping[str, str], square: str, cubic: str) -> dict[str, str]:
    """The units of length with their squares and cubes, by their signs."""
    powers = ((square, ("²", "2", "^2")), (cubic, ("³", "3", "^3")))
    return {
        **lengths,
        **{
            unit + power: words + name
            for words, signs in powers
            for unit, name in lengths.items()
            for power in signs
        },
    }


def roman_value(letters: str) -> int:
    """The value of a Roman number."""
    values = [_ROMAN[letter] for letter in letters]
    return sum(-one if one < after else one for one, after in zip(values, [*values[1:], 0], strict=True))


def exponent(match: re.Match[str]) -> str:
    """The exponent of a power, written raised or after ^, in brackets or not."""
    return (match[1] or match[2]).translate(EXPONENTS).strip("()")
