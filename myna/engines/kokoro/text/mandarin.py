"""Mandarin text in Han to the phonemes of the Kokoro model."""

from collections.abc import Iterator, Mapping

from myna.engines.kokoro.text.sandhi import spoken_tones
from myna.engines.kokoro.text.syllables import symbols
from myna.engines.kokoro.text.words import NOTHING_GIVEN, Word, words


def phonemes(text: str, given: Mapping[int, str] = NOTHING_GIVEN) -> Iterator[tuple[int, str]]:
    """The place of each word of a text in Han and its phonemes, with readings that are `given` at some
    places. Characters without a reading are omitted."""
    at = 0
    for word in spoken_tones(words(text, given)):
        if sound := _sounds(word):
            yield at, sound
        at += len(word.text)


def _sounds(word: Word) -> str:
    return "".join(symbols(syllable) for syllable in word.pinyin if syllable)
