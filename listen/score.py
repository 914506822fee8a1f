"""The errors of a transcript: its edit distance from the text in Mandarin syllables and English words.

A Mandarin syllable counts without its tone, since Whisper writes characters and knows many of one sound. An
English word counts as written, in capitals, which keeps it apart from a syllable: `HE` is the word, `he` 喝.
"""

import functools
import importlib.resources
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import kaldifst
import wetext
from pypinyin import lazy_pinyin

from myna.engines.text.reading import spoken_form

JOINED_MAX = 6
"""So many words of one side may be one word of the other: `WI FI` is `WIFI`, `N B A` is `NBA`."""

_HAN = re.compile(r"[一-鿿]")
_RUN = re.compile(r"[一-鿿]+|[A-Z]+|[0-9]+")
_APOSTROPHE = re.compile(r"(?<=[A-Za-z])['’](?=[A-Za-z])")
_SAME_NUMBER = (("幺", "一"), ("两百", "二百"), ("〇", "零"), ("HUNDRED AND", "HUNDRED"))
"""Two readings of a number, of which either is right."""


class Score(NamedTuple):
    """`errors` are substitutions, deletions and insertions; `units` the syllables and words of the text."""

    errors: int
    units: int

    @property
    def rate(self) -> float:
        """From 0; above 1 where more was heard than there is in the text."""
        return self.errors / self.units if self.units else 0.0


def score(said: str, heard: str) -> Score:
    """Compares the transcript `heard` with the spoken words. Numbers in digits are read out before."""
    wanted = units(said)
    return Score(distance(wanted, units(heard)), len(wanted))


def total(scores: Iterable[Score]) -> Score:
    """All errors of all units, so that a long sentence counts for more than a short one."""
    every = list(scores)
    return Score(sum(one.errors for one in every), sum(one.units for one in every))


def units(text: str) -> list[str]:
    """Syllables in lower case and words in capitals, with numbers read out.

    Traditional characters count as simplified ones, whose polyphones pypinyin knows. Punctuation and spaces
    separate only words.
    """
    text = _simplified()(text)
    text = spoken_form(text) if _HAN.search(text) else _english().normalize(text)
    text = _APOSTROPHE.sub("", text).upper()
    for reading, same in _SAME_NUMBER:
        text = text.replace(reading, same)
    text = re.sub(r"(?<=[一-鿿])[^一-鿿A-Z0-9]+(?=[一-鿿])", "", text)
    return [unit for run in _RUN.findall(text) for unit in _of_run(run)]


def distance(wanted: Sequence[str], heard: Sequence[str]) -> int:
    """The fewest substitutions, deletions and insertions between the two; joined words are equal."""
    rows = [list(range(len(heard) + 1))]
    for i, unit in enumerate(wanted, 1):
        row = [i]
        for j, other in enumerate(heard, 1):
            row.append(min(rows[i - 1][j] + 1, row[j - 1] + 1, rows[i - 1][j - 1] + (unit != other)))
            row[j] = min([row[j], *(rows[i - k][j - 1] for k in _joined(wanted[:i], other))])
            row[j] = min([row[j], *(rows[i - 1][j - k] for k in _joined(heard[:j], unit))])
        rows.append(row)
    return rows[-1][-1]


def _joined(units: Sequence[str], word: str) -> list[int]:
    """How many of the last units, two or more of them, make up the word."""
    if not word.isupper():
        return []
    most = min(JOINED_MAX, len(units))
    return [count for count in range(2, most + 1) if "".join(units[-count:]) == word]


def _of_run(run: str) -> list[str]:
    return lazy_pinyin(run) if "一" <= run[0] <= "鿿" else [run]


@functools.cache
def _simplified() -> Callable[[str], str]:
    grammar = importlib.resources.files(wetext) / "fsts" / "traditional_to_simple.fst"
    return kaldifst.TextNormalizer(str(grammar))  # type: ignore[no-any-return]


@functools.cache
def _english() -> wetext.Normalizer:
    return wetext.Normalizer(lang="en", operator="tn")
