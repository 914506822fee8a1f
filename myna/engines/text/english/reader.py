"""Applies the rules of English in order: the most specific ones are first."""

import re
from typing import Final

from myna.engines.text.english.amounts import FORMULAS, LEFT, MONEY, NOTATIONS, UNITS_AND_SHARES
from myna.engines.text.english.dates import DATES
from myna.engines.text.english.heteronyms import HETERONYMS
from myna.engines.text.english.names import CODES, WORDS, acronyms
from myna.engines.text.rule import applied
from myna.engines.text.signs import unified

_RULES: Final = (*NOTATIONS, *HETERONYMS, *CODES, *MONEY, *DATES, *UNITS_AND_SHARES, *FORMULAS, *WORDS, *LEFT)
_SPACES: Final = re.compile(" {2,}")


def numbers_in_words(text: str) -> str:
    """`text` with its numbers, signs and abbreviations in words."""
    return acronyms(_SPACES.sub(" ", applied(_RULES, unified(text))))
