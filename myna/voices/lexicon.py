"""The lexicon: how words are read, for the site and for each account, whose own words come first.

The words are applied where a text is spoken, by writing their readings into it as `engines/text/notation.py`
describes. The stored text, its estimate and its charge stay those of the text as it was sent.
"""

import asyncio
import unicodedata
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import regex

from myna.config import ConfigCache
from myna.engines.kokoro.symbols import is_syllable
from myna.engines.text.notation import kind_of, outside
from myna.engines.text.signs import speakable
from myna.engines.text.ssml import unmarked
from myna.errors import CommandError, DatabaseUnavailable
from myna.lib.names import is_line
from myna.store.database import Database, Queries
from myna.store.queries import voices as store
from myna.store.queries.voices import SITE

WORDS_MAX: Final = 500
WORD_MAX_CHARS: Final = 64
"""Of a word and of its reading."""
ADDED_MAX_CHARS: Final = 50_000
"""What readings may add to one text; the words after that are read as they are written."""
OFF_THE_LOOP_CHARS: Final = 5000
"""A longer text is read in a thread, since that takes milliseconds."""
_CACHED_MAX: Final = 200
_V1: Final = regex.VERSION1
_ONLY_HAN: Final = regex.compile(r"\p{Script=Han}+")
_TONES: Final = {"\u0304": "1", "\u0301": "2", "\u030c": "3", "\u0300": "4"}
_JOINED: Final = r"[[\p{L}\p{M}\p{N}]--\p{Script=Han}]"
"""What joins a word: Myna is not a word of Mynabird, but one of 用Myna读."""
_JOINS: Final = regex.compile(_JOINED, _V1)


class Lexicons:
    """The words of the site and of accounts in one process, cached by their versions: an account without
    words costs no query."""

    def __init__(self, db: Database, config: ConfigCache) -> None:
        self._db = db
        self._config = config
        self._cached: dict[int, tuple[int, dict[str, str]]] = {}

    async def of_account(self, account_id: int) -> Mapping[str, str]:
        """The words that apply to a text of the account. Raises DatabaseUnavailable."""
        versions = self._config.current.lexicons
        found: dict[str, str] = {}
        for owner in (SITE, account_id):
            if owner in versions:
                found |= await self._words(owner, versions[owner])
        return found

    async def with_readings(self, text: str, account_id: int) -> str:
        """The text, in notation, with the readings of these words. Raises DatabaseUnavailable."""
        words = await self.of_account(account_id)
        if words and len(text) > OFF_THE_LOOP_CHARS:
            return await asyncio.to_thread(applied, text, words)
        return applied(text, words)

    async def _words(self, owner: int, version: int) -> dict[str, str]:
        known, words = self._cached.get(owner, (0, {}))
        if known != version:
            try:
                words = await store.readings(self._db, owner)
            except self._db.unavailable:
                raise DatabaseUnavailable from None
            if len(self._cached) >= _CACHED_MAX:
                self._cached.clear()
            self._cached[owner] = version, words
        return words


async def stored(db: Queries, account_id: int) -> dict[str, str]:
    """The words that apply to a text of the account, without a cache."""
    return await store.readings(db, SITE) | await store.readings(db, account_id)


def with_readings(text: str, words: Mapping[str, str]) -> str:
    """A text as it was sent, without its markup, with the readings of these words written into it."""
    return applied(unmarked(text).text, words)


def applied(text: str, words: Mapping[str, str]) -> str:
    """The text with the readings of these words, the longest first. A word with a lower-case letter is also
    found in other case."""
    lower = text.lower()
    there = [word for word in words if word.lower() in lower]
    if not there:
        return text
    by_lower = {word.lower(): word for word in there}
    left = ADDED_MAX_CHARS

    def read(found: "regex.Match[str]") -> str:
        nonlocal left
        word: str = found[0]
        reading = words.get(word) or words.get(by_lower.get(word.lower(), ""), "")
        written = f"[{word}](/{reading}/)"
        left -= len(written) - len(word)
        return written if reading and left >= 0 else word

    return outside(text, partial(_pattern(there).sub, read))


def checked_word(word: str) -> str:
    """The word in its usual form. Raises CommandError."""
    word = unicodedata.normalize("NFC", word.strip())
    if not is_line(word, WORD_MAX_CHARS) or not speakable(word) or set(word) & set("[]"):
        raise CommandError(
            "A word has 1 to {chars_max} printable characters, a letter or a digit among them, and no"
            " brackets.",
            "word",
            chars_max=WORD_MAX_CHARS,
        )
    return word


def checked_reading(word: str, reading: str) -> str:
    """The reading in its usual form. Raises CommandError."""
    is_han = _ONLY_HAN.fullmatch(word) is not None
    kind = kind_of(_numbered(reading) if is_han else reading) if len(reading) <= WORD_MAX_CHARS else None
    without_tones = is_han and all(is_syllable(f"{one}5") for one in reading.lower().split())
    if kind is None or without_tones or not is_line(reading, WORD_MAX_CHARS):
        raise CommandError(
            "A reading is pinyin with the numbers of its tones (hang2 zhang3), words (MY-nuh, with its stress"
            " in capitals) or IPA (ˈmaɪnə), of at most {chars_max} characters; it is {reading!r}.",
            chars_max=WORD_MAX_CHARS,
            reading=reading[:WORD_MAX_CHARS],
        )
    how, usual = kind
    if how == "pinyin" and is_han and usual.count(" ") + 1 != len(word):
        raise CommandError(
            "{word!r} has {characters} characters, and the reading {syllables} syllables.",
            word=word,
            characters=len(word),
            syllables=usual.count(" ") + 1,
        )
    return usual


def _numbered(reading: str) -> str:
    """Pinyin with marks as pinyin with numbers: háng as hang2; anything else as it is."""
    syllables = []
    for written in unicodedata.normalize("NFD", reading).split():
        tones = [tone for mark, tone in _TONES.items() if mark in written]
        plain = "".join(letter for letter in written if letter not in _TONES)
        syllables.append(unicodedata.normalize("NFC", plain.lower()) + "".join(tones))
    return " ".join(syllables) if all(map(is_syllable, syllables)) else reading


def _pattern(words: list[str]) -> "regex.Pattern[Any]":
    longest_first = sorted(words, key=len, reverse=True)
    return regex.compile("|".join(map(_alternative, longest_first)), _V1)


def _alternative(word: str) -> str:
    before = f"(?<!{_JOINED})" if _JOINS.match(word[0]) else ""
    after = f"(?!{_JOINED})" if _JOINS.match(word[-1]) else ""
    escaped = regex.escape(word)
    return f"{before}{f'(?i:{escaped})' if any(map(str.islower, word)) else escaped}{after}"
