"""Queries on what the operator made of public voices. Each change makes every process read them again.

The configuration's version is raised first: its row is the lock, so two who change marks take turns.
"""

from collections.abc import Sequence

from myna.store.database import Connection, Reader
from myna.store.site import changed


async def node_names(db: Reader) -> dict[int, str]:
    """The names of all compute nodes by id."""
    rows = await db.fetch("SELECT id, name FROM nodes")
    return {int(node_id): str(name) for node_id, name in rows}


async def hide(db: Connection, voice_id: str, hidden: bool) -> None:
    """Takes a voice out of sight, or shows it again."""
    await changed(db)
    await db.fetch(
        "INSERT INTO voice_marks (voice_id, hidden) VALUES ($1, $2)"
        " ON CONFLICT (voice_id) DO UPDATE SET hidden = excluded.hidden",
        voice_id, int(hidden),
    )  # fmt: skip
    await _drop_those_that_say_nothing(db)


async def rename(db: Connection, voice_id: str, name: str) -> None:
    """Gives a voice another name; "" for its own."""
    await changed(db)
    await db.fetch(
        "INSERT INTO voice_marks (voice_id, name) VALUES ($1, $2)"
        " ON CONFLICT (voice_id) DO UPDATE SET name = excluded.name",
        voice_id, name,
    )  # fmt: skip
    await _drop_those_that_say_nothing(db)


async def order(db: Connection, voice_ids: Sequence[str]) -> None:
    """Puts these first, in this order; all others lose their places."""
    await changed(db)
    await db.fetch("UPDATE voice_marks SET place = 0")
    for place, voice_id in enumerate(voice_ids, 1):
        await db.fetch(
            "INSERT INTO voice_marks (voice_id, place) VALUES ($1, $2)"
            " ON CONFLICT (voice_id) DO UPDATE SET place = excluded.place",
            voice_id, place,
        )  # fmt: skip
    await _drop_those_that_say_nothing(db)


async def _drop_those_that_say_nothing(db: Connection) -> None:
    await db.fetch("DELETE FROM voice_marks WHERE name = '' AND place = 0 AND hidden = 0")
