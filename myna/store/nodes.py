"""Queries on compute nodes. Tokens and credentials are never here: only their SHA-256.

Whatever changes what the site can speak raises the configuration's version in the same transaction.
"""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from myna.store import queue
from myna.store.database import Connection, Reader
from myna.store.outlook import ONLINE_MS
from myna.store.site import changed

_SETS: Final = {
    "enable": "disabled_at = 0, draining = 0",
    "disable": "disabled_at = CASE WHEN disabled_at = 0 THEN now_ms() ELSE disabled_at END",
    "drain": "draining = 1",
}


class NodeRow(Struct, frozen=True):
    """A node as of `now`. Times in ms, 0 for never; `chars_per_s` is 0 where it isn't known."""

    now: int
    id: int
    name: str
    disabled_at: int
    draining: int
    slots: int
    chars_per_s: float
    version: str
    heard_at: int
    joined_at: int

    @property
    def online(self) -> bool:
        """Whether it was heard lately, whatever else it is."""
        return self.heard_at > self.now - ONLINE_MS


class OfferedVoice(Struct, frozen=True):
    """A voice that a node says it can speak."""

    voice_id: str
    name: str
    gender: str
    language: str


class Offer(Struct, frozen=True):
    """What a node can do from now on. `chars_per_s` counts until its jobs have shown more; 0 where it isn't
    known. With `leaving` it is offline."""

    voices: Sequence[OfferedVoice]
    clones: Sequence[str]
    slots: int
    chars_per_s: float
    version: str
    leaving: bool


class Offered(Struct, frozen=True):
    """What a node has: its voices by id, the languages it clones in, and how many jobs it holds."""

    voices: list[str]
    clones: list[str]
    jobs: int


_COLUMNS = "now_ms(), id, name, disabled_at, draining, slots, chars_per_s, version, heard_at, joined_at"


async def by_credential(db: Reader, credential_hash: bytes) -> NodeRow | None:
    """The node whose credential has this SHA-256, whatever its state."""
    rows = await db.fetch(f"SELECT {_COLUMNS} FROM nodes WHERE credential_hash = $1", credential_hash)
    return NodeRow(*rows[0]) if rows else None


async def everyone(db: Reader) -> list[tuple[NodeRow, Offered]]:
    """All nodes by name, with what they have."""
    voices, clones = dict[int, list[str]](), dict[int, list[str]]()
    for node_id, voice_id in await db.fetch("SELECT node_id, voice_id FROM node_voices ORDER BY position"):
        voices.setdefault(node_id, []).append(voice_id)
    for node_id, language in await db.fetch("SELECT node_id, language FROM node_clones ORDER BY language"):
        clones.setdefault(node_id, []).append(language)
    held = await db.fetch(
        "SELECT node_id, count(*) FROM ("
        "SELECT node_id FROM tasks WHERE status = 1 AND lease_until > 0 UNION ALL"
        " SELECT node_id FROM clones WHERE status = 1) AS held GROUP BY node_id"
    )
    jobs = {int(node_id): int(count) for node_id, count in held}
    nodes = [NodeRow(*row) for row in await db.fetch(f"SELECT {_COLUMNS} FROM nodes ORDER BY name")]
    return [
        (node, Offered(voices.get(node.id, []), clones.get(node.id, []), jobs.get(node.id, 0)))
        for node in nodes
    ]


async def invite(db: Connection, name: str, token_hash: bytes, life_ms: int, again: bool) -> int | None:
    """A new node, or another token for one that hasn't joined, or for any with `again`; an older token is
    void. Gives when the token ends, in ms; None where the node has joined."""
    rows = await db.fetch(
        "INSERT INTO nodes (name, token_hash, token_until, created_at)"
        " VALUES ($1, $2, now_ms() + CAST($3 AS BIGINT), now_ms())"
        " ON CONFLICT (name) DO UPDATE SET"
        " token_hash = excluded.token_hash, token_until = excluded.token_until"
        " WHERE nodes.credential_hash IS NULL OR CAST($4 AS BIGINT) = 1 RETURNING token_until",
        name, token_hash, life_ms, int(again),
    )  # fmt: skip
    return int(rows[0][0]) if rows else None


async def join(db: Connection, token_hash: bytes, credential_hash: bytes, version: str) -> str | None:
    """Uses the token up and gives the node this credential, instead of one it had. The node's name; None
    where no node has such a token, or it has ended."""
    rows = await db.fetch(
        "UPDATE nodes SET token_hash = NULL, token_until = 0, credential_hash = $2, version = $3,"
        " chars_per_s = 0, joined_at = now_ms() WHERE token_hash = $1 AND token_until > now_ms()"
        " RETURNING name",
        token_hash, credential_hash, version,
    )  # fmt: skip
    return str(rows[0][0]) if rows else None


async def offer(db: Connection, node_id: int, offered: Offer) -> bool:
    """Records what a node can do, and that it was heard; False where the node is gone."""
    rows = await db.fetch(
        "UPDATE nodes SET slots = $2, version = $3,"
        " chars_per_s = CASE WHEN CAST($4 AS DOUBLE PRECISION) > 0 THEN $4 ELSE chars_per_s END"
        f" WHERE id = $1 RETURNING {_COLUMNS}",
        node_id, offered.slots, offered.version, offered.chars_per_s,
    )  # fmt: skip
    if not rows:
        return False
    was_online = NodeRow(*rows[0]).online
    heard_at = "0" if offered.leaving else "now_ms()"
    await db.fetch(f"UPDATE nodes SET heard_at = {heard_at} WHERE id = $1", node_id)
    differs = await _replace_voices(db, node_id, offered.voices)
    differs |= await _replace_clones(db, node_id, sorted(offered.clones))
    if differs or was_online is offered.leaving:
        await changed(db)
    return True


async def heard(db: Connection, node: NodeRow) -> None:
    """The node was heard now; one that was offline brings its voices back."""
    await db.fetch("UPDATE nodes SET heard_at = now_ms() WHERE id = $1", node.id)
    if not node.online:
        await changed(db)


async def put(db: Connection, name: str, state: Literal["enable", "disable", "drain"]) -> bool:
    """Lets a node work, not let it in, or lets it end what it has; False where there is no such node. What a
    disabled one holds is queued again at once."""
    rows = await db.fetch(f"UPDATE nodes SET {_SETS[state]} WHERE name = $1 RETURNING id", name)
    if rows:
        await changed(db)
        if state == "disable":
            await queue.put_back_of(db, rows[0][0])
    return bool(rows)


async def remove(db: Connection, name: str) -> bool:
    """Deletes a node with what it could speak; False where there is none. What it holds is queued again."""
    rows = await db.fetch("DELETE FROM nodes WHERE name = $1 RETURNING id", name)
    if rows:
        await changed(db)
        await queue.put_back_of(db, rows[0][0])
    return bool(rows)


async def _replace_voices(db: Connection, node_id: int, voices: Sequence[OfferedVoice]) -> bool:
    rows = await db.fetch(
        "SELECT voice_id, name, gender, language FROM node_voices WHERE node_id = $1 ORDER BY position",
        node_id,
    )
    if [OfferedVoice(*row) for row in rows] == list(voices):
        return False
    await db.fetch("DELETE FROM node_voices WHERE node_id = $1", node_id)
    for position, voice in enumerate(voices):
        await db.fetch(
            "INSERT INTO node_voices (node_id, position, voice_id, name, gender, language)"
            " VALUES ($1, $2, $3, $4, $5, $6)",
            node_id, position, voice.voice_id, voice.name, voice.gender, voice.language,
        )  # fmt: skip
    return True


async def _replace_clones(db: Connection, node_id: int, languages: Sequence[str]) -> bool:
    rows = await db.fetch("SELECT language FROM node_clones WHERE node_id = $1 ORDER BY language", node_id)
    if sorted(language for (language,) in rows) == languages:
        return False
    await db.fetch("DELETE FROM node_clones WHERE node_id = $1", node_id)
    for language in languages:
        await db.fetch("INSERT INTO node_clones (node_id, language) VALUES ($1, $2)", node_id, language)
    return True
