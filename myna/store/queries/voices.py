"""Queries on overrides of public voices, on blends, and on the lexicons, which say how words are read. Each
change makes every process reload the configuration.

The configuration's version is raised first: its row is the lock that serializes the changes.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct, structs

from myna.store.database import Queries, Transaction
from myna.store.queries.config import BlendRow, raise_version
from myna.store.rows import NOW, columns, fetch_map, fetch_only, fetch_rows, has_row, put_row


async def node_names(db: Queries) -> dict[int, str]:
    """The names of all compute nodes by id."""
    return await fetch_map(db, int, str, "SELECT id, name FROM nodes")


async def override(db: Transaction, voice_id: str, **values: str | int) -> None:
    """Sets these fields of a voice's `VoiceOverride`."""
    await raise_version(db)
    await put_row(db, "voice_marks", "voice_id", voice_id=voice_id, **values)
    await _delete_empty_overrides(db)


async def order(db: Transaction, voice_ids: Sequence[str]) -> None:
    """Sorts these voices first, in this order, and resets the places of all others."""
    await raise_version(db)
    await db.fetch("UPDATE voice_marks SET place = 0")
    for place, voice_id in enumerate(voice_ids, 1):
        await put_row(db, "voice_marks", "voice_id", voice_id=voice_id, place=place)
    await _delete_empty_overrides(db)


async def blend(db: Transaction, blend: BlendRow) -> None:
    """Stores a blend in place of one with its id."""
    await raise_version(db)
    await put_row(db, "voice_blends", "voice_id", **structs.asdict(blend))


async def count_blends(db: Queries) -> int:
    """How many blends there are."""
    return await fetch_only(db, int, "SELECT count(*) FROM voice_blends")


async def delete_blend(db: Transaction, voice_id: str) -> bool:
    """Deletes a blend; False if there is none of this id."""
    await raise_version(db)
    return await has_row(db, "DELETE FROM voice_blends WHERE voice_id = $1 RETURNING voice_id", voice_id)


async def _delete_empty_overrides(db: Transaction) -> None:
    await db.fetch("DELETE FROM voice_marks WHERE name = '' AND place = 0 AND hidden = 0")


SITE: Final = 0


class WordRow(Struct, frozen=True):
    """A word and its reading; `created_at` in ms."""

    word: str
    reading: str
    created_at: int


async def words(db: Queries, account_id: int) -> list[WordRow]:
    """The words of an account or of the site, in order."""
    sql = f"SELECT {columns(WordRow)} FROM words WHERE account_id = $1 ORDER BY word"
    return await fetch_rows(db, WordRow, sql, account_id)


async def readings(db: Queries, account_id: int) -> dict[str, str]:
    """The reading of each word of an account or of the site."""
    return await fetch_map(db, str, str, "SELECT word, reading FROM words WHERE account_id = $1", account_id)


async def put_word(db: Transaction, account_id: int, word: str, reading: str) -> int:
    """Sets the reading of a word, and returns how many words the lexicon has now."""
    await _change_lexicon(db, account_id)
    key = "account_id, word"
    await put_row(db, "words", key, account_id=account_id, word=word, reading=reading, created_at=NOW)
    return await fetch_only(db, int, "SELECT count(*) FROM words WHERE account_id = $1", account_id)


async def delete_word(db: Transaction, account_id: int, word: str) -> bool:
    """Deletes a word; False if the lexicon does not have it."""
    await _change_lexicon(db, account_id)
    sql = "DELETE FROM words WHERE account_id = $1 AND word = $2 RETURNING word"
    return await has_row(db, sql, account_id, word)


async def _change_lexicon(db: Transaction, account_id: int) -> None:
    await raise_version(db)
    sql = """INSERT INTO lexicons (account_id, version) VALUES ($1, 1)
        ON CONFLICT (account_id) DO UPDATE SET version = lexicons.version + 1"""
    await db.fetch(sql, account_id)
