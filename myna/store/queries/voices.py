"""Queries on overrides of public voices, on blends, and on the lexicons, which say how words are read. Each
change makes every process reload the configuration.

The configuration's version is raised first: its row is the lock that serializes the changes.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.queries.config import BlendRow, raise_version
from myna.store.rows import columns


async def node_names(db: Queries) -> dict[int, str]:
    """The names of all compute nodes by id."""
    rows = await db.fetch("SELECT id, name FROM nodes")
    return {int(node_id): str(name) for node_id, name in rows}


async def hide(db: Transaction, voice_id: str, hidden: bool) -> None:
    """Hides a voice or shows it again."""
    await raise_version(db)
    await db.fetch(
        "INSERT INTO voice_marks (voice_id, hidden) VALUES ($1, $2)"
        " ON CONFLICT (voice_id) DO UPDATE SET hidden = excluded.hidden",
        voice_id, int(hidden),
    )  # fmt: skip
    await _delete_empty_overrides(db)


async def rename(db: Transaction, voice_id: str, name: str) -> None:
    """Sets a voice's name; "" for the original one."""
    await raise_version(db)
    await db.fetch(
        "INSERT INTO voice_marks (voice_id, name) VALUES ($1, $2)"
        " ON CONFLICT (voice_id) DO UPDATE SET name = excluded.name",
        voice_id, name,
    )  # fmt: skip
    await _delete_empty_overrides(db)


async def order(db: Transaction, voice_ids: Sequence[str]) -> None:
    """Sorts these voices first, in this order, and resets the places of all others."""
    await raise_version(db)
    await db.fetch("UPDATE voice_marks SET place = 0")
    for place, voice_id in enumerate(voice_ids, 1):
        await db.fetch(
            "INSERT INTO voice_marks (voice_id, place) VALUES ($1, $2)"
            " ON CONFLICT (voice_id) DO UPDATE SET place = excluded.place",
            voice_id, place,
        )  # fmt: skip
    await _delete_empty_overrides(db)


async def blend(db: Transaction, blend: BlendRow) -> bool:
    """Stores a blend in place of one with its id. False if an equal one is stored: then nothing changes, not
    even the version."""
    await db.fetch("UPDATE site SET version = version")
    rows = await db.fetch(f"SELECT {columns(BlendRow)} FROM voice_blends WHERE voice_id = $1", blend.voice_id)
    if [BlendRow(*row) for row in rows] == [blend]:
        return False
    await db.fetch(
        "INSERT INTO voice_blends (voice_id, name, gender, language, recipe) VALUES ($1, $2, $3, $4, $5)"
        " ON CONFLICT (voice_id) DO UPDATE SET name = excluded.name, gender = excluded.gender,"
        " language = excluded.language, recipe = excluded.recipe",
        blend.voice_id, blend.name, blend.gender, blend.language, blend.recipe,
    )  # fmt: skip
    await raise_version(db)
    return True


async def count_blends(db: Queries) -> int:
    """How many blends there are."""
    ((number,),) = await db.fetch("SELECT count(*) FROM voice_blends")
    return int(number)


async def delete_blend(db: Transaction, voice_id: str) -> bool:
    """Deletes a blend; False if there is none of this id."""
    await raise_version(db)
    return bool(await db.fetch("DELETE FROM voice_blends WHERE voice_id = $1 RETURNING voice_id", voice_id))


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
    rows = await db.fetch(
        f"SELECT {columns(WordRow)} FROM words WHERE account_id = $1 ORDER BY word", account_id
    )
    return [WordRow(*row) for row in rows]


async def readings(db: Queries, account_id: int) -> dict[str, str]:
    """The reading of each word of an account or of the site."""
    rows = await db.fetch("SELECT word, reading FROM words WHERE account_id = $1", account_id)
    return {str(word): str(reading) for word, reading in rows}


async def put_word(db: Transaction, account_id: int, word: str, reading: str) -> int:
    """Sets the reading of a word, and returns how many words the lexicon has now."""
    await _change_lexicon(db, account_id)
    await db.fetch(
        "INSERT INTO words (account_id, word, reading, created_at) VALUES ($1, $2, $3, now_ms())"
        " ON CONFLICT (account_id, word) DO UPDATE SET reading = excluded.reading,"
        " created_at = excluded.created_at",
        account_id, word, reading,
    )  # fmt: skip
    ((number,),) = await db.fetch("SELECT count(*) FROM words WHERE account_id = $1", account_id)
    return int(number)


async def delete_word(db: Transaction, account_id: int, word: str) -> bool:
    """Deletes a word; False if the lexicon does not have it."""
    await _change_lexicon(db, account_id)
    rows = await db.fetch(
        "DELETE FROM words WHERE account_id = $1 AND word = $2 RETURNING word", account_id, word
    )
    return bool(rows)


async def _change_lexicon(db: Transaction, account_id: int) -> None:
    await raise_version(db)
    await db.fetch(
        "INSERT INTO lexicons (account_id, version) VALUES ($1, 1)"
        " ON CONFLICT (account_id) DO UPDATE SET version = lexicons.version + 1",
        account_id,
    )
