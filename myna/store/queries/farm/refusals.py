"""Final failures of jobs: which nodes reported one, and whether another node could do the job.

A job's `refused_by` has `,ID,` for each of these nodes, and its `reason` is the report of the last of them,
until the job is completed. Both are written while the job's row is locked, so no report is lost. The id of a
removed node in `refused_by` has no effect.
"""

from typing import Final

from myna.store.database import Queries, Transaction
from myna.store.queries.farm import able, queue
from myna.store.queries.farm.queue import CLONE, TABLES, TASK, Kind
from myna.store.rows import has_row
from myna.store.states import FAILED, QUEUED

_ABLE: Final[dict[Kind, str]] = {TASK: able.speaks("j", "n.id"), CLONE: able.clones("j", "n.id")}


async def refuse(db: Transaction, kind: Kind, job_id: int, node_id: int, reason: str) -> None:
    """Records that the node reported a final failure of the job."""
    sql = f"UPDATE {TABLES[kind]} SET refused_by = refused_by || $2, reason = $3 WHERE id = $1"
    await db.fetch(sql, job_id, f",{node_id},", reason)


async def another_node_can(db: Queries, kind: Kind, job_id: int) -> bool:
    """Whether an online node that gets jobs has the voice or language of this one and has not refused it."""
    return await has_row(db, f"SELECT 1 FROM {TABLES[kind]} j WHERE j.id = $1 AND {_another(kind)}", job_id)


async def fail_refused_clones(db: Transaction, grace_ms: int, reason: str) -> int:
    """Fails queued clones that a node refused and no other node can do now, if their last lease began more
    than `grace_ms` ago. Returns how many. Each keeps the reason that the node reported, else `reason`."""
    sql = f"""UPDATE clones AS j SET {FAILED}, ended_at = now_ms(),
        reason = CASE WHEN j.reason = '' THEN $2 ELSE j.reason END
        WHERE j.{QUEUED} AND j.refused_by <> '' AND j.leased_at <= now_ms() - $1
        AND NOT {_another(CLONE)} RETURNING id"""
    return len(await db.fetch(sql, grace_ms, reason))


def _another(kind: Kind) -> str:
    """The condition that another node can do the job `j`."""
    return (
        f"EXISTS (SELECT 1 FROM nodes n WHERE {able.online('n')}"
        f" AND {able.not_refused('j', 'n.id')} AND {_ABLE[kind]})"
    )


async def record_success(db: Transaction, kind: Kind, job_id: int, node_id: int) -> None:
    """The node did the job, so its failures are reset. Each node that refused the job gets a failure and a
    cooldown."""
    rows = await db.fetch(f"SELECT refused_by FROM {TABLES[kind]} WHERE id = $1", job_id)
    refused_by = {int(number) for number in rows[0][0].split(",") if number}
    if refused_by:
        await db.fetch(f"UPDATE {TABLES[kind]} SET reason = '' WHERE id = $1", job_id)
    for number in sorted({node_id} | refused_by) if refused_by else ():
        await queue.lock_node(db, number)  # in one order, so that two transactions can't deadlock
    await queue.end_cooldown(db, node_id)
    for number in refused_by:
        await queue.begin_cooldown(db, number, returned=False)
