"""Queries on calls and the ledger outside the batch: grants, overdue calls, stored answers, and codes for
units, which are stored as SHA-256 only.
"""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from myna.lib.ids import new_id
from myna.store.batch import IDEMPOTENCY_KEY_LIFE_MS, EntryKind
from myna.store.database import Queries, Transaction
from myna.store.queries.keys import KeyRow
from myna.store.rows import (
    NOW,
    columns,
    fetch_only,
    fetch_row,
    fetch_rows,
    fetch_value,
    fetch_values,
    has_row,
    insert_row,
)
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
    balance = await fetch_value(db, int, sql, account_id, units)
    if balance is None:
        return None
    entry_id = new_id(await fetch_only(db, bytes, "SELECT closed_before FROM site"))
    entry = {"call_id": entry_id, "kind": int(kind), "account_id": account_id, "units": units, "memo": memo}
    ((at,),) = await insert_row(db, "ledger", "RETURNING created_at", **entry, created_at=NOW)
    entries = _json.encode([(entry_id.hex(), int(kind), account_id, 0, units)]).decode()
    await insert_row(db, "outbox", id=entry_id, at=at, size=1, entries=entries, ended="[]")
    return balance


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


class BatchRow(Struct, frozen=True):
    """A batch of codes. `units` and `uses` are those of each code; `codes` is their number, `uses_left` what
    is left of all of them. Times in ms, 0 for never."""

    id: int
    units: int
    uses: int
    codes: int
    memo: str
    created_at: int
    expires_at: int
    disabled_at: int
    uses_left: int


class CodeRow(Struct, frozen=True):
    """A code with the state of its batch at the time `now` in ms."""

    batch_id: int
    units: int
    memo: str
    expires_at: int
    disabled_at: int
    uses_left: int
    now: int


_BATCH = columns(
    BatchRow,
    "b",
    uses_left="(SELECT CAST(sum(c.uses_left) AS BIGINT) FROM codes c WHERE c.batch_id = b.id)",
)


async def add_codes(
    db: Transaction, *, units: int, uses: int, life_ms: int, memo: str, hashes: Sequence[bytes]
) -> BatchRow:
    """Adds a batch with these codes; `life_ms` is 0 for no expiry."""
    sql = """INSERT INTO code_batches (units, uses, codes, memo, created_at, expires_at)
        VALUES ($1, $2, $3, $4, now_ms(),
        CASE WHEN CAST($5 AS BIGINT) = 0 THEN 0 ELSE now_ms() + CAST($5 AS BIGINT) END) RETURNING id"""
    batch_id = await fetch_only(db, int, sql, units, uses, len(hashes), memo, life_ms)
    rows = [(code_hash, batch_id, uses) for code_hash in hashes]
    await db.tables.load("codes", ("hash", "batch_id", "uses_left"), rows)
    (batch,) = await code_batches(db, batch_id - 1, 1)
    return batch


async def code_batches(db: Queries, after: int, limit: int) -> list[BatchRow]:
    """Batches with ids above `after`, in order."""
    sql = f"SELECT {_BATCH} FROM code_batches b WHERE b.id > $1 ORDER BY b.id LIMIT $2"
    return await fetch_rows(db, BatchRow, sql, after, limit)


async def disable_codes(db: Transaction, batch_id: int) -> bool:
    """Disables a batch, which keeps the time of its first disabling; False if there is none."""
    sql = """UPDATE code_batches SET disabled_at = CASE disabled_at WHEN 0 THEN now_ms() ELSE disabled_at END
        WHERE id = $1 RETURNING id"""
    return await has_row(db, sql, batch_id)


async def locked_code(db: Transaction, code_hash: bytes) -> CodeRow | None:
    """The code with this SHA-256. Its row is locked until the transaction ends."""
    if not await has_row(db, "UPDATE codes SET uses_left = uses_left WHERE hash = $1 RETURNING 1", code_hash):
        return None
    sql = f"""SELECT {columns(CodeRow, "b", batch_id="b.id", uses_left="c.uses_left", now="now_ms()")}
        FROM codes c JOIN code_batches b ON b.id = c.batch_id WHERE c.hash = $1"""
    return await fetch_row(db, CodeRow, sql, code_hash)


async def use_code(db: Transaction, code_hash: bytes, account_id: int) -> None:
    """Uses a locked code, which has a use left and which the account has not redeemed."""
    await db.fetch("UPDATE codes SET uses_left = uses_left - 1 WHERE hash = $1", code_hash)
    await insert_row(db, "redemptions", code_hash=code_hash, account_id=account_id, created_at=NOW)


async def has_redeemed(db: Queries, code_hash: bytes, account_id: int) -> bool:
    """Whether the account has redeemed the code."""
    sql = "SELECT 1 FROM redemptions WHERE code_hash = $1 AND account_id = $2"
    return await has_row(db, sql, code_hash, account_id)


async def code_guesses_wait_ms(db: Queries, account_id: int, every_ms: int, at_once: int) -> int:
    """How long the account must wait before it may try a code; 0 if it may now."""
    sql = "SELECT until - now_ms() - $2 FROM code_guesses WHERE account_id = $1"
    return max(0, await fetch_value(db, int, sql, account_id, every_ms * (at_once - 1)) or 0)


async def count_code_guess(db: Transaction, account_id: int, every_ms: int) -> None:
    """Counts an unknown code of the account, in a bucket that loses one every `every_ms`."""
    sql = """INSERT INTO code_guesses (account_id, until) VALUES ($1, now_ms() + CAST($2 AS BIGINT))
        ON CONFLICT (account_id) DO UPDATE SET until = CAST($2 AS BIGINT)
        + CASE WHEN code_guesses.until > now_ms() THEN code_guesses.until ELSE now_ms() END"""
    await db.fetch(sql, account_id, every_ms)
