"""Applies the rules of Mandarin in order: the most specific ones are first, and each writes out what it
matches, so that no later rule reads it again."""

import re
from typing import Final

from myna.engines.text.mandarin.amounts import AMOUNTS, FORMULAS, LEFT, NOTATIONS, SCORES, SPANS
from myna.engines.text.mandarin.codes import CODES, NAMES
from myna.engines.text.mandarin.dates import DATES
from myna.engines.text.mandarin.tables import NAMED_SIGNS, OPERATORS
from myna.engines.text.rule import applied
from myna.engines.text.signs import unified

_RULES: Final = (*NOTATIONS, *CODES, *SCORES, *DATES, *AMOUNTS, *FORMULAS, *SPANS, *NAMES, *LEFT)
_SIGNS: Final = re.escape("".join((*OPERATORS, *NAMED_SIGNS))) + "⁰¹²³⁴-⁹₀-₉%°^&#@Ͱ-Ͽ"
_WRITTEN: Final = re.compile(rf"[0-9{_SIGNS}]|[-~–—](?:周|今)|[Nn][Oo]\.|(?<=[一-鿿 ])[IVXL]|[A-F]-")
"""What some rule matches; most sentences have none of it."""


def numbers_in_words(text: str) -> str:
    """`text` with its numbers and signs in words."""
    text = unified(text)
    return applied(_RULES, text) if _WRITTEN.search(text) else text
