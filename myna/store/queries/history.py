"""Queries for the operator on the history of units and calls.

They have no index: every call would have to write it, and it would rarely be read. Each query scans the
ledger or the calls, newest first.
"""

from msgspec import Struct

from myna.store.batch import EntryKind
from myna.store.database import Queries
from myna.store.rows import columns

PAST_ALL = b"\xff" * 16
"""Above every call id."""


class Entry(Struct, frozen=True):
    """A ledger entry. `balance` is the account's balance after it; `call_id` is the grant's id for a grant.
    Time in ms."""

    call_id: bytes
    kind: int
    created_at: int
    units: int
    balance: int
    memo: str
    request_id: str


class CallEntry(Struct, frozen=True):
    """A ledger entry of a call. Time in ms."""

    kind: int
    created_at: int
    units: int


class CallRow(Struct, frozen=True):
    """A call. `reason` is why it was refunded, or why the answer of a kept one is incomplete; else empty.
    `task_id` is 0 if it has no task. Times in ms, 0 for never."""

    id: bytes
    account: str
    key_id: int
    state: int
    pays: int
    units: int
    route: str
    channel: str
    reason: str
    usage: str
    request_id: str
    task_id: int
    created_at: int
    deadline: int
    ended_at: int


_ENTRY = columns(Entry, "e", balance="CAST(e.balance AS BIGINT)", request_id="coalesce(c.request_id, '')")
_ENTRIES = f"""
SELECT {_ENTRY}
FROM (
    SELECT call_id, kind, created_at, units, memo,
           sum(units) OVER (ORDER BY created_at, call_id, kind) AS balance
    FROM ledger WHERE account_id = $1
) AS e LEFT JOIN calls AS c ON c.id = e.call_id
WHERE (e.created_at, e.call_id, e.kind) < ($2, $3, $4)
ORDER BY e.created_at DESC, e.call_id DESC, e.kind DESC LIMIT $5
"""
_NEWEST = (2**62, PAST_ALL, 0)
_CALLS = f"""
SELECT {columns(CallRow, "c", account="a.name", task_id="coalesce(t.id, 0)")}
FROM calls AS c JOIN accounts AS a ON a.id = c.account_id LEFT JOIN tasks AS t ON t.call_id = c.id
"""


async def entries(
    db: Queries, account_id: int, before: tuple[bytes, EntryKind] | None, limit: int
) -> list[Entry] | None:
    """The account's entries older than `before`, newest first; None if `before` is not an entry of it."""
    position: tuple[object, ...] = _NEWEST
    if before:
        found = await db.fetch(
            "SELECT created_at, call_id, kind FROM ledger"
            " WHERE call_id = $1 AND kind = $2 AND account_id = $3",
            before[0], int(before[1]), account_id,
        )  # fmt: skip
        if not found:
            return None
        position = tuple(found[0])
    return [Entry(*row) for row in await db.fetch(_ENTRIES, account_id, *position, limit)]


async def call(db: Queries, call_id: bytes) -> list[CallRow]:
    """The call of this id, if there is one."""
    return [CallRow(*row) for row in await db.fetch(f"{_CALLS} WHERE c.id = $1", call_id)]


async def call_of_account(db: Queries, account_id: int, call_id: bytes) -> CallRow | None:
    """The call of this id, if it is the account's."""
    rows = await db.fetch(f"{_CALLS} WHERE c.id = $1 AND c.account_id = $2", call_id, account_id)
    return CallRow(*rows[0]) if rows else None


async def entries_of_call(db: Queries, call_id: bytes) -> list[CallEntry]:
    """The charge of a call, and its refund if it has one."""
    rows = await db.fetch(
        f"SELECT {columns(CallEntry)} FROM ledger WHERE call_id = $1 ORDER BY kind", call_id
    )
    return [CallEntry(*row) for row in rows]


async def calls_of_request(
    db: Queries, request_id: str, before: bytes, limit: int, after: bytes = b""
) -> list[CallRow]:
    """The calls of requests with this id that are older than `before` and not older than `after`, newest
    first."""
    rows = await db.fetch(
        f"{_CALLS} WHERE c.request_id = $1 AND c.id < $2 AND c.id >= $3 ORDER BY c.id DESC LIMIT $4",
        request_id, before, after, limit,
    )  # fmt: skip
    return [CallRow(*row) for row in rows]


async def calls_of_account(db: Queries, account_id: int, before: bytes, limit: int) -> list[CallRow]:
    """The account's calls that are older than `before`, newest first."""
    rows = await db.fetch(
        f"{_CALLS} WHERE c.account_id = $1 AND c.id < $2 ORDER BY c.id DESC LIMIT $3",
        account_id, before, limit,
    )  # fmt: skip
    return [CallRow(*row) for row in rows]
