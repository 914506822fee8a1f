"""Queries on compute nodes. Tokens and credentials are stored as SHA-256 only.

A change of what the nodes offer raises `nodes_version` in the same transaction: see `config.py`.
"""

from typing import Final, Literal

from msgspec import Struct, structs

from myna.store.database import Queries, Row, Transaction
from myna.store.queries.config import raise_nodes_version
from myna.store.queries.farm import queue
from myna.store.queries.farm.able import ONLINE_MS
from myna.store.rows import (
    columns,
    fetch_map,
    fetch_row,
    fetch_rows,
    fetch_value,
    fetch_values,
    has_row,
    insert_row,
)
from myna.store.states import LEASED, PROCESSING
from myna.wire.farm import Hello, NodeVoice

CHANGE_EVERY_MS: Final = 10_000
"""How often a node may change its offer on average: all processes reload the offers each time."""
CHANGES_AT_ONCE: Final = 4
"""How many changes of a node may come in a burst."""
_ASSIGNMENTS: Final = {
    "enable": "disabled_at = 0, draining = 0",
    "disable": "disabled_at = CASE WHEN disabled_at = 0 THEN now_ms() ELSE disabled_at END",
    "drain": "draining = 1",
}


class NodeRow(Struct, frozen=True):
    """A node as of `now`. Times in ms, 0 for never; `chars_per_s` is 0 if unknown."""

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
    cooldown_until: int

    @property
    def online(self) -> bool:
        """Whether its last request is recent. A disabled node can be online."""
        return self.heard_at > self.now - ONLINE_MS


class NodeCapabilities(Struct, frozen=True):
    """A node's voice ids, the languages in which it clones, and how many jobs it has leased."""

    voices: list[str]
    clones: list[str]
    jobs: int


_COLUMNS = columns(NodeRow, now="now_ms()", cooldown_until="rests_until")


async def by_id(db: Queries, node_id: int) -> NodeRow | None:
    """The node of this id, in any state."""
    return await fetch_row(db, NodeRow, f"SELECT {_COLUMNS} FROM nodes WHERE id = $1", node_id)


async def by_credential(db: Queries, credential_hash: bytes) -> NodeRow | None:
    """The node whose credential has this SHA-256, in any state."""
    sql = f"SELECT {_COLUMNS} FROM nodes WHERE credential_hash = $1"
    return await fetch_row(db, NodeRow, sql, credential_hash)


async def all_nodes(db: Queries) -> list[tuple[NodeRow, NodeCapabilities]]:
    """All nodes by name, with their capabilities."""
    voices, clones = dict[int, list[str]](), dict[int, list[str]]()
    for node_id, voice_id in await db.fetch("SELECT node_id, voice_id FROM node_voices ORDER BY position"):
        voices.setdefault(node_id, []).append(voice_id)
    for node_id, language in await db.fetch("SELECT node_id, language FROM node_clones ORDER BY language"):
        clones.setdefault(node_id, []).append(language)
    sql = f"""SELECT node_id, count(*) FROM (SELECT node_id FROM tasks WHERE {LEASED}
        UNION ALL SELECT node_id FROM clones WHERE {PROCESSING}) AS leased GROUP BY node_id"""
    jobs = await fetch_map(db, int, int, sql)
    nodes = await fetch_rows(db, NodeRow, f"SELECT {_COLUMNS} FROM nodes ORDER BY name")
    return [
        (node, NodeCapabilities(voices.get(node.id, []), clones.get(node.id, []), jobs.get(node.id, 0)))
        for node in nodes
    ]


async def invite(db: Transaction, name: str, token_hash: bytes, life_ms: int, again: bool) -> int | None:
    """Adds a node, or replaces the token of one that has not joined, or of any with `again`. Returns when the
    token expires, in ms; None if the node has joined."""
    sql = """INSERT INTO nodes (name, token_hash, token_until, created_at)
        VALUES ($1, $2, now_ms() + CAST($3 AS BIGINT), now_ms())
        ON CONFLICT (name) DO UPDATE SET token_hash = excluded.token_hash, token_until = excluded.token_until
        WHERE nodes.credential_hash IS NULL OR CAST($4 AS BIGINT) = 1 RETURNING token_until"""
    return await fetch_value(db, int, sql, name, token_hash, life_ms, int(again))


async def join(db: Transaction, token_hash: bytes, credential_hash: bytes, version: str) -> str | None:
    """Consumes the token and sets the node's credential. Returns the node's name; None if the token is
    unknown or expired."""
    sql = """UPDATE nodes SET token_hash = NULL, token_until = 0, credential_hash = $2, version = $3,
        chars_per_s = 0, joined_at = now_ms() WHERE token_hash = $1 AND token_until > now_ms()
        RETURNING name"""
    return await fetch_value(db, str, sql, token_hash, credential_hash, version)


class TooManyChanges(Exception):
    """The node changes its offer too often. The transaction must be rolled back."""


async def differs(db: Queries, node: NodeRow, offered: Hello) -> bool:
    """Whether to record what a node offers: it differs from what is recorded, or the node was shut down."""
    if offered.shutting_down or not node.heard_at:
        return node.heard_at > 0 or not offered.shutting_down
    return (
        (node.slots, node.version) != (offered.slots, offered.version)
        or offered.chars_per_s not in (0, node.chars_per_s)
        or await _recorded(db, node.id) != (list(offered.voices), sorted(offered.clones))
    )


async def offer(db: Transaction, node_id: int, offered: Hello) -> bool:
    """Records what a node can do and when it was heard; False if the node was removed. The offer of a
    node that shuts down is not changed. Its own speed is used until jobs were measured. Raises
    TooManyChanges."""
    sql = """UPDATE nodes SET slots = $2, version = $3,
        chars_per_s = CASE WHEN CAST($4 AS DOUBLE PRECISION) > 0 THEN $4 ELSE chars_per_s END
        WHERE id = $1 RETURNING id"""
    if not await has_row(db, sql, node_id, offered.slots, offered.version, offered.chars_per_s):
        return False
    heard_at = "0" if offered.shutting_down else "now_ms()"
    await db.fetch(f"UPDATE nodes SET heard_at = {heard_at} WHERE id = $1", node_id)
    if offered.shutting_down:
        return True
    voices, languages = wanted = list(offered.voices), sorted(offered.clones)
    if await _recorded(db, node_id) == wanted:
        return True
    for table in ("node_voices", "node_clones"):
        await db.fetch(f"DELETE FROM {table} WHERE node_id = $1", node_id)
    for position, voice in enumerate(voices):
        await insert_row(db, "node_voices", node_id=node_id, position=position, **structs.asdict(voice))
    for language in languages:
        await insert_row(db, "node_clones", node_id=node_id, language=language)
    await _count_change(db, node_id)
    await raise_nodes_version(db)
    return True


async def _count_change(db: Transaction, node_id: int) -> None:
    """A leaky bucket: `changes_until` is when it is empty."""
    sql = """UPDATE nodes SET changes_until = $2
        + CASE WHEN changes_until > now_ms() THEN changes_until ELSE now_ms() END
        WHERE id = $1 AND changes_until <= now_ms() + $3 RETURNING id"""
    if not await has_row(db, sql, node_id, CHANGE_EVERY_MS, CHANGE_EVERY_MS * (CHANGES_AT_ONCE - 1)):
        raise TooManyChanges


async def record_request(db: Transaction, node: NodeRow) -> None:
    """Records that the node sent a request now."""
    await db.fetch("UPDATE nodes SET heard_at = now_ms() WHERE id = $1", node.id)


async def locked_state(db: Transaction, name: str) -> Row | None:
    """When a node was disabled, and whether it drains. Its row is locked until the transaction ends."""
    sql = "UPDATE nodes SET draining = draining WHERE name = $1 RETURNING disabled_at, draining"
    return next(iter(await db.fetch(sql, name)), None)


async def set_state(db: Transaction, name: str, state: Literal["enable", "disable", "drain"]) -> bool:
    """Enables, disables or drains a node; False if there is none. The jobs of a disabled node are
    requeued."""
    rows = await db.fetch(f"UPDATE nodes SET {_ASSIGNMENTS[state]} WHERE name = $1 RETURNING id", name)
    if rows:
        await raise_nodes_version(db)
        if state == "disable":
            await queue.requeue_jobs_of(db, rows[0][0])
    return bool(rows)


async def remove(db: Transaction, name: str) -> bool:
    """Deletes a node and requeues its jobs; False if there is none."""
    rows = await db.fetch("DELETE FROM nodes WHERE name = $1 RETURNING id", name)
    if rows:
        await raise_nodes_version(db)
        await queue.requeue_jobs_of(db, rows[0][0])
    return bool(rows)


async def _recorded(db: Queries, node_id: int) -> tuple[list[NodeVoice], list[str]]:
    """What the node can speak, as it is recorded: its voices, and the languages in which it clones."""
    sql = f"SELECT {columns(NodeVoice)} FROM node_voices WHERE node_id = $1 ORDER BY position"
    voices = await fetch_rows(db, NodeVoice, sql, node_id)
    sql = "SELECT language FROM node_clones WHERE node_id = $1"
    return voices, sorted(await fetch_values(db, str, sql, node_id))
