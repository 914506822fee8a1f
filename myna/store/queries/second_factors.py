"""Queries on second factors: the secret of one-time codes, and recovery codes as SHA-256."""

from collections.abc import Sequence

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.rows import columns


class SecondFactorRow(Struct, frozen=True):
    """A second factor as of `now`. Times in ms; `confirmed_at` is 0 while it isn't used yet."""

    now: int
    account_id: int
    secret: str
    confirmed_at: int
    last_step: int
    created_at: int

    def __repr__(self) -> str:
        return f"SecondFactorRow(account_id={self.account_id})"


_COLUMNS = columns(SecondFactorRow, now="now_ms()")


async def of_account(db: Queries, account_id: int) -> SecondFactorRow | None:
    """The account's second factor, also an unconfirmed one."""
    rows = await db.fetch(f"SELECT {_COLUMNS} FROM second_factors WHERE account_id = $1", account_id)
    return SecondFactorRow(*rows[0]) if rows else None


async def is_on(db: Queries, account_id: int) -> bool:
    """Whether the account has a confirmed second factor."""
    rows = await db.fetch(
        "SELECT 1 FROM second_factors WHERE account_id = $1 AND confirmed_at > 0", account_id
    )
    return bool(rows)


async def begin(db: Transaction, account_id: int, secret: str) -> bool:
    """Stores the secret of a second factor that is to be confirmed; False if a confirmed one exists."""
    rows = await db.fetch(
        "INSERT INTO second_factors (account_id, secret, created_at) VALUES ($1, $2, now_ms())"
        " ON CONFLICT (account_id) DO UPDATE SET secret = excluded.secret, created_at = excluded.created_at,"
        " last_step = 0 WHERE second_factors.confirmed_at = 0 RETURNING account_id",
        account_id, secret,
    )  # fmt: skip
    return bool(rows)


async def confirm(db: Transaction, account_id: int, secret: str, step: int) -> bool:
    """Confirms the second factor with this secret; False if there is no such one to confirm."""
    rows = await db.fetch(
        "UPDATE second_factors SET confirmed_at = now_ms(), last_step = $3"
        " WHERE account_id = $1 AND secret = $2 AND confirmed_at = 0 RETURNING account_id",
        account_id, secret, step,
    )  # fmt: skip
    return bool(rows)


async def use_step(db: Transaction, account_id: int, step: int) -> bool:
    """Uses the code of a time step; False if that of this or of a later step was used already."""
    rows = await db.fetch(
        "UPDATE second_factors SET last_step = $2"
        " WHERE account_id = $1 AND confirmed_at > 0 AND last_step < $2 RETURNING account_id",
        account_id, step,
    )  # fmt: skip
    return bool(rows)


async def remove(db: Transaction, account_id: int) -> bool:
    """Removes the account's second factor and its recovery codes; False if it has no confirmed one."""
    await db.fetch("DELETE FROM recovery_codes WHERE account_id = $1", account_id)
    rows = await db.fetch(
        "DELETE FROM second_factors WHERE account_id = $1 RETURNING confirmed_at", account_id
    )
    return bool(rows and rows[0][0])


async def replace_codes(db: Transaction, account_id: int, hashes: Sequence[bytes]) -> None:
    """Replaces the account's recovery codes."""
    await db.fetch("DELETE FROM recovery_codes WHERE account_id = $1", account_id)
    for code_hash in hashes:
        await db.fetch(
            "INSERT INTO recovery_codes (code_hash, account_id) VALUES ($1, $2)", code_hash, account_id
        )


async def use_code(db: Transaction, account_id: int, code_hash: bytes) -> bool:
    """Uses a recovery code of the account; False if it has no such code left."""
    rows = await db.fetch(
        "DELETE FROM recovery_codes WHERE code_hash = $1 AND account_id = $2 RETURNING account_id",
        code_hash, account_id,
    )  # fmt: skip
    return bool(rows)


async def codes_left(db: Queries, account_id: int) -> int:
    """How many recovery codes the account has left."""
    ((left,),) = await db.fetch("SELECT count(*) FROM recovery_codes WHERE account_id = $1", account_id)
    return int(left)
