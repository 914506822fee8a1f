"""The rules of the audit. Each rule's query finds the rows that break it.

Most rules are about calls and are checked for a range of call ids, with its start and without its end. Ids
sort by age, so a range of old ids is final: see `audit_state`. The other rules are about the present state of
few rows.
"""

from collections.abc import Iterable, Mapping
from operator import add
from typing import Self

from msgspec import Struct, structs

from myna.store.batch import CallState, EntryKind, TaskStatus
from myna.store.database import Queries
from myna.store.rows import ID_MAX, fetch_only
from myna.store.states import (
    COMPLETED,
    ENDED,
    FAILED,
    NOT_REFUNDED,
    OPEN,
    PROCESSING,
    QUEUED,
    READY,
    REFUNDED,
    leased,
    local,
)
from myna.wire.farm import TRIES_MAX

FIRST = b""
"""Below every id."""
LAST = b"\xff" * 17
"""Above every id."""
SWEEP_GRACE_MS = 90_000
"""How long past its deadline a call may still be open: one sweep and its commit."""
SHOWN_MAX = 20
BALANCE_RULE = "an account's balance is the sum of its ledger entries and at least 0"
USAGE_RULE = "a key counts its calls that ended, those delivered, and their units"
CHECKPOINT_RULE = "the checkpoint's sums are those of its entries and calls"
OVERDUE_RULE = "no call is open past its deadline and a sweep"

_CALLS = "c.id >= $1 AND c.id < $2"
_ENTRIES = "l.call_id >= $1 AND l.call_id < $2"
_TASKS = "t.call_id >= $1 AND t.call_id < $2"
KEPT = f"CASE state WHEN {CallState.KEPT} THEN 1 ELSE 0 END"
"""1 for a kept call, 0 for another one."""


class Breach(Struct, frozen=True):
    """One broken rule and the first rows that break it."""

    rule: str
    count: int
    examples: list[str]


class Counts(Struct, frozen=True):
    """How many rows of a range were checked."""

    calls: int = 0
    entries: int = 0
    tasks: int = 0
    files: int = 0

    def plus(self, other: Self) -> Self:
        return type(self)(*map(add, structs.astuple(self), structs.astuple(other)))


RANGE_RULES: dict[str, str] = {
    "a ledger entry belongs to an account": f"""
        SELECT l.call_id, l.kind, l.account_id FROM ledger l LEFT JOIN accounts a ON a.id = l.account_id
        WHERE {_ENTRIES} AND a.id IS NULL""",
    "a call is of a key and its account": f"""
        SELECT c.id, c.key_id, c.account_id FROM calls c LEFT JOIN keys k ON k.id = c.key_id
        WHERE {_CALLS} AND (k.id IS NULL OR k.account_id <> c.account_id)""",
    "a call has exactly one charge, with its units and account": f"""
        SELECT c.id, c.units, l.units FROM calls c
        LEFT JOIN ledger l ON l.call_id = c.id AND l.kind = {EntryKind.CHARGE} AND {_ENTRIES}
        WHERE {_CALLS} AND (l.call_id IS NULL OR l.units <> -c.units OR l.account_id <> c.account_id)""",
    "a charge and a refund belong to a call": f"""
        SELECT l.call_id, l.kind FROM ledger l LEFT JOIN calls c ON c.id = l.call_id AND {_CALLS}
        WHERE {_ENTRIES} AND l.kind IN ({EntryKind.CHARGE}, {EntryKind.REFUND}) AND c.id IS NULL""",
    "a refunded call has exactly one refund, with its units and account": f"""
        SELECT c.id, c.units, l.units FROM calls c
        LEFT JOIN ledger l ON l.call_id = c.id AND l.kind = {EntryKind.REFUND} AND {_ENTRIES}
        WHERE {_CALLS} AND c.{REFUNDED}
          AND (l.call_id IS NULL OR l.units <> c.units OR l.account_id <> c.account_id)""",
    "an open or kept call has no refund": f"""
        SELECT c.id, c.state FROM calls c
        JOIN ledger l ON l.call_id = c.id AND l.kind = {EntryKind.REFUND} AND {_ENTRIES}
        WHERE {_CALLS} AND c.{NOT_REFUNDED}""",
    "a task's call is open while it runs, kept when it completed, refunded when it failed": f"""
        SELECT t.id, t.status, c.state FROM tasks t LEFT JOIN calls c ON c.id = t.call_id AND {_CALLS}
        WHERE {_TASKS} AND (c.id IS NULL OR c.account_id <> t.account_id
           OR c.state <> CASE t.status WHEN {TaskStatus.COMPLETED} THEN {CallState.KEPT}
                WHEN {TaskStatus.FAILED} THEN {CallState.REFUNDED} ELSE {CallState.OPEN} END)""",
    "a completed task has audio and its SHA-256, another one none": f"""
        SELECT t.id, t.status, t.audio FROM tasks t WHERE {_TASKS}
          AND ((t.{COMPLETED}) <> (t.audio <> '') OR (t.{COMPLETED}) <> (length(t.audio_sha256) = 32))""",
    "a queued or local task has no lease": f"""
        SELECT t.id, t.status, t.node_id, t.lease_until FROM tasks t WHERE {_TASKS}
          AND (t.{QUEUED} OR ({local("t")}))
          AND ((t.node_id <> 0 AND NOT t.{QUEUED}) OR length(t.token_hash) <> 0 OR t.lease_until <> 0)""",
    "a leased task has a token and a lease that ends with the deadline": f"""
        SELECT t.id, t.node_id, t.lease_until, t.deadline FROM tasks t
        WHERE {_TASKS} AND {leased("t")} AND (t.node_id = 0
           OR length(t.token_hash) <> 32 OR t.epoch = 0 OR t.tries = 0 OR t.lease_until > t.deadline)""",
    "a queued or leased task has its call's deadline, a local one none": f"""
        SELECT t.id, t.deadline, c.deadline FROM tasks t JOIN calls c ON c.id = t.call_id AND {_CALLS}
        WHERE {_TASKS} AND ((t.{QUEUED} AND t.deadline <> c.deadline)
           OR (t.{PROCESSING} AND t.deadline <> CASE t.lease_until WHEN 0 THEN 0 ELSE c.deadline END))""",
    "a task was leased for each of its tries, and has one left if it is queued": f"""
        SELECT t.id, t.status, t.epoch, t.tries FROM tasks t WHERE {_TASKS} AND (t.tries < 0
           OR t.tries > t.epoch OR t.tries > {TRIES_MAX} OR (t.{QUEUED} AND t.tries = {TRIES_MAX}))""",
}
RULES_OF_NOW: dict[str, str] = {
    OVERDUE_RULE: f"""
        SELECT id, deadline FROM calls WHERE {OPEN} AND deadline < now_ms() - {SWEEP_GRACE_MS}""",
    "a code has the uses of its batch, left or redeemed": """
        SELECT c.batch_id, b.uses, c.uses_left, count(r.account_id) FROM codes c
        JOIN code_batches b ON b.id = c.batch_id LEFT JOIN redemptions r ON r.code_hash = c.hash
        GROUP BY c.hash, c.batch_id, b.uses, c.uses_left
        HAVING c.uses_left + count(r.account_id) <> b.uses""",
    "a cap has used what was charged less what was refunded in its period": f"""
        SELECT p.key_id, p.used, coalesce(sum(c.units), 0) FROM key_caps p
        LEFT JOIN calls c ON c.key_id = p.key_id AND c.cap_from = p.starts_at AND c.cap_from > 0
                         AND c.{NOT_REFUNDED}
        GROUP BY p.key_id, p.used HAVING p.used <> coalesce(sum(c.units), 0)""",
    "limits count the open calls of their key or account": f"""
        SELECT account_id, key_id, sum(stored), sum(found) FROM (
            SELECT account_id, key_id, open_calls AS stored, 0 AS found FROM limits
            UNION ALL SELECT account_id, key_id, 0, 1 FROM calls WHERE {OPEN} AND key_day > 0
            UNION ALL SELECT account_id, 0, 0, 1 FROM calls WHERE {OPEN} AND account_day > 0
        ) AS counted GROUP BY account_id, key_id HAVING sum(stored) <> sum(found)""",
    "limits count what was charged less what was refunded in their day": f"""
        SELECT account_id, key_id, sum(stored), sum(found) FROM (
            SELECT account_id, key_id, day_units AS stored, 0 AS found FROM limits
            UNION ALL SELECT l.account_id, l.key_id, 0, c.units FROM limits l JOIN calls c
                ON c.key_id = l.key_id AND c.key_day = l.day_from AND c.key_day > 0 AND c.{NOT_REFUNDED}
            UNION ALL SELECT l.account_id, l.key_id, 0, c.units FROM limits l JOIN calls c
                ON c.account_id = l.account_id AND c.account_day = l.day_from AND c.account_day > 0
                AND c.{NOT_REFUNDED} WHERE l.key_id = 0
        ) AS counted GROUP BY account_id, key_id HAVING sum(stored) <> sum(found)""",
    "a limited key or account has limits": """
        SELECT k.account_id, k.id FROM keys k
        LEFT JOIN limits l ON l.account_id = k.account_id AND l.key_id = k.id
        WHERE k.limited = 1 AND l.key_id IS NULL
        UNION ALL SELECT a.id, 0 FROM accounts a LEFT JOIN limits l ON l.account_id = a.id AND l.key_id = 0
        WHERE a.limited = 1 AND l.key_id IS NULL""",
    "a capped key has a cap": """
        SELECT k.id FROM keys k LEFT JOIN key_caps p ON p.key_id = k.id
        WHERE k.capped = 1 AND p.key_id IS NULL""",
    "a queued clone has no lease": f"""
        SELECT id, status, node_id, lease_until FROM clones
        WHERE {QUEUED} AND (length(token_hash) <> 0 OR lease_until <> 0)""",
    "a leased clone has a token and a lease": f"""
        SELECT id, node_id, lease_until FROM clones WHERE {PROCESSING}
          AND (node_id = 0 OR length(token_hash) <> 32 OR epoch = 0 OR tries = 0 OR lease_until = 0)""",
    "a clone was leased for each of its tries, and has one left if it is queued": f"""
        SELECT id, status, epoch, tries FROM clones WHERE tries < 0 OR tries > epoch
           OR tries > {TRIES_MAX} OR ({QUEUED} AND tries = {TRIES_MAX})""",
    "a ready voice has a preview and its SHA-256, another one none": f"""
        SELECT id, status, preview FROM clones
        WHERE ({READY}) <> (preview <> '') OR ({READY}) <> (length(preview_sha256) = 32)""",
    "a failed voice has a reason, before that only one that a node refused": f"""
        SELECT id, status, reason FROM clones
        WHERE CASE WHEN {FAILED} THEN reason = ''
              ELSE reason <> '' AND ({READY} OR refused_by = '') END""",
}
# On the accounts and keys with ids above $1 and up to $2, by table: the stored sum, and that of the calls
# with ids from $3 on, to which the checkpoint's is added if $4 is 1.
SUM_RULES: dict[str, tuple[str, str]] = {
    BALANCE_RULE: (
        "accounts",
        """SELECT max(name), sum(balance), sum(units) FROM (
            SELECT id, name, balance, 0 AS units FROM accounts WHERE id > $1 AND id <= $2
            UNION ALL SELECT account_id, '', 0, units * $4 FROM audit_accounts
            WHERE account_id > $1 AND account_id <= $2
            UNION ALL SELECT account_id, '', 0, units FROM ledger
            WHERE call_id >= $3 AND account_id > $1 AND account_id <= $2
        ) AS found GROUP BY id HAVING sum(balance) <> sum(units) OR sum(balance) < 0""",
    ),
    USAGE_RULE: (
        "keys",
        f"""SELECT id, sum(calls), sum(c), sum(ok_calls), sum(ok), sum(cost), sum(units) FROM (
            SELECT key_id AS id, calls, ok_calls, cost, 0 AS c, 0 AS ok, 0 AS units FROM key_usage
            WHERE key_id > $1 AND key_id <= $2
            UNION ALL SELECT key_id, 0, 0, 0, calls * $4, ok_calls * $4, cost * $4 FROM audit_keys
            WHERE key_id > $1 AND key_id <= $2
            UNION ALL SELECT key_id, 0, 0, 0, 1, {KEPT}, units * {KEPT}
            FROM calls WHERE id >= $3 AND {ENDED} AND key_id > $1 AND key_id <= $2
        ) AS found GROUP BY id
        HAVING sum(calls) <> sum(c) OR sum(ok_calls) <> sum(ok) OR sum(cost) <> sum(units)""",
    ),
}
_CHECKPOINT = f"""
SELECT holder, id, sum(calls), sum(ok_calls), sum(units) FROM (
    SELECT 'account' AS holder, account_id AS id, 0 AS calls, 0 AS ok_calls, units FROM audit_accounts
    UNION ALL SELECT 'account', account_id, 0, 0, -units FROM ledger
    WHERE call_id < (SELECT closed_until FROM audit_state)
    UNION ALL SELECT 'key', key_id, calls, ok_calls, cost FROM audit_keys
    UNION ALL SELECT 'key', key_id, -1, -{KEPT}, -units * {KEPT} FROM calls
    WHERE id < (SELECT closed_until FROM audit_state) AND {ENDED}
) AS found GROUP BY holder, id HAVING sum(calls) <> 0 OR sum(ok_calls) <> 0 OR sum(units) <> 0"""
RULES = (*SUM_RULES, *RANGE_RULES, *RULES_OF_NOW)
"""All rules, as an operator reads them."""
AudioRow = tuple[bytes, int, str, int, bytes]
"""Call id, task id, the file's name, its size in bytes and its SHA-256."""


async def broken_in(db: Queries, start: bytes, end: bytes) -> list[Breach]:
    """The rules that calls in this range break."""
    return await _broken(db, RANGE_RULES, start, end)


async def broken_now(db: Queries) -> list[Breach]:
    """The rules on the present state that are broken."""
    return await _broken(db, RULES_OF_NOW)


async def wrong_checkpoint(db: Queries) -> list[str]:
    """A line for each account or key whose sums in the checkpoint are not those of its entries and calls:
    how much more it has."""
    return lines(await db.fetch(_CHECKPOINT))


async def count(db: Queries, start: bytes, end: bytes) -> Counts:
    """The number of rows in this range."""
    sql = f"""SELECT (SELECT count(*) FROM calls c WHERE {_CALLS}),
        (SELECT count(*) FROM ledger l WHERE {_ENTRIES}), (SELECT count(*) FROM tasks t WHERE {_TASKS})"""
    ((calls, entries, tasks),) = await db.fetch(sql, start, end)
    return Counts(int(calls), int(entries), int(tasks))


async def page_end(db: Queries, table: str, after: int, limit: int) -> tuple[int, int]:
    """The last id of a page of `accounts` or `keys` (ID_MAX for the last page), and its number of rows."""
    sql = f"""SELECT coalesce(max(id), 0), count(*)
        FROM (SELECT id FROM {table} WHERE id > $1 ORDER BY id LIMIT $2) AS page"""
    ((last, rows),) = await db.fetch(sql, after, limit)
    return (int(last), int(rows)) if rows == limit else (ID_MAX, int(rows))


async def wrong_sums(db: Queries, after: int, last: int, *, rule: str, full: bool) -> list[str]:
    """A line for each account or key with an id above `after` and up to `last` that breaks one of SUM_RULES.
    A `full` audit sums up all entries and calls, another one those above the checkpoint. To be read in one
    snapshot."""
    start = FIRST if full else await fetch_only(db, bytes, "SELECT closed_until FROM audit_state")
    _, sql = SUM_RULES[rule]
    return lines(await db.fetch(sql, after, last, start, int(not full)))


async def audio_page(db: Queries, start: bytes, end: bytes, limit: int) -> list[AudioRow]:
    """Completed tasks in this range whose audio must exist."""
    sql = f"""SELECT call_id, id, audio, audio_bytes, audio_sha256 FROM tasks t
        WHERE {_TASKS} AND {COMPLETED} AND audio_removed_at = 0 ORDER BY call_id LIMIT $3"""
    rows = await db.fetch(sql, start, end, limit)
    return [(bytes(row[0]), int(row[1]), str(row[2]), int(row[3]), bytes(row[4])) for row in rows]


def breach_of(rule: str, lines: list[str]) -> list[Breach]:
    """A breach with these rows; empty without rows."""
    return [Breach(rule, len(lines), lines[:SHOWN_MAX])] if lines else []


async def _broken(db: Queries, rules: Mapping[str, str], *args: object) -> list[Breach]:
    found = []
    for rule, sql in rules.items():
        found += breach_of(rule, lines(await db.fetch(sql, *args)))
    return found


def lines(rows: Iterable[Iterable[object]]) -> list[str]:
    """A line for each row."""
    return [
        " ".join(value.hex() if isinstance(value, bytes) else str(value) for value in row) for row in rows
    ]
