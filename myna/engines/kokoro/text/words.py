"""Mandarin text in Han to words and their readings in pinyin, before tone sandhi.

Words are found by jieba, and read by the phrases of pypinyin. A phrase may join words (还 + 书 is huán shū)
or divide one (银行行长), but never begins in one word and ends within another. Some words are read by their
neighbours, see `polyphones.py`.
"""

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from myna.engines.kokoro.text.contexts import readings_in
from myna.engines.kokoro.text.names import Token, name_readings
from myna.engines.kokoro.text.polyphones import reading_of, reading_within
from myna.engines.kokoro.text.readings import CHARACTERS, PHRASES, WORDS
from myna.engines.kokoro.text.syllables import is_syllable
from myna.engines.kokoro.text.variants import simplified

NOTHING_GIVEN: Final[Mapping[int, str]] = {}
_JOINED_WORDS_MAX: Final = 3
_PHRASE_MAX: Final = 8
_PARTICLES: Final = "地得"
"""jieba has words such as 地说, whose first character belongs to the word before it."""


class Word(msgspec.Struct, frozen=True):
    """A word and the syllable of each of its characters, as `zhong1`; empty for one without a reading. With
    `given` the text itself says how it is read."""

    text: str
    pinyin: tuple[str, ...]
    given: bool = False


def words(text: str, given: Mapping[int, str] = NOTHING_GIVEN) -> list[Word]:
    """The words of a text in Han with their readings; traditional characters become simplified. `given` are
    the readings of some places."""
    text = simplified(text)
    tokens = list(_divided(_jieba().tag(text)))
    texts = [token.text for token in tokens]
    decided = {**name_readings(tokens, _is_known), **dict(readings_in(text)), **given}
    found, begin = [], 0
    for at, word in enumerate(_read(texts)):
        usual = reading_of(texts, at, word.pinyin)
        reading = tuple(decided.get(place, syllable) for place, syllable in enumerate(usual, begin))
        found.append(
            Word(word.text, reading, not given.keys().isdisjoint(range(begin, begin + len(reading))))
        )
        begin += len(word.text)
    return found


def has_reading(character: str) -> bool:
    """Whether a Han character can be spoken."""
    return bool(_syllable(character))


def _is_known(word: str) -> bool:
    return word in WORDS or word in PHRASES or word in _phrases()


def _divided(found: Sequence[tuple[str, str]]) -> Iterator[Token]:
    for word, kind in found:
        if len(word) == 2 and word[0] in _PARTICLES and word not in _phrases():
            yield Token(word[0], "u", True)
            yield Token(word[1], kind, True)
        else:
            yield Token(word, kind, _jieba().has_word(word))


def _read(found: Sequence[str]) -> Iterator[Word]:
    at = 0
    while at < len(found):
        for count in range(min(_JOINED_WORDS_MAX, len(found) - at), 0, -1):
            reading = _phrase("".join(found[at : at + count]))
            if reading:
                yield from _shared_out(found[at : at + count], reading)
                at += count
                break
        else:
            yield Word(found[at], tuple(_by_phrases(found[at])))
            at += 1


def _shared_out(found: Sequence[str], reading: Sequence[str]) -> Iterator[Word]:
    begin = 0
    for word in found:
        yield Word(word, tuple(reading[begin : begin + len(word)]))
        begin += len(word)


def _by_phrases(word: str, longest: int = _PHRASE_MAX) -> Iterator[str]:
    """The reading of a word by its longest phrases from the left, none of more than `longest` characters."""
    at = 0
    while at < len(word):
        within = reading_within(word, at)
        if within:
            yield within
            at += 1
            continue
        for end in range(min(len(word), at + longest), at + 1, -1):
            reading = _phrase(word[at:end])
            if reading:
                yield from reading
                at = end
                break
        else:
            yield _syllable(word[at])
            at += 1


@functools.cache
def _jieba() -> Any:
    import rjieba

    return rjieba


@functools.cache
def _phrases() -> dict[str, list[list[str]]]:
    from pypinyin import phrases_dict

    found: dict[str, list[list[str]]] = phrases_dict.phrases_dict
    return found


@functools.lru_cache(maxsize=8192)
def _phrase(text: str) -> tuple[str, ...] | None:
    """The reading of a phrase of two characters or more, None if there is none."""
    if text in PHRASES:
        return tuple(PHRASES[text].split())
    special = WORDS.get(text)
    if special:
        usual = _dictionary(text) or tuple(_by_phrases(text, len(text) - 1))
        return tuple(special.get(character, one) for character, one in zip(text, usual, strict=True))
    return _dictionary(text)


def _dictionary(text: str) -> tuple[str, ...] | None:
    """The reading of a phrase by pypinyin."""
    if text not in _phrases():
        return None
    found = tuple(_toned(readings[0]) for readings in _phrases()[text])
    return found if len(found) == len(text) and all(found) else None


@functools.lru_cache(maxsize=8192)
def _syllable(character: str) -> str:
    """The usual reading of a character, empty if it has none."""
    from pypinyin import pinyin_dict

    if character in CHARACTERS:
        return CHARACTERS[character]
    return _toned(pinyin_dict.pinyin_dict.get(ord(character), "").split(",")[0])


def _toned(marked: str) -> str:
    """`zhong1` for `zhōng`; empty if the model has no such syllable."""
    from pypinyin.contrib.tone_convert import to_tone3

    syllable = to_tone3(marked, neutral_tone_with_five=True) if marked else ""
    return syllable if is_syllable(syllable) else ""
