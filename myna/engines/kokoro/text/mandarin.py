"""Mandarin text in Han to the phonemes of the Kokoro model."""

from collections.abc import Mapping

from myna.engines.kokoro.text.sandhi import spoken_tones
from myna.engines.kokoro.text.syllables import symbols
from myna.engines.kokoro.text.words import NOTHING_GIVEN, Word, words


def phonemes(text: str, given: Mapping[int, str] = NOTHING_GIVEN) -> list[str]:
    """The phonemes of each word of a text in Han, whose readings are `given` at some places. Characters
    without a reading are omitted."""
    sounds = (_sounds(word) for word in spoken_tones(words(text, given)))
    return [sound for sound in sounds if sound]


def _sounds(word: Word) -> str:
    return "".join(symbols(syllable) for syllable in word.pinyin if syllable)
