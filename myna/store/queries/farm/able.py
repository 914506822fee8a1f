"""Which node can do a job, and when: conditions in SQL, which leasing, polls and estimates share. And what a
node's failures and successes change.

The arguments of a condition are the alias of a job's table, the alias of `nodes`, or an expression for a
node's id.
"""

from typing import Final, Literal

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.rows import columns, fetch_map, fetch_only, fetch_rows, fetch_values, has_row
from myna.store.states import FAILED, LEASED, PROCESSING, QUEUED, READY, leased

Kind = Literal["task", "clone"]
TASK: Final = "task"
CLONE: Final = "clone"
TABLES: Final[dict[Kind, str]] = {TASK: "tasks", CLONE: "clones"}
ONLINE_MS: Final = 40_000
"""A node is online this long after its last request; its long polls are shorter."""
DEFAULT_CHARS_PER_S: Final = 15.0
"""The speed of a node without a measured one: that of reading aloud."""


def speed(node: str) -> str:
    """The node's characters per second."""
    return f"CASE WHEN {node}.chars_per_s > 0 THEN {node}.chars_per_s ELSE {DEFAULT_CHARS_PER_S} END"


def not_refused(job: str, node_id: str) -> str:
    """The node has reported no final failure of the job."""
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
_ABLE_NODES = f"""
WITH RECURSIVE queued (voice_id) AS (
    SELECT (SELECT voice_id FROM tasks WHERE {QUEUED} AND deadline > (SELECT now_ms())
            AND refused_by = '' ORDER BY voice_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.voice_id FROM tasks t WHERE t.{QUEUED} AND t.deadline > (SELECT now_ms())
            AND t.refused_by = '' AND t.voice_id > q.voice_id ORDER BY t.voice_id LIMIT 1)
    FROM queued q WHERE q.voice_id IS NOT NULL
), jobs (voice_id, refused_by) AS (
    SELECT voice_id, '' FROM queued
    UNION ALL
    SELECT voice_id, refused_by FROM tasks
    WHERE {QUEUED} AND deadline > (SELECT now_ms()) AND refused_by <> ''
), able (node_id) AS (
    SELECT v.node_id FROM jobs j JOIN node_voices v ON v.voice_id = j.voice_id
    WHERE {not_refused("j", "v.node_id")}
    UNION
    SELECT l.node_id FROM jobs j JOIN clones c ON c.voice_id = j.voice_id AND c.{READY}
    JOIN node_clones l ON l.language = c.language WHERE {not_refused("j", "l.node_id")}
    UNION
    SELECT l.node_id FROM clones c JOIN node_clones l ON l.language = c.language
    WHERE c.{QUEUED} AND {not_refused("c", "l.node_id")}
)
SELECT n.id FROM able a JOIN nodes n ON n.id = a.node_id
WHERE n.disabled_at = 0 AND n.draining = 0 AND n.rests_until <= (SELECT now_ms())
"""


async def able_nodes(db: Queries) -> set[int]:
    """The enabled nodes that have the voice or the language of a queued job."""
    return set(await fetch_values(db, int, _ABLE_NODES))


async def join_times(db: Queries) -> dict[int, int]:
    """When each node joined, by its id: of the nodes that are enabled, not draining and have not left."""
    sql = "SELECT id, joined_at FROM nodes WHERE disabled_at = 0 AND draining = 0 AND heard_at > 0"
    return await fetch_map(db, int, int, sql)


# ---- failures and successes
#
# A job's `refused_by` has `,ID,` for each node that reported a final failure of it, and its `reason` is the
# report of the last of them, until the job is completed. Both are written while the job's row is locked, so
# no report is lost. The id of a removed node in `refused_by` has no effect.

_HAS_VOICE: Final[dict[Kind, str]] = {TASK: speaks("j", "n.id"), CLONE: clones("j", "n.id")}
"""The node `n` has the voice, or the language, of the job `j`."""


async def refuse(db: Transaction, kind: Kind, job_id: int, node_id: int, reason: str) -> None:
    """Records that the node reported a final failure of the job."""
    sql = f"UPDATE {TABLES[kind]} SET refused_by = refused_by || $2, reason = $3 WHERE id = $1"
    await db.fetch(sql, job_id, f",{node_id},", reason)


async def another_node_can(db: Queries, kind: Kind, job_id: int) -> bool:
    """Whether an online node that gets jobs has the voice or language of this one and has not refused it."""
    return await has_row(db, f"SELECT 1 FROM {TABLES[kind]} j WHERE j.id = $1 AND {_another(kind)}", job_id)


async def fail_refused_clones(db: Transaction, grace_ms: int, reason: str) -> None:
    """Fails queued clones that a node refused and no other node can do now, if their last lease began more
    than `grace_ms` ago. Each keeps the reason that the node reported, else `reason`."""
    sql = f"""UPDATE clones AS j SET {FAILED}, ended_at = now_ms(),
        reason = CASE WHEN j.reason = '' THEN $2 ELSE j.reason END
        WHERE j.{QUEUED} AND j.refused_by <> '' AND j.leased_at <= now_ms() - $1
        AND NOT {_another(CLONE)}"""
    await db.fetch(sql, grace_ms, reason)


def _another(kind: Kind) -> str:
    """The condition that another node can do the job `j`."""
    able = f"{online('n')} AND {not_refused('j', 'n.id')} AND {_HAS_VOICE[kind]}"
    return f"EXISTS (SELECT 1 FROM nodes n WHERE {able})"


async def record_success(db: Transaction, kind: Kind, job_id: int, node_id: int) -> None:
    """The node did the job, so its failures are reset. Each node that refused the job gets a failure and a
    cooldown."""
    found = await fetch_only(db, str, f"SELECT refused_by FROM {TABLES[kind]} WHERE id = $1", job_id)
    refused_by = {int(number) for number in found.split(",") if number}
    if refused_by:
        await db.fetch(f"UPDATE {TABLES[kind]} SET reason = '' WHERE id = $1", job_id)
    for number in sorted({node_id} | refused_by) if refused_by else ():
        await lock_node(db, number)  # in one order, so that two transactions can't deadlock
    await end_cooldown(db, node_id)
    for number in refused_by:
        await begin_cooldown(db, number, returned=False)


async def begin_cooldown(db: Transaction, node_id: int, *, returned: bool, again: bool = True) -> None:
    """The node gets no job for a while, so that another node gets this one: exponential backoff by its
    consecutive failures, a minute at most. A job that the node returned is not a failure. Without `again`
    nothing changes during a cooldown: leases that expire together are one failure."""
    failed = 0 if returned else 1
    only = "" if again else " AND rests_until <= now_ms()"
    sql = f"""UPDATE nodes SET failures = failures + $2, rests_until = now_ms()
        + 1000 * CASE WHEN failures + $2 < 6 THEN 1 << (failures + $2) ELSE 60 END WHERE id = $1{only}"""
    await db.fetch(sql, node_id, failed)


async def lock_node(db: Transaction, node_id: int) -> None:
    """Locks the node's row until the transaction ends."""
    await db.fetch("UPDATE nodes SET failures = failures WHERE id = $1", node_id)


async def end_cooldown(db: Transaction, node_id: int) -> None:
    """Resets the node's consecutive failures after it did a job."""
    await db.fetch("UPDATE nodes SET failures = 0 WHERE id = $1 AND failures > 0", node_id)
