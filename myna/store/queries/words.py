"""Queries on the lexicons: how words are read, for the site (account 0) and for accounts.

The row of a lexicon is the lock that serializes its changes. Each change makes every process reload the
configuration, which has the versions of all lexicons.
"""

from typing import Final

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.queries.config import raise_version
from myna.store.rows import columns

SITE: Final = 0


class WordRow(Struct, frozen=True):
    """A word and its reading; `created_at` in ms."""

    word: str
    reading: str
    created_at: int


async def of_owner(db: Queries, account_id: int) -> list[WordRow]:
    """The words of an account or of the site, in order."""
    rows = await db.fetch(
        f"SELECT {columns(WordRow)} FROM words WHERE account_id = $1 ORDER BY word", account_id
    )
    return [WordRow(*row) for row in rows]


async def readings(db: Queries, account_id: int) -> dict[str, str]:
    """The reading of each word of an account or of the site."""
    rows = await db.fetch("SELECT word, reading FROM words WHERE account_id = $1", account_id)
    return {str(word): str(reading) for word, reading in rows}


async def put(db: Transaction, account_id: int, word: str, reading: str) -> int:
    """Sets the reading of a word, and returns how many words the lexicon has now."""
    await _change(db, account_id)
    await db.fetch(
        "INSERT INTO words (account_id, word, reading, created_at) VALUES ($1, $2, $3, now_ms())"
        " ON CONFLICT (account_id, word) DO UPDATE SET reading = excluded.reading,"
        " created_at = excluded.created_at",
        account_id, word, reading,
    )  # fmt: skip
    ((number,),) = await db.fetch("SELECT count(*) FROM words WHERE account_id = $1", account_id)
    return int(number)


async def delete(db: Transaction, account_id: int, word: str) -> bool:
    """Deletes a word; False if the lexicon does not have it."""
    await _change(db, account_id)
    rows = await db.fetch(
        "DELETE FROM words WHERE account_id = $1 AND word = $2 RETURNING word", account_id, word
    )
    return bool(rows)


async def _change(db: Transaction, account_id: int) -> None:
    await raise_version(db)
    await db.fetch(
        "INSERT INTO lexicons (account_id, version) VALUES ($1, 1)"
        " ON CONFLICT (account_id) DO UPDATE SET version = lexicons.version + 1",
        account_id,
    )
