"""The job queue of the compute nodes: speech tasks and new clones, leased by one query.

A node that leases a job has its fencing epoch and lease token until `lease_until`. Tasks and clones have the
same columns for that, so leasing and requeuing are written once. Leases expire by `now_ms()`, never by a
node's clock.
"""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from myna.store.columns import columns
from myna.store.database import Queries, Transaction
from myna.store.states import COMPLETED, FAILED, LEASED, PROCESSING, QUEUED, READY, leased

Kind = Literal["task", "clone"]
TASK: Final = "task"
CLONE: Final = "clone"
IN_LIST_MAX = 500
"""How many values one IN list has at most."""
TABLES: Final[dict[Kind, str]] = {TASK: "tasks", CLONE: "clones"}


def not_refused(job: str, node_id: str) -> str:
    """The condition that this node has not refused the job: see `refusals.py`."""
    return f"{job}.refused_by NOT LIKE '%,' || {node_id} || ',%'"


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


class JobOwner(Struct, frozen=True):
    """The account and the call of a job. `call_id` is empty for a clone, which is not charged."""

    account_id: int
    call_id: bytes


# ---- leasing

# Loose index scans: each recursive step jumps to the next distinct value, however many tasks have the last
# one. `queued` and `able` find the queued voices that this node can speak: usually there are none, and the
# rest reads nothing. `firsts` finds the first task of each account in each voice; `speakable` keeps each
# account's first task in an able voice. The order is round robin over the accounts; an account's new voices
# come before its tasks. Tasks that the node refused are skipped. (With CROSS JOIN, SQLite keeps the order of
# the tables.)
_NEXT_JOBS = f"""
WITH RECURSIVE queued (voice_id) AS (
    SELECT (SELECT voice_id FROM tasks WHERE {QUEUED} ORDER BY voice_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.voice_id FROM tasks t WHERE t.{QUEUED} AND t.voice_id > q.voice_id
            ORDER BY t.voice_id LIMIT 1)
    FROM queued q WHERE q.voice_id IS NOT NULL
), able (voice_id) AS (
    SELECT q.voice_id FROM queued q
    WHERE EXISTS (SELECT 1 FROM node_voices v WHERE v.node_id = $1 AND v.voice_id = q.voice_id)
       OR EXISTS (SELECT 1 FROM clones c JOIN node_clones l ON l.language = c.language
                  WHERE c.voice_id = q.voice_id AND c.{READY} AND l.node_id = $1)
), firsts (id) AS (
    SELECT (SELECT id FROM tasks WHERE {QUEUED} AND deadline > (SELECT now_ms())
              AND {not_refused("tasks", "$1")}
            ORDER BY account_id, voice_id, id LIMIT 1)
    WHERE EXISTS (SELECT 1 FROM able)
    UNION ALL
    SELECT coalesce(
        (SELECT t.id FROM tasks t WHERE t.{QUEUED} AND t.deadline > (SELECT now_ms())
           AND t.account_id = p.account_id AND t.voice_id > p.voice_id AND {not_refused("t", "$1")}
         ORDER BY t.account_id, t.voice_id, t.id LIMIT 1),
        (SELECT t.id FROM tasks t WHERE t.{QUEUED} AND t.deadline > (SELECT now_ms())
           AND t.account_id > p.account_id AND {not_refused("t", "$1")}
         ORDER BY t.account_id, t.voice_id, t.id LIMIT 1)
    ) FROM firsts f CROSS JOIN tasks p WHERE p.id = f.id
), new_voices (account_id, id) AS (
    SELECT c.account_id, min(c.id) FROM clones c
    JOIN node_clones l ON l.node_id = $1 AND l.language = c.language
    WHERE c.{QUEUED} AND {not_refused("c", "$1")} GROUP BY c.account_id
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
              AND n.rests_until <= (SELECT now_ms()))
ORDER BY coalesce(u.turn, 0), j.position, j.account_id LIMIT $2
"""


async def next_jobs(db: Queries, node_id: int, limit: int) -> list[NextJob]:
    """The next job of each account that has one for this node, in round-robin order."""
    return [NextJob(*row) for row in await db.fetch(_NEXT_JOBS, node_id, limit)]


async def lease(
    db: Transaction, job: NextJob, node_id: int, token_hash: bytes, lease_ms: int
) -> LeasedRow | None:
    """Leases the job to the node; None if it is not queued any more, past its deadline or locked. Waits for
    no row."""
    table = TABLES[job.kind]
    until = _until("$4") if job.kind == TASK else "now_ms() + $4"
    in_time = " AND deadline > now_ms()" if job.kind == TASK else ""
    fields = "text, voice_id, speed" if job.kind == TASK else "language, voice_id, 1.0"
    rows = await db.fetch(
        f"UPDATE {table} SET {PROCESSING}, epoch = epoch + 1, tries = tries + 1, token_hash = $2,"
        f" node_id = $3, leased_at = now_ms(), lease_until = {until}, progress = 0"
        f" WHERE id = (SELECT id FROM {table} WHERE id = $1 AND {QUEUED}{in_time}{db.skip_locked})"
        f" RETURNING epoch, lease_until - leased_at, {fields}",
        job.id, token_hash, node_id, lease_ms,
    )  # fmt: skip
    if not rows:
        return None
    epoch, left, text, voice_id, speed = rows[0]
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
        reference=reference,
    )


def _until(lease_ms: str) -> str:
    """The end of a task's lease, in SQL: at the task's deadline at the latest, so that a result after the
    deadline is stale."""
    lease_ends = f"SELECT now_ms() + {lease_ms}"  # reads the clock once
    return f"(SELECT min(until) FROM (SELECT deadline AS until UNION ALL {lease_ends}) AS ends)"


async def _next_turn(db: Transaction, account_id: int) -> None:
    """Makes the account the last one in the round-robin order."""
    await db.fetch(
        "INSERT INTO turns (account_id, turn)"
        " SELECT CAST($1 AS BIGINT), coalesce(max(turn), 0) + 1 FROM turns WHERE true"
        " ON CONFLICT (account_id) DO UPDATE SET turn = excluded.turn",
        account_id,
    )


async def _reference(db: Queries, voice_id: str, account_id: int) -> ReferenceRow | None:
    """The sample of a cloned voice, for jobs of the voice's account only."""
    rows = await db.fetch(
        "SELECT sample_sha256, sample_bytes, transcript, language FROM clones"
        " WHERE voice_id = $1 AND account_id = $2",
        voice_id, account_id,
    )  # fmt: skip
    return ReferenceRow(bytes(rows[0][0]), *rows[0][1:]) if rows else None


# ---- leases

# A disabled node loses its leases at once, also that of a row which was locked at that moment and is requeued
# only after the lease has expired.
_LEASED_BY = (
    f"id = $1 AND {PROCESSING} AND epoch = $2 AND token_hash = $3 AND node_id = $4 AND lease_until > now_ms()"
    " AND EXISTS (SELECT 1 FROM nodes n WHERE n.id = $4 AND n.disabled_at = 0)"
)


async def extend(db: Transaction, proof: Proof, lease_ms: int, percent: int) -> bool:
    """Extends the lease and records the progress; False if the node does not have the lease any more. Waits
    for no row: a locked one is left to the next heartbeat."""
    table = TABLES[proof.kind]
    select = f"SELECT id FROM {table} WHERE {_LEASED_BY}"
    if not await db.fetch(select + db.skip_locked, *_params(proof)):
        return bool(await db.fetch(select, *_params(proof)))
    until = _until("$5") if proof.kind == TASK else "now_ms() + $5"
    rows = await db.fetch(
        f"UPDATE {table} SET lease_until = {until}, progress = $6 WHERE {_LEASED_BY} RETURNING id",
        *_params(proof), lease_ms, percent,
    )  # fmt: skip
    return bool(rows)


async def lock_lease(db: Transaction, proof: Proof) -> bool:
    """Whether the node has the lease. If so, locks the job until the transaction ends."""
    table = TABLES[proof.kind]
    sql = f"UPDATE {table} SET lease_until = lease_until WHERE {_LEASED_BY} RETURNING id"
    return bool(await db.fetch(sql, *_params(proof)))


async def has_lease(db: Queries, proof: Proof) -> bool:
    """Whether to accept an upload for the job: the node has the lease, or had it when the job was
    completed."""
    table = TABLES[proof.kind]
    rows = await db.fetch(
        f"SELECT 1 FROM {table} WHERE {_LEASED_BY} UNION ALL SELECT 1 FROM {table} WHERE {_COMPLETED_BY}",
        *_params(proof),
    )
    return bool(rows)


_COMPLETED_BY = f"id = $1 AND {COMPLETED} AND epoch = $2 AND token_hash = $3 AND node_id = $4"


async def completed_with(db: Queries, proof: Proof, sha256: bytes) -> bool:
    """Whether this lease completed the job with this audio before."""
    column = "audio_sha256" if proof.kind == TASK else "preview_sha256"
    sql = f"SELECT 1 FROM {TABLES[proof.kind]} WHERE {_COMPLETED_BY} AND {column} = $5"
    return bool(await db.fetch(sql, *_params(proof), sha256))


async def owner_of(db: Queries, kind: Kind, job_id: int) -> JobOwner | None:
    """The owner of the job; None if there is no such job."""
    call = "call_id" if kind == TASK else "NULL"
    rows = await db.fetch(f"SELECT account_id, {call} FROM {TABLES[kind]} WHERE id = $1", job_id)
    return JobOwner(int(rows[0][0]), bytes(rows[0][1] or b"")) if rows else None


def _params(proof: Proof) -> tuple[object, ...]:
    return proof.id, proof.epoch, proof.token_hash, proof.node_id


# ---- requeuing

_REQUEUE = f"{QUEUED}, token_hash = $2, node_id = 0, lease_until = 0, progress = 0"


async def requeue(db: Transaction, kind: Kind, job_id: int, *, tries_returned: int) -> None:
    """leased → queued, and ends the lease. `tries_returned` is subtracted from the tries."""
    await db.fetch(
        f"UPDATE {TABLES[kind]} SET {_REQUEUE}, tries = tries - $3 WHERE id = $1 AND {PROCESSING}",
        job_id, b"", tries_returned,
    )  # fmt: skip


async def tries(db: Queries, kind: Kind, job_id: int) -> int:
    """How often the job was leased, except for leases that did not count as a try."""
    rows = await db.fetch(f"SELECT tries FROM {TABLES[kind]} WHERE id = $1", job_id)
    return int(rows[0][0])


async def requeue_expired(db: Transaction, tries_max: int, limit: int) -> int:
    """Requeues jobs with an expired lease and tries left; returns how many. Waits for no row."""
    count = 0
    for kind, table in TABLES.items():
        rows = await db.fetch(
            f"SELECT id FROM {table} WHERE {LEASED} AND lease_until <= now_ms()"
            f" AND tries < $1 ORDER BY lease_until LIMIT $2{db.skip_locked}",
            tries_max, limit,
        )  # fmt: skip
        for (job_id,) in rows:
            await requeue(db, kind, job_id, tries_returned=0)
        count += len(rows)
    return count


async def requeue_jobs_of(db: Transaction, node_id: int) -> int:
    """Requeues all jobs that the node has leased; returns how many. Waits for no row."""
    count = 0
    for kind, table in TABLES.items():
        rows = await db.fetch(
            f"SELECT id FROM {table} WHERE {LEASED} AND node_id = $1{db.skip_locked}",
            node_id,
        )
        for (job_id,) in rows:
            await requeue(db, kind, job_id, tries_returned=1)
        count += len(rows)
    return count


async def exhausted(db: Queries, tries_max: int, limit: int) -> list[bytes]:
    """Calls of tasks whose last lease expired. Such a task can only fail: it is never leased again."""
    rows = await db.fetch(
        f"SELECT call_id FROM tasks WHERE {LEASED} AND lease_until <= now_ms()"
        " AND tries >= $1 LIMIT $2",
        tries_max, limit,
    )  # fmt: skip
    return [bytes(row[0]) for row in rows]


async def fail_exhausted_clones(db: Transaction, tries_max: int, reason: str) -> int:
    """Fails clones whose last lease expired; returns how many."""
    rows = await db.fetch(
        f"UPDATE clones SET {FAILED}, ended_at = now_ms(), reason = $2"
        f" WHERE {PROCESSING} AND lease_until <= now_ms() AND tries >= $1 RETURNING id",
        tries_max, reason,
    )  # fmt: skip
    return len(rows)


# ---- cooldown of nodes


async def begin_cooldown(db: Transaction, node_id: int, *, returned: bool) -> None:
    """The node gets no job for a while, so that another node gets this one: exponential backoff by its
    consecutive failures, a minute at most. A job that the node returned is not a failure."""
    failed = 0 if returned else 1
    await db.fetch(
        "UPDATE nodes SET rests_until = now_ms() + 1000 * CASE WHEN failures + $2 < 6"
        " THEN 1 << (failures + $2) ELSE 60 END, failures = failures + $2 WHERE id = $1",
        node_id, failed,
    )  # fmt: skip


async def lock_node(db: Transaction, node_id: int) -> None:
    """Locks the node's row until the transaction ends."""
    await db.fetch("UPDATE nodes SET failures = failures WHERE id = $1", node_id)


async def end_cooldown(db: Transaction, node_id: int) -> None:
    """Resets the node's consecutive failures after it did a job."""
    await db.fetch("UPDATE nodes SET failures = 0 WHERE id = $1 AND failures > 0", node_id)


# ---- the ends of clones; a task ends with its call


async def complete_clone(
    db: Transaction, clone_id: int, preview: str, size_bytes: int, sha256: bytes
) -> None:
    """leased → ready, with the preview."""
    await db.fetch(
        f"UPDATE clones SET {READY}, ended_at = now_ms(), preview = $2, preview_bytes = $3,"
        f" preview_sha256 = $4 WHERE id = $1 AND {PROCESSING}",
        clone_id, preview, size_bytes, sha256,
    )  # fmt: skip


async def fail_clone(db: Transaction, clone_id: int, reason: str) -> None:
    """leased → failed."""
    await db.fetch(
        f"UPDATE clones SET {FAILED}, ended_at = now_ms(), reason = $2 WHERE id = $1 AND {PROCESSING}",
        clone_id, reason,
    )  # fmt: skip


# ---- references


async def leased_sample(db: Queries, node_id: int, sha256: bytes) -> str | None:
    """The sample's name in the sample store, if a job that this node has leased uses it."""
    rows = await db.fetch(
        "SELECT c.sample FROM clones c WHERE c.sample_sha256 = $2 AND ("
        f" (c.{PROCESSING} AND c.node_id = $1 AND c.lease_until > now_ms()) OR EXISTS ("
        "  SELECT 1 FROM tasks t WHERE t.voice_id = c.voice_id AND t.account_id = c.account_id"
        f"  AND {leased('t')} AND t.node_id = $1 AND t.lease_until > now_ms()))",
        node_id, sha256,
    )  # fmt: skip
    return str(rows[0][0]) if rows else None


async def known_samples(db: Queries, sha256s: Sequence[bytes]) -> set[bytes]:
    """Those of these samples that a clone uses."""
    found: set[bytes] = set()
    for start in range(0, len(sha256s), IN_LIST_MAX):
        part = sha256s[start : start + IN_LIST_MAX]
        placeholders = ", ".join(f"${number}" for number in range(1, len(part) + 1))
        rows = await db.fetch(
            f"SELECT sample_sha256 FROM clones WHERE sample_sha256 IN ({placeholders})", *part
        )
        found |= {bytes(row[0]) for row in rows}
    return found
