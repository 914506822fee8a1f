"""Queries on the limits of keys and accounts. The batch counts; here they are set and read.

A transaction that changes a limit has locked the account, as the batch has.
"""

from collections.abc import Mapping

from msgspec import Struct

from myna.store.columns import columns
from myna.store.database import Queries, Transaction

OF_ACCOUNT = 0
"""In place of a key's id: the limits of the account."""


class LimitsRow(Struct, frozen=True):
    """The limits of a key or an account (None: the default of the site, 0: none), and its open calls."""

    key_id: int
    rpm: int | None = None
    concurrent: int | None = None
    units_per_day: int | None = None
    open_calls: int = 0


async def of_account(db: Queries, account_id: int) -> dict[int, LimitsRow]:
    """The limits of an account, under OF_ACCOUNT, and those of its keys, by their ids."""
    rows = await db.fetch(f"SELECT {columns(LimitsRow)} FROM limits WHERE account_id = $1", account_id)
    return {int(row[0]): LimitsRow(*row) for row in rows}


async def of_key(db: Queries, account_id: int, key_id: int) -> LimitsRow:
    """The limits of a key, or with OF_ACCOUNT those of the account."""
    return (await of_account(db, account_id)).get(key_id, LimitsRow(key_id))


async def put(db: Transaction, account_id: int, key_id: int, limits: Mapping[str, int | None]) -> None:
    """Sets these columns of the limits of a key, or with OF_ACCOUNT of the account."""
    await db.fetch(
        "INSERT INTO limits (account_id, key_id) VALUES ($1, $2) ON CONFLICT (account_id, key_id) DO NOTHING",
        account_id, key_id,
    )  # fmt: skip
    for column in ("rpm", "concurrent", "units_per_day"):
        if column in limits:
            await db.fetch(
                f"UPDATE limits SET {column} = $3 WHERE account_id = $1 AND key_id = $2",
                account_id, key_id, limits[column],
            )  # fmt: skip
    table, number = ("keys", key_id) if key_id else ("accounts", account_id)
    await db.fetch(
        f"UPDATE {table} SET limited = (SELECT count(*) FROM limits WHERE account_id = $2 AND key_id = $3"
        " AND (rpm IS NOT NULL OR concurrent IS NOT NULL OR units_per_day IS NOT NULL)) WHERE id = $1",
        number, account_id, key_id,
    )  # fmt: skip
