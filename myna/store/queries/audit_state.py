"""What the audit stores between its runs: the fence, the checkpoint below it, and the last result.

    ids:  ──────── checked and summed up ────────┬──── the open range, checked each time ────►
                                            closed_until  ≤  closed_before, the fence

The fence is part of the configuration: a charge that was decided under an older fence is refused as stale and
decided again, with an id above the new one. Once every transaction that was writing when the fence rose has
ended, nothing is added below it. An ended call never changes and the ledger is append-only, so everything
below the fence and below the oldest open call is final.
"""

from msgspec import Struct, structs

from myna.lib.ids import first_of, millis_of
from myna.store.database import Queries, Transaction
from myna.store.queries.audit import FIRST, KEPT, Counts
from myna.store.queries.config import raise_version
from myna.store.rows import columns, fetch_only, fetch_value, has_row
from myna.store.states import ENDED, OPEN

LEASE_MS = 600_000
"""How long the process that runs an audit has exclusive use of it after its last step."""


class AuditState(Struct, frozen=True):
    """The checkpoint and the last audit. Times are Unix milliseconds by the database's clock, as `now` is."""

    closed_until: bytes
    counts: Counts
    audited_at: int
    breaches: int
    counted: str
    now: int


async def state(db: Queries) -> AuditState:
    """The stored state."""
    stored = columns(AuditState, now="now_ms()", counts=columns(Counts))
    ((until, calls, entries, tasks, files, *others),) = await db.fetch(f"SELECT {stored} FROM audit_state")
    return AuditState(bytes(until), Counts(calls, entries, tasks, files), *others)


async def claim(db: Transaction, every_ms: int) -> bool:
    """Whether this process is to audit now: the last audit is `every_ms` ago, and no other process runs one.
    A time in the future was written before the clock was set back."""
    sql = """UPDATE audit_state SET claimed_until = now_ms() + $2
        WHERE (audited_at <= now_ms() - $1 OR audited_at > now_ms())
        AND (claimed_until < now_ms() OR claimed_until > now_ms() + $2) RETURNING 1"""
    return await has_row(db, sql, every_ms, LEASE_MS)


async def finish(db: Transaction, breaches: int, counted: str) -> None:
    """Records the result of an audit and releases it."""
    sql = "UPDATE audit_state SET claimed_until = 0, audited_at = now_ms(), breaches = $1, counted = $2"
    await db.fetch(sql, breaches, counted)


async def next_fence(db: Queries) -> bytes:
    """The first id of the current millisecond. If the fence is above it, since it rose while the clock was
    ahead, the first id above all existing ones."""
    ((fence, now, newest),) = await db.fetch(
        "SELECT closed_before, now_ms(), (SELECT call_id FROM ledger ORDER BY call_id DESC LIMIT 1) FROM site"
    )
    first = first_of(int(now))
    if bytes(fence) <= first:
        return first
    return first_of(millis_of(max(bytes(fence), bytes(newest or b""))) + 1)


async def raise_fence(db: Transaction, fence: bytes) -> bool:
    """Raises the fence: after COMMIT no new call has an id below it. False if that would close no entry."""
    sql = """SELECT 1 FROM ledger
        WHERE call_id >= (SELECT closed_before FROM site) AND call_id < $1 LIMIT 1"""
    if not await has_row(db, sql, fence):
        return False
    await db.fetch("UPDATE site SET closed_before = $1 WHERE closed_before < $1", fence)
    await raise_version(db)
    return True


async def fence(db: Queries) -> bytes:
    """The id below which there are no new calls."""
    return await fetch_only(db, bytes, "SELECT closed_before FROM site")


async def closable_until(db: Queries, fence: bytes) -> bytes:
    """The oldest open call's id, `fence` at most. Everything below is final once each transaction has ended
    that was writing when the fence was read."""
    # An expression, since SQLite would search the least plain id in all calls, not in the index of open ones.
    # Not min(): PostgreSQL has it for bytea since version 18 only.
    sql = f"SELECT id FROM calls WHERE {OPEN} ORDER BY substr(id, 1) LIMIT 1"
    return min(fence, await fetch_value(db, bytes, sql) or fence)


async def step_end(db: Queries, start: bytes, end: bytes, entries: int) -> bytes:
    """The end of a range from `start` with this many ledger entries; `end` at most."""
    sql = "SELECT call_id FROM ledger WHERE call_id >= $1 AND call_id < $2 ORDER BY call_id LIMIT 1 OFFSET $3"
    return await fetch_value(db, bytes, sql, start, end, entries) or end


async def advance(db: Transaction, start: bytes, end: bytes, counts: Counts) -> bool:
    """Moves the checkpoint from `start` to `end`, over a range that is final and without breaches; False if
    another audit moved it concurrently."""
    sql = """UPDATE audit_state SET closed_until = $2, calls = calls + $3, entries = entries + $4,
        tasks = tasks + $5, files = files + $6, claimed_until = now_ms() + $7
        WHERE closed_until = $1 RETURNING 1"""
    if not await has_row(db, sql, start, end, *structs.astuple(counts), LEASE_MS):
        return False
    sql = """INSERT INTO audit_accounts (account_id, units)
        SELECT account_id, CAST(sum(units) AS BIGINT) FROM ledger WHERE call_id >= $1 AND call_id < $2
        GROUP BY account_id
        ON CONFLICT (account_id) DO UPDATE SET units = audit_accounts.units + excluded.units"""
    await db.fetch(sql, start, end)
    sql = f"""INSERT INTO audit_keys (key_id, calls, ok_calls, cost)
        SELECT key_id, count(*), sum({KEPT}), CAST(sum(units * {KEPT}) AS BIGINT) FROM calls
        WHERE id >= $1 AND id < $2 AND {ENDED} GROUP BY key_id
        ON CONFLICT (key_id) DO UPDATE SET calls = audit_keys.calls + excluded.calls,
        ok_calls = audit_keys.ok_calls + excluded.ok_calls, cost = audit_keys.cost + excluded.cost"""
    await db.fetch(sql, start, end)
    return True


async def drop(db: Transaction) -> None:
    """Deletes the checkpoint: the next audit begins at the first entry."""
    await db.fetch("DELETE FROM audit_accounts")
    await db.fetch("DELETE FROM audit_keys")
    sql = "UPDATE audit_state SET closed_until = $1, calls = 0, entries = 0, tasks = 0, files = 0"
    await db.fetch(sql, FIRST)
