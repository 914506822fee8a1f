"""Queries on overrides of public voices and on blends. Each change makes every process reload them.

The configuration's version is raised first: its row is the lock that serializes the changes.
"""

from collections.abc import Sequence

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
