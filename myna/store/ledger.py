"""Queries on calls and the ledger outside the batch: grants, what the sweep looks for, stored answers."""

from msgspec import Struct

from myna.store.batch import EntryKind
from myna.store.database import Connection, Reader
from myna.store.limits import RESERVATION_LIFE_MS


async def grant(db: Connection, grant_id: bytes, account_id: int, units: int, memo: str) -> int | None:
    """Adds `units` (negative: takes them) and their entry. The new balance; None if below zero."""
    rows = await db.fetch(
        "UPDATE accounts SET balance = balance + $2 WHERE id = $1 AND balance + $2 >= 0 RETURNING balance",
        account_id, units,
    )  # fmt: skip
    if not rows:
        return None
    await db.fetch(
        "INSERT INTO ledger (call_id, kind, account_id, units, memo, created_at)"
        " VALUES ($1, $2, $3, $4, $5, now_ms())",
        grant_id, int(EntryKind.GRANT), account_id, units, memo,
    )  # fmt: skip
    return int(rows[0][0])


async def overdue(db: Reader, limit: int) -> list[bytes]:
    """Open calls whose deadline has passed, the longest overdue first."""
    rows = await db.fetch(
        "SELECT id FROM calls WHERE state = 0 AND deadline < now_ms() ORDER BY deadline LIMIT $1", limit
    )
    return [bytes(row[0]) for row in rows]


async def still_open(db: Reader, limit: int) -> list[bytes]:
    """Open calls that no node works for, whatever their deadline."""
    rows = await db.fetch(
        "SELECT id FROM calls WHERE state = 0 AND NOT EXISTS ("
        " SELECT 1 FROM tasks t WHERE t.call_id = calls.id AND t.deadline > 0) ORDER BY deadline LIMIT $1",
        limit,
    )
    return [bytes(row[0]) for row in rows]


class Reserved(Struct, frozen=True):
    """An Idempotency-Key that is taken; `answer` is None while its first call is open."""

    answer: str | None


async def reserved(db: Reader, account_id: int, key: str, fingerprint: bytes) -> Reserved | None:
    """The Idempotency-Key's reservation, if it came with this very request and isn't too old."""
    rows = await db.fetch(
        "SELECT answer FROM reservations WHERE account_id = $1 AND key = $2 AND fingerprint = $3"
        " AND created_at > now_ms() - $4",
        account_id, key, fingerprint, RESERVATION_LIFE_MS,
    )  # fmt: skip
    return Reserved(rows[0][0]) if rows else None


async def forget_old_answers(db: Connection, limit: int) -> int:
    """Drops reservations past their life; those of calls still open stay. How many went."""
    rows = await db.fetch(
        "DELETE FROM reservations WHERE call_id IN (SELECT r.call_id FROM reservations r"
        " JOIN calls c ON c.id = r.call_id WHERE r.created_at < now_ms() - $1 AND c.state <> 0"
        " ORDER BY r.created_at LIMIT $2) RETURNING call_id",
        RESERVATION_LIFE_MS, limit,
    )  # fmt: skip
    return len(rows)
