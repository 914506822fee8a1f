"""The books, checked: every query finds what must not be. Empty means whole."""

from collections.abc import Iterable

from msgspec import Struct

from myna.store.database import Reader
from myna.wire.farm import TRIES_MAX

SWEEP_GRACE_MS = 90_000
"""How long past its deadline a call may still be open: one sweep and its commit."""
SHOWN_MAX = 20


class Breach(Struct, frozen=True):
    """One broken rule and the first rows that break it."""

    rule: str
    count: int
    examples: list[str]


RULES: dict[str, str] = {
    "an account's balance is the sum of its ledger entries and at least 0": """
        SELECT a.name, a.balance, coalesce(l.units, 0) FROM accounts a LEFT JOIN (
            SELECT account_id, CAST(sum(units) AS BIGINT) AS units FROM ledger GROUP BY account_id
        ) l ON l.account_id = a.id
        WHERE a.balance <> coalesce(l.units, 0) OR a.balance < 0""",
    "a ledger entry belongs to an account": """
        SELECT l.call_id, l.kind, l.account_id FROM ledger l LEFT JOIN accounts a ON a.id = l.account_id
        WHERE a.id IS NULL""",
    "a call has exactly one charge, of its own units and account": """
        SELECT c.id, c.units, l.units FROM calls c
        LEFT JOIN ledger l ON l.call_id = c.id AND l.kind = 0
        WHERE l.call_id IS NULL OR l.units <> -c.units OR l.account_id <> c.account_id""",
    "a charge and a refund belong to a call": """
        SELECT l.call_id, l.kind FROM ledger l LEFT JOIN calls c ON c.id = l.call_id
        WHERE l.kind IN (0, 1) AND c.id IS NULL""",
    "a refunded call has exactly one refund, of its own units and account": """
        SELECT c.id, c.units, l.units FROM calls c
        LEFT JOIN ledger l ON l.call_id = c.id AND l.kind = 1
        WHERE c.state = 2
          AND (l.call_id IS NULL OR l.units <> c.units OR l.account_id <> c.account_id)""",
    "an open or kept call has no refund": """
        SELECT c.id, c.state FROM calls c JOIN ledger l ON l.call_id = c.id AND l.kind = 1
        WHERE c.state <> 2""",
    "no call is open past its deadline and a sweep": """
        SELECT id, deadline FROM calls WHERE state = 0 AND deadline < now_ms() - $1""",
    "a task's call is open while it runs, kept when it completed, refunded when it failed": """
        SELECT t.id, t.status, c.state FROM tasks t LEFT JOIN calls c ON c.id = t.call_id
        WHERE c.id IS NULL OR c.account_id <> t.account_id
           OR c.state <> CASE t.status WHEN 2 THEN 1 WHEN 3 THEN 2 ELSE 0 END""",
    "a completed task names its audio and its SHA-256, another one none": """
        SELECT id, status, audio FROM tasks
        WHERE (status = 2) <> (audio <> '') OR (status = 2) <> (length(audio_sha256) = 32)""",
    "a job that waits for a node, or is none's, has no holder": """
        SELECT 'task', id, status, node_id, lease_until FROM tasks
        WHERE (status = 0 OR (status = 1 AND lease_until = 0))
          AND (node_id <> 0 OR length(token_hash) <> 0 OR lease_until <> 0)
        UNION ALL SELECT 'clone', id, status, node_id, lease_until FROM clones
        WHERE status = 0 AND (node_id <> 0 OR length(token_hash) <> 0 OR lease_until <> 0)""",
    "a job that a node holds has its token and a lease that ends with the deadline": """
        SELECT 'task', id, node_id, lease_until, deadline FROM tasks WHERE status = 1 AND lease_until > 0
          AND (node_id = 0 OR length(token_hash) <> 32 OR epoch = 0 OR tries = 0 OR lease_until > deadline)
        UNION ALL SELECT 'clone', id, node_id, lease_until, 0 FROM clones WHERE status = 1
          AND (node_id = 0 OR length(token_hash) <> 32 OR epoch = 0 OR tries = 0 OR lease_until = 0)""",
    "a task that a node does has its call's deadline, another one none": """
        SELECT t.id, t.deadline, c.deadline FROM tasks t JOIN calls c ON c.id = t.call_id
        WHERE (t.status = 0 AND t.deadline <> c.deadline)
           OR (t.status = 1 AND t.deadline <> CASE t.lease_until WHEN 0 THEN 0 ELSE c.deadline END)""",
    "a job was leased for each of its tries, and has one left if it waits": f"""
        SELECT 'task', id, status, epoch, tries FROM tasks
        WHERE tries < 0 OR tries > epoch OR tries > {TRIES_MAX} OR (status = 0 AND tries = {TRIES_MAX})
        UNION ALL SELECT 'clone', id, status, epoch, tries FROM clones
        WHERE tries < 0 OR tries > epoch OR tries > {TRIES_MAX} OR (status = 0 AND tries = {TRIES_MAX})""",
    "a cloned voice that is ready names its preview and its SHA-256, another one none": """
        SELECT id, status, preview FROM clones
        WHERE (status = 2) <> (preview <> '') OR (status = 2) <> (length(preview_sha256) = 32)""",
    "a cloned voice that failed says why, another one has no such reason": """
        SELECT id, status, reason FROM clones WHERE (status = 3) <> (reason <> '')""",
    "a key counts its calls that ended, those delivered, and their units": """
        SELECT coalesce(u.key_id, c.key_id), u.calls, c.calls, u.ok_calls, c.ok, u.cost, c.cost
        FROM key_usage u FULL JOIN (
            SELECT key_id, count(*) AS calls, sum(CASE state WHEN 1 THEN 1 ELSE 0 END) AS ok,
                   sum(CASE state WHEN 1 THEN units ELSE 0 END) AS cost
            FROM calls WHERE state <> 0 GROUP BY key_id
        ) c ON c.key_id = u.key_id
        WHERE coalesce(u.calls, 0) <> coalesce(c.calls, 0) OR coalesce(u.ok_calls, 0) <> coalesce(c.ok, 0)
           OR coalesce(u.cost, 0) <> coalesce(c.cost, 0)""",
}


async def breaches(db: Reader) -> list[Breach]:
    """Every rule that is broken. Meant for one snapshot."""
    found = []
    for rule, sql in RULES.items():
        args = (SWEEP_GRACE_MS,) if "$1" in sql else ()
        rows = await db.fetch(sql, *args)
        if rows:
            found.append(Breach(rule, len(rows), [_line(row) for row in rows[:SHOWN_MAX]]))
    return found


async def audio_page(db: Reader, after: int, limit: int) -> list[tuple[int, str, int, bytes]]:
    """Completed tasks behind `after` whose audio must be there: id, name, size, SHA-256."""
    rows = await db.fetch(
        "SELECT id, audio, audio_bytes, audio_sha256 FROM tasks"
        " WHERE id > $1 AND status = 2 AND audio_removed_at = 0 ORDER BY id LIMIT $2",
        after, limit,
    )  # fmt: skip
    return [(int(row[0]), str(row[1]), int(row[2]), bytes(row[3])) for row in rows]


def _line(row: Iterable[object]) -> str:
    return " ".join(value.hex() if isinstance(value, bytes) else str(value) for value in row)
