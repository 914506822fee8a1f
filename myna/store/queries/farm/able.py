"""Which node can do a job, and when: conditions in SQL, which leasing, polls, refusals and estimates share.

Arguments are the alias of a job's table, the alias of `nodes`, or an expression for a node's id.
"""

from typing import Final

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.rows import columns, fetch_rows, fetch_values
from myna.store.states import LEASED, PROCESSING, QUEUED, READY, leased

ONLINE_MS: Final = 40_000
"""A node is online this long after its last request; its long polls are shorter."""
DEFAULT_CHARS_PER_S: Final = 15.0
"""The speed of a node without a measured one: that of reading aloud."""


def speed(node: str) -> str:
    """The node's characters per second."""
    return f"CASE WHEN {node}.chars_per_s > 0 THEN {node}.chars_per_s ELSE {DEFAULT_CHARS_PER_S} END"


def not_refused(job: str, node_id: str) -> str:
    """The node has not refused the job: see `refusals.py`."""
    return f"{job}.refused_by NOT LIKE '%,' || {node_id} || ',%'"


def in_time(task: str, chars_per_s: str) -> str:
    """A node of this speed finishes the text before its deadline."""
    return f"{task}.chars * 1000.0 <= ({task}.deadline - (SELECT now_ms())) * ({chars_per_s})"


def speaks(task: str, node_id: str) -> str:
    """The node has the voice of the task."""
    return (
        f"(EXISTS (SELECT 1 FROM node_voices v WHERE v.node_id = {node_id} AND v.voice_id = {task}.voice_id)"
        " OR EXISTS (SELECT 1 FROM clones r JOIN node_clones l ON l.language = r.language"
        f" WHERE r.voice_id = {task}.voice_id AND r.{READY} AND l.node_id = {node_id}))"
    )


def clones(clone: str, node_id: str) -> str:
    """The node clones in the language of the new voice."""
    return (
        f"EXISTS (SELECT 1 FROM node_clones l WHERE l.node_id = {node_id} AND l.language = {clone}.language)"
    )


def has_free_slot(node: str) -> str:
    """The node has fewer leases than slots. A lease that has expired counts until it is requeued."""
    return (
        f"{node}.slots > (SELECT count(*) FROM tasks h WHERE {leased('h')} AND h.node_id = {node}.id)"
        f" + (SELECT count(*) FROM clones h WHERE h.{PROCESSING} AND h.node_id = {node}.id)"
    )


def online(node: str) -> str:
    """The node is online and gets jobs."""
    return (
        f"{node}.disabled_at = 0 AND {node}.draining = 0"
        f" AND {node}.heard_at > (SELECT now_ms()) - {ONLINE_MS}"
    )


def another_first(job: str, node_id: str, able: str) -> str:
    """This node is not the one that failed the job last, or no other node can do it. `able` is the condition
    that the node `n` has the voice or the language, and the time."""
    return (
        f"({job}.node_id <> {node_id} OR NOT EXISTS (SELECT 1 FROM nodes n WHERE n.id <> {node_id}"
        f" AND {online('n')} AND {not_refused(job, 'n.id')} AND {able}))"
    )


class OnlineNode(Struct, frozen=True):
    """A node that takes jobs: how many at a time, and its speed in characters per second."""

    id: int
    slots: int
    chars_per_s: float


class Queued(Struct, frozen=True):
    """Unfinished tasks of an account in a voice, queued or leased."""

    account_id: int
    voice_id: str
    tasks: int
    chars: int


_QUEUED = columns(Queued, tasks="count(*)", chars="CAST(sum(chars) AS BIGINT)")


async def online_nodes(db: Queries) -> list[OnlineNode]:
    """The enabled nodes that are online."""
    sql = f"""SELECT {columns(OnlineNode, "n", chars_per_s=speed("n"))} FROM nodes n
        WHERE {online("n")} AND n.slots > 0"""
    return await fetch_rows(db, OnlineNode, sql)


async def queued(db: Queries) -> list[Queued]:
    """Queued and leased tasks by account and voice. Each half has an index."""
    sql = f"""SELECT {_QUEUED} FROM (
        SELECT account_id, voice_id, chars FROM tasks WHERE {QUEUED}
        UNION ALL SELECT account_id, voice_id, chars FROM tasks WHERE {LEASED}
        ) AS unspoken GROUP BY account_id, voice_id"""
    return await fetch_rows(db, Queued, sql)


async def record_speed(db: Transaction, node_id: int, task_id: int) -> None:
    """Adds the speed of a finished task to its node's moving average, with a weight of one fifth. A text that
    is too short to measure is skipped."""
    sql = """UPDATE nodes SET chars_per_s =
        CASE WHEN chars_per_s = 0 THEN s.speed ELSE chars_per_s * 0.8 + s.speed * 0.2 END
        FROM (SELECT chars * 1000.0 / (now_ms() - leased_at) AS speed FROM tasks
              WHERE id = $2 AND now_ms() - leased_at > 0 AND chars >= 4) AS s WHERE nodes.id = $1"""
    await db.fetch(sql, node_id, task_id)


# `queued` is a loose index scan over the queued voices, as in `queue.next_jobs`. Usually there are none, and
# the other parts read nothing. Tasks that a node refused are few, and read one by one.
_ABLE = f"""
WITH RECURSIVE queued (voice_id) AS (
    SELECT (SELECT voice_id FROM tasks WHERE {QUEUED} AND deadline > (SELECT now_ms())
            AND refused_by = '' ORDER BY voice_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.voice_id FROM tasks t WHERE t.{QUEUED} AND t.deadline > (SELECT now_ms())
            AND t.refused_by = '' AND t.voice_id > q.voice_id ORDER BY t.voice_id LIMIT 1)
    FROM queued q WHERE q.voice_id IS NOT NULL
), refused (voice_id, refused_by) AS (
    SELECT voice_id, refused_by FROM tasks
    WHERE {QUEUED} AND deadline > (SELECT now_ms()) AND refused_by <> ''
), able (node_id) AS (
    SELECT v.node_id FROM queued q JOIN node_voices v ON v.voice_id = q.voice_id
    UNION
    SELECT l.node_id FROM queued q JOIN clones c ON c.voice_id = q.voice_id AND c.{READY}
    JOIN node_clones l ON l.language = c.language
    UNION
    SELECT v.node_id FROM refused r JOIN node_voices v ON v.voice_id = r.voice_id
    WHERE {not_refused("r", "v.node_id")}
    UNION
    SELECT l.node_id FROM refused r JOIN clones c ON c.voice_id = r.voice_id AND c.{READY}
    JOIN node_clones l ON l.language = c.language WHERE {not_refused("r", "l.node_id")}
    UNION
    SELECT l.node_id FROM clones c JOIN node_clones l ON l.language = c.language
    WHERE c.{QUEUED} AND {not_refused("c", "l.node_id")}
)
SELECT n.id FROM able a JOIN nodes n ON n.id = a.node_id
WHERE n.disabled_at = 0 AND n.draining = 0 AND n.rests_until <= (SELECT now_ms())
"""


async def able_nodes(db: Queries) -> set[int]:
    """The enabled nodes that have the voice or the language of a queued job."""
    return set(await fetch_values(db, int, _ABLE))


async def join_times(db: Queries) -> dict[int, int]:
    """When each node joined, by its id: of the nodes that are enabled, not draining and have not left."""
    sql = "SELECT id, joined_at FROM nodes WHERE disabled_at = 0 AND draining = 0 AND heard_at > 0"
    rows = await db.fetch(sql)
    return {int(node_id): int(joined_at) for node_id, joined_at in rows}
