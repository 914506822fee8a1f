"""Queries on codes for units. A code is stored as SHA-256 only."""

from collections.abc import Sequence

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.rows import NOW, columns, fetch_row, fetch_rows, fetch_value, has_row, insert_row


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


async def add_batch(
    db: Transaction, *, units: int, uses: int, life_ms: int, memo: str, hashes: Sequence[bytes]
) -> BatchRow:
    """Adds a batch with these codes; `life_ms` is 0 for no expiry."""
    sql = """INSERT INTO code_batches (units, uses, codes, memo, created_at, expires_at)
        VALUES ($1, $2, $3, $4, now_ms(),
        CASE WHEN CAST($5 AS BIGINT) = 0 THEN 0 ELSE now_ms() + CAST($5 AS BIGINT) END) RETURNING id"""
    ((batch_id,),) = await db.fetch(sql, units, uses, len(hashes), memo, life_ms)
    rows = [(code_hash, batch_id, uses) for code_hash in hashes]
    await db.tables.load("codes", ("hash", "batch_id", "uses_left"), rows)
    found = await db.fetch(f"SELECT {_BATCH} FROM code_batches b WHERE b.id = $1", batch_id)
    return BatchRow(*found[0])


async def page(db: Queries, after: int, limit: int) -> list[BatchRow]:
    """Batches with ids above `after`, in order."""
    sql = f"SELECT {_BATCH} FROM code_batches b WHERE b.id > $1 ORDER BY b.id LIMIT $2"
    return await fetch_rows(db, BatchRow, sql, after, limit)


async def disable(db: Transaction, batch_id: int) -> bool:
    """Disables a batch, which keeps the time of its first disabling; False if there is none."""
    sql = """UPDATE code_batches SET disabled_at = CASE disabled_at WHEN 0 THEN now_ms() ELSE disabled_at END
        WHERE id = $1 RETURNING id"""
    return await has_row(db, sql, batch_id)


async def locked(db: Transaction, code_hash: bytes) -> CodeRow | None:
    """The code with this SHA-256. Its row is locked until the transaction ends."""
    if not await db.fetch("UPDATE codes SET uses_left = uses_left WHERE hash = $1 RETURNING 1", code_hash):
        return None
    sql = """SELECT b.id, b.units, b.memo, b.expires_at, b.disabled_at, c.uses_left, now_ms()
        FROM codes c JOIN code_batches b ON b.id = c.batch_id WHERE c.hash = $1"""
    return await fetch_row(db, CodeRow, sql, code_hash)


async def use(db: Transaction, code_hash: bytes, account_id: int) -> None:
    """Uses a locked code, which has a use left and which the account has not redeemed."""
    await db.fetch("UPDATE codes SET uses_left = uses_left - 1 WHERE hash = $1", code_hash)
    await insert_row(db, "redemptions", code_hash=code_hash, account_id=account_id, created_at=NOW)


async def has_redeemed(db: Queries, code_hash: bytes, account_id: int) -> bool:
    """Whether the account has redeemed the code."""
    sql = "SELECT 1 FROM redemptions WHERE code_hash = $1 AND account_id = $2"
    return await has_row(db, sql, code_hash, account_id)


async def guesses_wait_ms(db: Queries, account_id: int, every_ms: int, at_once: int) -> int:
    """How long the account must wait before it may try a code; 0 if it may now."""
    sql = "SELECT until - now_ms() - $2 FROM code_guesses WHERE account_id = $1"
    return max(0, await fetch_value(db, int, sql, account_id, every_ms * (at_once - 1)) or 0)


async def count_guess(db: Transaction, account_id: int, every_ms: int) -> None:
    """Counts an unknown code of the account, in a bucket that loses one every `every_ms`."""
    sql = """INSERT INTO code_guesses (account_id, until) VALUES ($1, now_ms() + CAST($2 AS BIGINT))
        ON CONFLICT (account_id) DO UPDATE SET until = CAST($2 AS BIGINT)
        + CASE WHEN code_guesses.until > now_ms() THEN code_guesses.until ELSE now_ms() END"""
    await db.fetch(sql, account_id, every_ms)
