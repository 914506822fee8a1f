"""The job queue of the compute nodes: speech tasks and new clones, leased by one query.

A node that leases a job has its fencing epoch and lease token until `lease_until`. Tasks and clones have the
same columns for that, so leasing and requeuing are written once. Leases expire by `now_ms()`, never by a
node's clock.
"""

from typing import Final

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.queries.farm import able
from myna.store.queries.farm.able import CLONE, TABLES, TASK, Kind, begin_cooldown
from myna.store.rows import columns, fetch_row, fetch_rows, fetch_values, has_row
from myna.store.states import COMPLETED, FAILED, LEASED, PROCESSING, QUEUED

CLONE_LEASE_MAX_MS: Final = 900_000
"""How long one node may work on a clone, which has no deadline. A node's engine has as long for a job."""


class NextJob(Struct, frozen=True):
    """The next job of an account."""

    kind: Kind
    id: int
    account_id: int


class LeasedRow(Struct, frozen=True):
    """A job that a node has leased. `reference` is the sample to clone from, for voices of accounts."""

    kind: Kind
    id: int
    epoch: int
    lease_ms: int
    text: str
    voice_id: str
    speed: float
    language: str
    reference: "ReferenceRow | None"


class ReferenceRow(Struct, frozen=True):
    """A sample, its transcript and its language."""

    sha256: bytes
    size_bytes: int
    transcript: str
    language: str


class Proof(Struct, frozen=True):
    """What a node presents as proof of its lease."""

    kind: Kind
    id: int
    epoch: int
    token_hash: bytes
    node_id: int


class JobRow(Struct, frozen=True):
    """A job. `call_id` is empty for a clone, which is not charged. `tries` is how often it was leased, except
    for leases that did not count as a try. `text` is the text of a task, or the language of a clone."""

    account_id: int
    call_id: bytes
    tries: int
    text: str
    speed: float


_JOB: Final[dict[Kind, str]] = {
    TASK: columns(JobRow),
    CLONE: columns(JobRow, call_id="NULL", text="language", speed="CAST(1 AS DOUBLE PRECISION)"),
}


# ---- leasing

# Loose index scans: each recursive step jumps to the next distinct value, however many tasks have the last
# one. `queued` and `able` find the queued voices that this node can speak: usually there are none, and the
# rest reads nothing. `firsts` finds the first task of each account in each voice; `speakable` keeps each
# account's first task in an able voice. The order is round robin over the accounts; an account's new voices
# come before its tasks. Tasks that the node refused or can't finish in time are skipped, and those that it
# failed last while another node can do them. (With CROSS JOIN, SQLite keeps the order of the tables.)
_SPEED = f"SELECT {able.speed('n')} FROM nodes n WHERE n.id = $1"


def _open_to(task: str) -> str:
    """The node $1 may lease the queued task, if it has the voice."""
    able_n = f"{able.in_time(task, able.speed('n'))} AND {able.speaks(task, 'n.id')}"
    return (
        f"{task}.{QUEUED} AND {able.in_time(task, _SPEED)} AND {able.not_refused(task, '$1')}"
        f" AND {able.another_first(task, '$1', able_n)}"
    )


_NEXT_JOBS = f"""
WITH RECURSIVE queued (voice_id) AS (
    SELECT (SELECT voice_id FROM tasks WHERE {QUEUED} ORDER BY voice_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.voice_id FROM tasks t WHERE t.{QUEUED} AND t.voice_id > q.voice_id
            ORDER BY t.voice_id LIMIT 1)
    FROM queued q WHERE q.voice_id IS NOT NULL
), able (voice_id) AS (
    SELECT q.voice_id FROM queued q WHERE {able.speaks("q", "$1")}
), firsts (id) AS (
    SELECT (SELECT t.id FROM tasks t WHERE {_open_to("t")}
            ORDER BY t.account_id, t.voice_id, t.id LIMIT 1)
    WHERE EXISTS (SELECT 1 FROM able)
    UNION ALL
    SELECT coalesce(
        (SELECT t.id FROM tasks t WHERE {_open_to("t")}
           AND t.account_id = p.account_id AND t.voice_id > p.voice_id
         ORDER BY t.account_id, t.voice_id, t.id LIMIT 1),
        (SELECT t.id FROM tasks t WHERE {_open_to("t")}
           AND t.account_id > p.account_id ORDER BY t.account_id, t.voice_id, t.id LIMIT 1)
    ) FROM firsts f CROSS JOIN tasks p WHERE p.id = f.id
), new_voices (account_id, id) AS (
    SELECT c.account_id, min(c.id) FROM clones c
    WHERE c.{QUEUED} AND {able.clones("c", "$1")} AND {able.not_refused("c", "$1")}
      AND {able.another_first("c", "$1", able.clones("c", "n.id"))} GROUP BY c.account_id
), speakable (account_id, id) AS (
    SELECT t.account_id, min(t.id) FROM firsts f CROSS JOIN tasks t
    WHERE t.id = f.id AND t.voice_id IN (SELECT voice_id FROM able) GROUP BY t.account_id
), next_jobs (kind, id, account_id, position) AS (
    SELECT 'clone', id, account_id, 0 FROM new_voices
    UNION ALL
    SELECT 'task', id, account_id, id FROM speakable
    WHERE account_id NOT IN (SELECT account_id FROM new_voices)
)
SELECT {columns(NextJob, "j")} FROM next_jobs j LEFT JOIN turns u ON u.account_id = j.account_id
WHERE EXISTS (SELECT 1 FROM nodes n WHERE n.id = $1 AND n.disabled_at = 0 AND n.draining = 0
              AND n.rests_until <= (SELECT now_ms()) AND {able.has_free_slot("n")})
ORDER BY coalesce(u.turn, 0), j.position, j.account_id LIMIT $2
"""


async def next_jobs(db: Queries, node_id: int, limit: int) -> list[NextJob]:
    """The next job of each account that has one for this node, in round-robin order."""
    return await fetch_rows(db, NextJob, _NEXT_JOBS, node_id, limit)


async def lease(
    db: Transaction, job: NextJob, node_id: int, token_hash: bytes, lease_ms: int
) -> LeasedRow | None:
    """Leases the job to the node; None if it is not queued any more, past its deadline or locked, or if the
    node has no free slot. Waits for no row."""
    table = TABLES[job.kind]
    until = _until(job.kind, "$4", "now_ms()", "$3")
    in_time = " AND deadline > now_ms()" if job.kind == TASK else ""
    fields = "text, voice_id, speed, language" if job.kind == TASK else "language, voice_id, 1.0, ''"
    sql = f"""UPDATE {table} SET {PROCESSING}, epoch = epoch + 1, tries = tries + 1, token_hash = $2,
        node_id = $3, leased_at = now_ms(), lease_until = {until}, progress = 0
        WHERE id = (SELECT id FROM {table} WHERE id = $1 AND {QUEUED}{in_time}{db.skip_locked})
        AND EXISTS (SELECT 1 FROM nodes n WHERE n.id = $3 AND {able.has_free_slot("n")})
        RETURNING epoch, lease_until - leased_at, {fields}"""
    rows = await db.fetch(sql, job.id, token_hash, node_id, lease_ms)
    if not rows:
        return None
    epoch, left, text, voice_id, speed, language = rows[0]
    left = min(int(left), lease_ms)  # the statement reads the clock twice
    await _next_turn(db, job.account_id)
    reference = await _reference(db, voice_id, job.account_id)
    return LeasedRow(
        kind=job.kind,
        id=job.id,
        epoch=int(epoch),
        lease_ms=left,
        text=text,
        voice_id=voice_id,
        speed=float(speed),
        language=language,
        reference=reference,
    )


def _until(kind: Kind, lease_ms: str, leased_at: str, node_id: str) -> str:
    """The end of a lease that is made or extended now, in SQL. A task's ends with its deadline at the latest,
    so that a result after it is stale.

    A node has half of the time to the deadline, so that another node can do the task in the other half if
    this one's engine hangs or it only claims to work: more only if its speed needs more, twice what it needs.
    """
    ends = [f"SELECT now_ms() + {lease_ms} AS until"]
    if kind == TASK:
        needs = f"SELECT 2000.0 * chars / ({able.speed('n')}) FROM nodes n WHERE n.id = {node_id}"
        most = f"SELECT max(ms) FROM (SELECT (deadline - {leased_at}) / 2.0 AS ms UNION ALL {needs}) AS waits"
        ends += ["SELECT deadline", f"SELECT {leased_at} + ({most})"]
    else:
        ends += [f"SELECT {leased_at} + {CLONE_LEASE_MAX_MS}"]
    return f"(SELECT CAST(min(until) AS BIGINT) FROM ({' UNION ALL '.join(ends)}) AS ends)"


async def _next_turn(db: Transaction, account_id: int) -> None:
    """Makes the account the last one in the round-robin order."""
    sql = """INSERT INTO turns (account_id, turn) SELECT CAST($1 AS BIGINT), coalesce(max(turn), 0) + 1
        FROM turns WHERE true ON CONFLICT (account_id) DO UPDATE SET turn = excluded.turn"""
    await db.fetch(sql, account_id)


async def _reference(db: Queries, voice_id: str, account_id: int) -> ReferenceRow | None:
    """The sample of a cloned voice, for jobs of the voice's account only."""
    sql = """SELECT sample_sha256, sample_bytes, transcript, language FROM clones
        WHERE voice_id = $1 AND account_id = $2"""
    return await fetch_row(db, ReferenceRow, sql, voice_id, account_id)


# ---- leases

# A disabled node loses its leases at once, also that of a row which was locked at that moment and is requeued
# only after the lease has expired.
_LEASED_BY = (
    f"id = $1 AND {PROCESSING} AND epoch = $2 AND token_hash = $3 AND node_id = $4 AND lease_until > now_ms()"
    " AND EXISTS (SELECT 1 FROM nodes n WHERE n.id = $4 AND n.disabled_at = 0)"
)


async def is_due(db: Queries, proof: Proof, lease_ms: int, percent: int) -> bool | None:
    """Whether a heartbeat would change the lease: extend it by a thirtieth of `lease_ms`, or add progress.
    None if the node does not have the lease any more. A heartbeat that changes nothing needs no write."""
    until = _until(proof.kind, "$5", "leased_at", "$4")
    sql = f"""SELECT CASE WHEN progress < $6 OR lease_until + $7 <= {until} THEN 1 ELSE 0 END
        FROM {TABLES[proof.kind]} WHERE {_LEASED_BY}"""
    rows = await db.fetch(sql, *_params(proof), lease_ms, percent, lease_ms // 30)
    return bool(rows[0][0]) if rows else None


async def extend(db: Transaction, proof: Proof, lease_ms: int, percent: int) -> bool:
    """Extends the lease and records the progress; False if the node does not have the lease any more. Waits
    for no row: a locked one is left to the next heartbeat."""
    table = TABLES[proof.kind]
    select = f"SELECT id FROM {table} WHERE {_LEASED_BY}"
    if not await db.fetch(select + db.skip_locked, *_params(proof)):
        return await has_row(db, select, *_params(proof))
    until = _until(proof.kind, "$5", "leased_at", "$4")
    sql = f"""UPDATE {table} SET lease_until = {until},
        progress = CASE WHEN progress < $6 THEN $6 ELSE progress END WHERE {_LEASED_BY} RETURNING id"""
    return await has_row(db, sql, *_params(proof), lease_ms, percent)


async def lock_lease(db: Transaction, proof: Proof) -> bool:
    """Whether the node has the lease. If so, locks the job until the transaction ends."""
    sql = f"UPDATE {TABLES[proof.kind]} SET lease_until = lease_until WHERE {_LEASED_BY} RETURNING id"
    return await has_row(db, sql, *_params(proof))


async def has_lease(db: Queries, proof: Proof) -> bool:
    """Whether to accept an upload for the job: the node has the lease, or had it when the job was
    completed."""
    table = TABLES[proof.kind]
    sql = f"SELECT 1 FROM {table} WHERE {_LEASED_BY} UNION ALL SELECT 1 FROM {table} WHERE {_COMPLETED_BY}"
    return await has_row(db, sql, *_params(proof))


_COMPLETED_BY = f"id = $1 AND {COMPLETED} AND epoch = $2 AND token_hash = $3 AND node_id = $4"


async def completed_with(db: Queries, proof: Proof, sha256: bytes) -> bool:
    """Whether this lease completed the job with this audio before."""
    column = "audio_sha256" if proof.kind == TASK else "preview_sha256"
    sql = f"SELECT 1 FROM {TABLES[proof.kind]} WHERE {_COMPLETED_BY} AND {column} = $5"
    return await has_row(db, sql, *_params(proof), sha256)


async def by_id(db: Queries, kind: Kind, job_id: int) -> JobRow | None:
    """The job of this id."""
    rows = await db.fetch(f"SELECT {_JOB[kind]} FROM {TABLES[kind]} WHERE id = $1", job_id)
    if not rows:
        return None
    account_id, call_id, *others = rows[0]
    return JobRow(account_id, call_id or b"", *others)


def _params(proof: Proof) -> tuple[object, ...]:
    return proof.id, proof.epoch, proof.token_hash, proof.node_id


# ---- requeuing


async def requeue(db: Transaction, kind: Kind, job_id: int, *, tries_returned: int) -> None:
    """leased → queued, and ends the lease. `tries_returned` is subtracted from the tries; without any, the
    node has failed, and the job keeps its id, so that another node gets it first."""
    sql = f"""UPDATE {TABLES[kind]} SET {QUEUED}, token_hash = $2, lease_until = 0, progress = 0,
        node_id = CASE WHEN $3 > 0 THEN 0 ELSE node_id END, tries = tries - $3
        WHERE id = $1 AND {PROCESSING}"""
    await db.fetch(sql, job_id, b"", tries_returned)


async def requeue_expired(db: Transaction, tries_max: int, limit: int) -> int:
    """Requeues jobs with an expired lease and tries left; returns how many. Each node that let a lease expire
    has failed. Waits for no job."""
    count = 0
    failed: set[int] = set()
    for kind, table in TABLES.items():
        sql = f"""SELECT id, node_id, tries FROM {table} WHERE {LEASED} AND lease_until <= now_ms()
            ORDER BY lease_until LIMIT $1{db.skip_locked}"""
        rows = await db.fetch(sql, limit)
        failed |= {node_id for _, node_id, _ in rows}
        again = [job_id for job_id, _, tried in rows if tried < tries_max]
        for job_id in again:
            await requeue(db, kind, job_id, tries_returned=0)
        count += len(again)
    for node_id in sorted(failed):  # in one order, so that two transactions can't deadlock
        await begin_cooldown(db, node_id, returned=False, again=False)
    return count


async def requeue_jobs_of(db: Transaction, node_id: int) -> None:
    """Requeues all jobs that the node has leased. Waits for no row."""
    for kind, table in TABLES.items():
        sql = f"SELECT id FROM {table} WHERE {LEASED} AND node_id = $1{db.skip_locked}"
        for job_id in await fetch_values(db, int, sql, node_id):
            await requeue(db, kind, job_id, tries_returned=1)


async def exhausted(db: Queries, tries_max: int, limit: int) -> list[bytes]:
    """Calls of tasks whose last lease expired. Such a task can only fail: it is never leased again."""
    sql = f"SELECT call_id FROM tasks WHERE {LEASED} AND lease_until <= now_ms() AND tries >= $1 LIMIT $2"
    return await fetch_values(db, bytes, sql, tries_max, limit)


async def fail_exhausted_clones(db: Transaction, tries_max: int, reason: str) -> None:
    """Fails clones whose last lease expired."""
    sql = f"""UPDATE clones SET {FAILED}, ended_at = now_ms(), reason = $2
        WHERE {PROCESSING} AND lease_until <= now_ms() AND tries >= $1"""
    await db.fetch(sql, tries_max, reason)
