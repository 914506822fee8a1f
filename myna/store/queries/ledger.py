"""Queries on calls and the ledger outside the batch: grants, overdue calls, stored answers."""

import msgspec
from msgspec import Struct

from myna.lib.ids import new_id
from myna.store.batch import IDEMPOTENCY_KEY_LIFE_MS, EntryKind
from myna.store.database import Queries, Transaction
from myna.store.queries.keys import KeyRow
from myna.store.rows import fetch_row, fetch_values, insert_row
from myna.store.states import ENDED, OPEN

_json = msgspec.json.Encoder()


async def grant(
    db: Transaction, account_id: int, units: int, memo: str, kind: EntryKind = EntryKind.GRANT
) -> int | None:
    """Adds `units` (negative: takes them) and a ledger entry of this kind. Returns the new balance; None if
    below zero.

    The fence is read after the account was locked: see `audit_state` on who may add entries below it.
    """
    sql = "UPDATE accounts SET balance = balance + $2 WHERE id = $1 AND balance + $2 >= 0 RETURNING balance"
    rows = await db.fetch(sql, account_id, units)
    if not rows:
        return None
    ((closed_before,),) = await db.fetch("SELECT closed_before FROM site")
    entry_id = new_id(bytes(closed_before))
    sql = """INSERT INTO ledger (call_id, kind, account_id, units, memo, created_at)
        VALUES ($1, $2, $3, $4, $5, now_ms()) RETURNING created_at"""
    ((at,),) = await db.fetch(sql, entry_id, int(kind), account_id, units, memo)
    entries = _json.encode([(entry_id.hex(), int(kind), account_id, 0, units)]).decode()
    await insert_row(db, "outbox", id=entry_id, at=at, size=1, entries=entries, ended="[]")
    return int(rows[0][0])


async def overdue(db: Queries, limit: int, reason: str) -> dict[bytes, str]:
    """Open calls whose deadline has passed, the longest overdue first, and why each is refunded: what a node
    that refused its task reported, else `reason`."""
    sql = f"""SELECT id, (SELECT t.reason FROM tasks t WHERE t.call_id = calls.id) FROM calls
        WHERE {OPEN} AND deadline < now_ms() ORDER BY deadline LIMIT $1"""
    rows = await db.fetch(sql, limit)
    return {bytes(call_id): refused or reason for call_id, refused in rows}


async def open_calls(db: Queries, limit: int) -> list[bytes]:
    """Open calls without a task for a node, also before their deadline."""
    sql = f"""SELECT id FROM calls WHERE {OPEN} AND NOT EXISTS
        (SELECT 1 FROM tasks t WHERE t.call_id = calls.id AND t.deadline > 0) ORDER BY deadline LIMIT $1"""
    return await fetch_values(db, bytes, sql, limit)


class StoredResponse(Struct, frozen=True):
    """The stored response of an idempotency key. `answer` is None while the call is open."""

    answer: str | None
    call_id: bytes


async def stored_response(db: Queries, reader: KeyRow, key: str, fingerprint: bytes) -> StoredResponse | None:
    """The stored response of an idempotency key, if it has the same request, has not expired, and its call
    was charged at a rate of a scope that `reader` has, on a route that it may use."""
    sql = """SELECT r.answer, r.call_id FROM reservations r JOIN calls c ON c.id = r.call_id
        WHERE r.account_id = $1 AND r.key = $2 AND r.fingerprint = $3
        AND r.created_at > now_ms() - $4 AND c.pays & $5 <> 0 AND NOT EXISTS
        (SELECT 1 FROM keys k WHERE k.id = $6 AND k.routed = 1 AND NOT EXISTS
         (SELECT 1 FROM key_routes o WHERE o.key_id = k.id AND o.route = c.route))"""
    found = (reader.account_id, key, fingerprint, IDEMPOTENCY_KEY_LIFE_MS, reader.scopes, reader.id)
    return await fetch_row(db, StoredResponse, sql, *found)


async def delete_expired_keys(db: Transaction, limit: int) -> int:
    """Deletes expired idempotency keys, except those of open calls. Returns how many."""
    sql = f"""DELETE FROM reservations WHERE call_id IN (
        SELECT r.call_id FROM reservations r JOIN calls c ON c.id = r.call_id
        WHERE r.created_at < now_ms() - $1 AND c.{ENDED} ORDER BY r.created_at LIMIT $2
        ) RETURNING call_id"""
    return len(await db.fetch(sql, IDEMPOTENCY_KEY_LIFE_MS, limit))
