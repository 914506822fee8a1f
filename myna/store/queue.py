"""The queue of the compute nodes: speech tasks and new clones, both taken by one query.

Who holds a job has its epoch and its token until `lease_until`. Tasks and clones carry the same columns for
that, so the moves between queued and held are written once. `now_ms()` decides what has run out: no node's
clock is asked.
"""

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from myna.store.database import Connection, Reader

Kind = Literal["task", "clone"]
TASK: Final = "task"
CLONE: Final = "clone"
ASKED_MAX = 500
"""How many values one statement asks for."""
_TABLES: Final[dict[Kind, str]] = {TASK: "tasks", CLONE: "clones"}


class Head(Struct, frozen=True):
    """The job that an account would have done next."""

    kind: Kind
    id: int
    account_id: int


class Taken(Struct, frozen=True):
    """A job that a node holds now. `reference` is the voice to clone from, for the voices of accounts."""

    kind: Kind
    id: int
    epoch: int
    lease_ms: int
    text: str
    voice_id: str
    speed: float
    reference: "ReferenceRow | None"


class ReferenceRow(Struct, frozen=True):
    """A sample, what is said in it, and in which language."""

    sha256: bytes
    size_bytes: int
    transcript: str
    language: str


class Proof(Struct, frozen=True):
    """By what a node shows that it holds a job."""

    kind: Kind
    id: int
    epoch: int
    token_hash: bytes
    node_id: int


class Place(Struct, frozen=True):
    """Whose job it is. `call_id` is empty for a clone, which nobody pays for."""

    account_id: int
    call_id: bytes


# ---- taking

# Whether this node can speak any voice that is queued is found first, by stepping from one such voice to the
# next: most looks find nothing. Then the first task of each account in each voice, by stepping from one such
# pair to the next, however many tasks each has; of those that the node can speak, each account's first. The
# account served longest ago goes first, and its new voices go before its tasks. (CROSS JOIN: SQLite then
# keeps the order of the tables.)
_HEADS = """
WITH RECURSIVE queued (voice_id) AS (
    SELECT (SELECT voice_id FROM tasks WHERE status = 0 ORDER BY voice_id LIMIT 1)
    UNION ALL
    SELECT (SELECT t.voice_id FROM tasks t WHERE t.status = 0 AND t.voice_id > q.voice_id
            ORDER BY t.voice_id LIMIT 1)
    FROM queued q WHERE q.voice_id IS NOT NULL
), able (voice_id) AS (
    SELECT q.voice_id FROM queued q
    WHERE EXISTS (SELECT 1 FROM node_voices v WHERE v.node_id = $1 AND v.voice_id = q.voice_id)
       OR EXISTS (SELECT 1 FROM clones c JOIN node_clones l ON l.language = c.language
                  WHERE c.voice_id = q.voice_id AND c.status = 2 AND l.node_id = $1)
), firsts (id) AS (
    SELECT (SELECT id FROM tasks WHERE status = 0 AND deadline > (SELECT now_ms())
            ORDER BY account_id, voice_id, id LIMIT 1)
    WHERE EXISTS (SELECT 1 FROM able)
    UNION ALL
    SELECT coalesce(
        (SELECT t.id FROM tasks t WHERE t.status = 0 AND t.deadline > (SELECT now_ms())
           AND t.account_id = p.account_id AND t.voice_id > p.voice_id
         ORDER BY t.account_id, t.voice_id, t.id LIMIT 1),
        (SELECT t.id FROM tasks t WHERE t.status = 0 AND t.deadline > (SELECT now_ms())
           AND t.account_id > p.account_id
         ORDER BY t.account_id, t.voice_id, t.id LIMIT 1)
    ) FROM firsts f CROSS JOIN tasks p WHERE p.id = f.id
), new_voices (account_id, id) AS (
    SELECT c.account_id, min(c.id) FROM clones c
    JOIN node_clones l ON l.node_id = $1 AND l.language = c.language
    WHERE c.status = 0 GROUP BY c.account_id
), speakable (account_id, id) AS (
    SELECT t.account_id, min(t.id) FROM firsts f CROSS JOIN tasks t
    WHERE t.id = f.id AND t.voice_id IN (SELECT voice_id FROM able) GROUP BY t.account_id
), heads (kind, id, account_id, place) AS (
    SELECT 'clone', id, account_id, 0 FROM new_voices
    UNION ALL
    SELECT 'task', id, account_id, id FROM speakable
    WHERE account_id NOT IN (SELECT account_id FROM new_voices)
)
SELECT h.kind, h.id, h.account_id FROM heads h LEFT JOIN turns u ON u.account_id = h.account_id
WHERE EXISTS (SELECT 1 FROM nodes n WHERE n.id = $1 AND n.disabled_at = 0 AND n.draining = 0
              AND n.rests_until <= (SELECT now_ms()))
ORDER BY coalesce(u.turn, 0), h.place, h.account_id LIMIT $2
"""


async def heads(db: Reader, node_id: int, limit: int) -> list[Head]:
    """The next job of each account that has one for this node, in the order of their turns."""
    return [Head(*row) for row in await db.fetch(_HEADS, node_id, limit)]


async def take(db: Connection, head: Head, node_id: int, token_hash: bytes, lease_ms: int) -> Taken | None:
    """Leases the job to the node; None if it is gone, too late or in somebody's hand. Waits for no row."""
    table = _TABLES[head.kind]
    until = _until("$4") if head.kind == TASK else "now_ms() + $4"
    in_time = " AND deadline > now_ms()" if head.kind == TASK else ""
    what = "text, voice_id, speed" if head.kind == TASK else "language, voice_id, 1.0"
    rows = await db.fetch(
        f"UPDATE {table} SET status = 1, epoch = epoch + 1, tries = tries + 1, token_hash = $2, node_id = $3,"
        f" leased_at = now_ms(), lease_until = {until}, progress = 0"
        f" WHERE id = (SELECT id FROM {table} WHERE id = $1 AND status = 0{in_time}{db.skip_locked})"
        f" RETURNING epoch, lease_until - leased_at, {what}",
        head.id, token_hash, node_id, lease_ms,
    )  # fmt: skip
    if not rows:
        return None
    epoch, left, text, voice_id, speed = rows[0]
    left = min(int(left), lease_ms)  # its two looks at the clock may lie a millisecond apart
    await _next_turn(db, head.account_id)
    reference = await _reference(db, voice_id, head.account_id)
    return Taken(head.kind, head.id, int(epoch), left, text, voice_id, float(speed), reference)


def _until(lease_ms: str) -> str:
    """A task's lease never outlasts its deadline: what comes later is stale without a look at the clock."""
    lease_ends = f"SELECT now_ms() + {lease_ms}"  # one look at the clock: two could lie a millisecond apart
    return f"(SELECT min(until) FROM (SELECT deadline AS until UNION ALL {lease_ends}) AS ends)"


async def _next_turn(db: Connection, account_id: int) -> None:
    await db.fetch(
        "INSERT INTO turns (account_id, turn)"
        " SELECT CAST($1 AS BIGINT), coalesce(max(turn), 0) + 1 FROM turns WHERE true"
        " ON CONFLICT (account_id) DO UPDATE SET turn = excluded.turn",
        account_id,
    )


async def _reference(db: Reader, voice_id: str, account_id: int) -> ReferenceRow | None:
    """An account's jobs alone refer to its voices, whoever else may have got a task in one."""
    rows = await db.fetch(
        "SELECT sample_sha256, sample_bytes, transcript, language FROM clones"
        " WHERE voice_id = $1 AND account_id = $2",
        voice_id, account_id,
    )  # fmt: skip
    return ReferenceRow(bytes(rows[0][0]), int(rows[0][1]), rows[0][2], rows[0][3]) if rows else None


# ---- holding

# A node that is disabled holds nothing from that moment on, also what somebody had in hand just then and what
# is therefore put back only when its lease ran out.
_HOLDS = (
    "id = $1 AND status = 1 AND epoch = $2 AND token_hash = $3 AND node_id = $4 AND lease_until > now_ms()"
    " AND EXISTS (SELECT 1 FROM nodes n WHERE n.id = $4 AND n.disabled_at = 0)"
)


async def extend(db: Connection, proof: Proof, lease_ms: int, percent: int) -> bool:
    """The lease goes on, and the progress is noted; False where the job isn't the node's any more. Waits for
    no row: what somebody has in hand at this moment is left to the next beat."""
    table = _TABLES[proof.kind]
    free = f"SELECT id FROM {table} WHERE {_HOLDS}"
    if not await db.fetch(free + db.skip_locked, *_shown(proof)):
        return bool(await db.fetch(free, *_shown(proof)))
    until = _until("$5") if proof.kind == TASK else "now_ms() + $5"
    rows = await db.fetch(
        f"UPDATE {table} SET lease_until = {until}, progress = $6 WHERE {_HOLDS} RETURNING id",
        *_shown(proof), lease_ms, percent,
    )  # fmt: skip
    return bool(rows)


async def hold(db: Connection, proof: Proof) -> bool:
    """Whether the job is the node's; if so it stays so until this transaction ends."""
    table = _TABLES[proof.kind]
    sql = f"UPDATE {table} SET lease_until = lease_until WHERE {_HOLDS} RETURNING id"
    return bool(await db.fetch(sql, *_shown(proof)))


async def holds(db: Reader, proof: Proof) -> bool:
    """Whether an upload for the job is worth taking: it is the node's, or was when it was completed."""
    table = _TABLES[proof.kind]
    rows = await db.fetch(
        f"SELECT 1 FROM {table} WHERE {_HOLDS} UNION ALL SELECT 1 FROM {table} WHERE {_COMPLETED}",
        *_shown(proof),
    )
    return bool(rows)


_COMPLETED = "id = $1 AND status = 2 AND epoch = $2 AND token_hash = $3 AND node_id = $4"


async def completed_with(db: Reader, proof: Proof, sha256: bytes) -> bool:
    """Whether this very holder completed the job with this very audio before."""
    column = "audio_sha256" if proof.kind == TASK else "preview_sha256"
    sql = f"SELECT 1 FROM {_TABLES[proof.kind]} WHERE {_COMPLETED} AND {column} = $5"
    return bool(await db.fetch(sql, *_shown(proof), sha256))


async def place(db: Reader, kind: Kind, job_id: int) -> Place | None:
    """Whose job it is; None where there is none of this id."""
    call = "call_id" if kind == TASK else "NULL"
    rows = await db.fetch(f"SELECT account_id, {call} FROM {_TABLES[kind]} WHERE id = $1", job_id)
    return Place(int(rows[0][0]), bytes(rows[0][1] or b"")) if rows else None


def _shown(proof: Proof) -> tuple[object, ...]:
    return proof.id, proof.epoch, proof.token_hash, proof.node_id


# ---- letting go

_LET_GO = "status = 0, token_hash = $2, node_id = 0, lease_until = 0, progress = 0"


async def put_back(db: Connection, kind: Kind, job_id: int, *, tries_back: int) -> None:
    """1 → 0: whoever held it holds it no more. `tries_back` of its tries don't count."""
    await db.fetch(
        f"UPDATE {_TABLES[kind]} SET {_LET_GO}, tries = tries - $3 WHERE id = $1 AND status = 1",
        job_id, b"", tries_back,
    )  # fmt: skip


async def tries(db: Reader, kind: Kind, job_id: int) -> int:
    """How often the job was leased, hand-backs not counted."""
    rows = await db.fetch(f"SELECT tries FROM {_TABLES[kind]} WHERE id = $1", job_id)
    return int(rows[0][0])


async def put_back_lapsed(db: Connection, tries_max: int, limit: int) -> int:
    """Queues jobs again whose lease ran out and that have a try left; how many. Waits for no row."""
    count = 0
    for kind, table in _TABLES.items():
        rows = await db.fetch(
            f"SELECT id FROM {table} WHERE status = 1 AND lease_until > 0 AND lease_until <= now_ms()"
            f" AND tries < $1 ORDER BY lease_until LIMIT $2{db.skip_locked}",
            tries_max, limit,
        )  # fmt: skip
        for (job_id,) in rows:
            await put_back(db, kind, job_id, tries_back=0)
        count += len(rows)
    return count


async def put_back_of(db: Connection, node_id: int) -> int:
    """Queues all jobs again that the node holds; how many. Waits for no row."""
    count = 0
    for kind, table in _TABLES.items():
        rows = await db.fetch(
            f"SELECT id FROM {table} WHERE status = 1 AND lease_until > 0 AND node_id = $1{db.skip_locked}",
            node_id,
        )
        for (job_id,) in rows:
            await put_back(db, kind, job_id, tries_back=1)
        count += len(rows)
    return count


async def spent(db: Reader, tries_max: int, limit: int) -> list[bytes]:
    """Calls of tasks whose last lease ran out. Such a task can only fail: nobody holds it, nobody gets it."""
    rows = await db.fetch(
        "SELECT call_id FROM tasks WHERE status = 1 AND lease_until > 0 AND lease_until <= now_ms()"
        " AND tries >= $1 LIMIT $2",
        tries_max, limit,
    )  # fmt: skip
    return [bytes(row[0]) for row in rows]


async def fail_spent_clones(db: Connection, tries_max: int, reason: str) -> int:
    """Fails clones whose last lease ran out; how many."""
    rows = await db.fetch(
        "UPDATE clones SET status = 3, ended_at = now_ms(), reason = $2"
        " WHERE status = 1 AND lease_until <= now_ms() AND tries >= $1 RETURNING id",
        tries_max, reason,
    )  # fmt: skip
    return len(rows)


# ---- nodes that rest


async def rest(db: Connection, node_id: int, *, handed_back: bool) -> None:
    """The node gets nothing for a moment, so that the job goes to another one; for longer, up to a minute,
    the more often it failed in a row. To hand a job back is no failure."""
    failed = 0 if handed_back else 1
    await db.fetch(
        "UPDATE nodes SET rests_until = now_ms() + 1000 * CASE WHEN failures + $2 < 6"
        " THEN 1 << (failures + $2) ELSE 60 END, failures = failures + $2 WHERE id = $1",
        node_id, failed,
    )  # fmt: skip


async def well(db: Connection, node_id: int) -> None:
    """The node did a job."""
    await db.fetch("UPDATE nodes SET failures = 0 WHERE id = $1 AND failures > 0", node_id)


# ---- clones' ends; a task ends with its call


async def clone_ready(db: Connection, clone_id: int, preview: str, size_bytes: int, sha256: bytes) -> None:
    """1 → 2, with the preview that was spoken."""
    await db.fetch(
        "UPDATE clones SET status = 2, ended_at = now_ms(), preview = $2, preview_bytes = $3,"
        " preview_sha256 = $4 WHERE id = $1 AND status = 1",
        clone_id, preview, size_bytes, sha256,
    )  # fmt: skip


async def clone_failed(db: Connection, clone_id: int, reason: str) -> None:
    """1 → 3."""
    await db.fetch(
        "UPDATE clones SET status = 3, ended_at = now_ms(), reason = $2 WHERE id = $1 AND status = 1",
        clone_id, reason,
    )  # fmt: skip


# ---- references


async def held_sample(db: Reader, node_id: int, sha256: bytes) -> str | None:
    """The sample's name in the private store, where a job that this node holds refers to it."""
    rows = await db.fetch(
        "SELECT c.sample FROM clones c WHERE c.sample_sha256 = $2 AND ("
        " (c.status = 1 AND c.node_id = $1 AND c.lease_until > now_ms()) OR EXISTS ("
        "  SELECT 1 FROM tasks t WHERE t.voice_id = c.voice_id AND t.account_id = c.account_id"
        "  AND t.status = 1 AND t.node_id = $1 AND t.lease_until > 0 AND t.lease_until > now_ms()))",
        node_id, sha256,
    )  # fmt: skip
    return str(rows[0][0]) if rows else None


async def samples_known(db: Reader, sha256s: Sequence[bytes]) -> set[bytes]:
    """Those of these samples that some clone is made of."""
    known: set[bytes] = set()
    for start in range(0, len(sha256s), ASKED_MAX):
        part = sha256s[start : start + ASKED_MAX]
        marks = ", ".join(f"${number}" for number in range(1, len(part) + 1))
        rows = await db.fetch(f"SELECT sample_sha256 FROM clones WHERE sample_sha256 IN ({marks})", *part)
        known |= {bytes(row[0]) for row in rows}
    return known
