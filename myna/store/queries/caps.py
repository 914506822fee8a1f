"""Queries on the caps of keys. The batch charges them; here they are set, renewed and read.

A transaction that changes a cap has locked the key's account, as the batch has.
"""

from msgspec import Struct

from myna.store.columns import columns
from myna.store.database import Queries, Transaction


class CapRow(Struct, frozen=True):
    """The cap of a key: its units in each period, the present period, and what is used in it. Times in ms."""

    key_id: int
    units: int
    period: str
    starts_at: int
    ends_at: int
    used: int


_CAPS = f"SELECT {columns(CapRow, 'p')} FROM key_caps p JOIN keys k ON k.id = p.key_id WHERE k.capped = 1"


async def of_key(db: Queries, key_id: int) -> CapRow | None:
    """The cap of a key, if it has one."""
    rows = await db.fetch(f"{_CAPS} AND k.id = $1", key_id)
    return CapRow(*rows[0]) if rows else None


async def of_account(db: Queries, account_id: int) -> list[CapRow]:
    """The caps of an account's keys."""
    rows = await db.fetch(f"{_CAPS} AND k.account_id = $1", account_id)
    return [CapRow(*row) for row in rows]


async def put(db: Transaction, key_id: int, units: int, period: str) -> None:
    """Sets a cap. A new one, or one with another period, counts from now on, after it is renewed."""
    await db.fetch(
        "INSERT INTO key_caps (key_id, units, period, starts_at, ends_at) VALUES ($1, $2, $3, 0, 0)"
        " ON CONFLICT (key_id) DO UPDATE SET units = excluded.units, period = excluded.period,"
        " ends_at = CASE WHEN key_caps.period = excluded.period THEN key_caps.ends_at ELSE 0 END",
        key_id, units, period,
    )  # fmt: skip
    await db.fetch("UPDATE keys SET capped = 1 WHERE id = $1", key_id)


async def remove(db: Transaction, key_id: int) -> None:
    """Removes a cap. Its row stays, so that the periods of a later cap begin above its own."""
    await db.fetch("UPDATE keys SET capped = 0 WHERE id = $1", key_id)
    await db.fetch("UPDATE key_caps SET ends_at = 0 WHERE key_id = $1", key_id)


async def renew(db: Transaction, key_id: int, starts_at: int, ends_at: int) -> None:
    """Begins another period with nothing used. Its `starts_at` is above the last one, also if the clock or
    the time zone has changed, so that no call of an earlier period counts in it."""
    await db.fetch(
        "UPDATE key_caps SET used = 0, ends_at = $3,"
        " starts_at = CASE WHEN starts_at < $2 THEN $2 ELSE starts_at + 1 END WHERE key_id = $1",
        key_id, starts_at, ends_at,
    )  # fmt: skip
