"""Which sounds say which words of a text.

A word here is what is spoken as one: 12.50 dollars are several sounds and one word of the text. The words of
a sentence, put together, are the sentence: each has the marks and spaces after it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import accumulate, pairwise
from typing import Final

import regex

Places = Sequence[tuple[int, int]]
"""Where in a sound words begin, and where in the text."""

_TOKEN: Final = regex.compile(r"\p{Han}|[[\p{L}\p{M}\p{N}]--\p{Han}]+|.", regex.DOTALL | regex.V1)
_COMPARED_MAX: Final = 4_000_000
"""Pairs of tokens. A longer sentence that has numbers or signs is one word."""


def words_of(sounds: Sequence[Places], said: str, sentence: str) -> list[list[tuple[int, str]]]:
    """For each sound the words of the sentence that begin in it, and where; none if it goes on with the word
    of the one before. The places of `sounds` are those of the sentence as it is said, in words."""
    written = _written(said, sentence)
    begins: list[tuple[int, int, int]] = []
    for number, places in enumerate(sounds):
        for offset, place in places:
            at = written.get(place, -1) if begins else 0
            if not begins or at > begins[-1][2]:
                begins.append((number, offset, at))
    found: list[list[tuple[int, str]]] = [[] for _ in sounds]
    ends = [*(begin[2] for begin in begins[1:]), len(sentence)]
    for (number, offset, at), end in zip(begins, ends, strict=False):
        found[number].append((offset, sentence[at:end]))
    return found


def placed(
    sounds: Sequence[str], words: Sequence[str], places: Sequence[int], sound_of: Callable[[str], str]
) -> Iterator[tuple[str, Places]]:
    """The sounds of `words`, which begin at `places`, with the words that begin in each. espeak-ng says some
    words as one (of the), and some as two; `sound_of` is the sound of one word alone."""
    if len(words) == len(sounds):
        for sound, place in zip(sounds, places, strict=True):
            yield sound, [(0, place)]
        return
    alone = ["".join(sound_of(word).split()) for word in words]
    whole = _alike("".join(alone), "".join(sounds))
    begins = {whole[at]: place for at, place in zip(_ends(alone), places, strict=False) if at in whole}
    for sound, (first, end) in zip(sounds, pairwise(_ends(sounds)), strict=True):
        yield sound, [(at - first, begins[at]) for at in range(first, end) if at in begins]


def _written(said: str, sentence: str) -> Mapping[int, int]:
    """The places of the sentence by those of `said`, where both go on alike."""
    if said == sentence:
        return {place: place for place in range(len(said))}
    ours, theirs = _TOKEN.findall(said), _TOKEN.findall(sentence)
    if len(ours) * len(theirs) > _COMPARED_MAX:
        return {}
    at, there = _ends(ours), _ends(theirs)
    return {at[one]: there[other] for one, other in _alike(ours, theirs).items()}


def _ends(parts: Sequence[str]) -> list[int]:
    return [0, *accumulate(map(len, parts))]


def _alike(one: Sequence[str], other: Sequence[str]) -> dict[int, int]:
    """The places of `one` at which `other` goes on alike, its begin and end among them."""
    places = {0: 0}
    for block in SequenceMatcher(None, one, other, autojunk=False).get_matching_blocks():
        for more in range(block.size + 1):
            places.setdefault(block.a + more, block.b + more)
    return places
