"""Queries on accounts."""

from msgspec import Struct

from myna.store.database import Connection, Reader


class AccountRow(Struct, frozen=True):
    """An account. Times in ms, 0 for never; the balance in units."""

    id: int
    name: str
    email: str
    operator: int
    disabled_at: int
    balance: int
    created_at: int


_COLUMNS = "id, name, email, operator, disabled_at, balance, created_at"


async def by_name(db: Reader, name: str) -> AccountRow | None:
    """The account of this name."""
    rows = await db.fetch(f"SELECT {_COLUMNS} FROM accounts WHERE name = $1", name)
    return AccountRow(*rows[0]) if rows else None


async def page(db: Reader, after: int, limit: int) -> list[AccountRow]:
    """Accounts by id, those behind `after`."""
    rows = await db.fetch(f"SELECT {_COLUMNS} FROM accounts WHERE id > $1 ORDER BY id LIMIT $2", after, limit)
    return [AccountRow(*row) for row in rows]


async def insert(db: Connection, name: str, email: str, operator: bool) -> int | None:
    """A new account without units; None if the name is taken."""
    rows = await db.fetch(
        "INSERT INTO accounts (name, email, operator, created_at) VALUES ($1, $2, $3, now_ms())"
        " ON CONFLICT (name) DO NOTHING RETURNING id",
        name, email, int(operator),
    )  # fmt: skip
    return int(rows[0][0]) if rows else None


async def disable(db: Connection, account_id: int) -> None:
    """Its keys are refused from the commit on."""
    await db.fetch("UPDATE accounts SET disabled_at = now_ms() WHERE id = $1 AND disabled_at = 0", account_id)


async def enable(db: Connection, account_id: int) -> None:
    """Its keys work again, but for those revoked or expired."""
    await db.fetch("UPDATE accounts SET disabled_at = 0 WHERE id = $1", account_id)


async def lock(db: Connection, account_id: int) -> None:
    """Holds the account until the transaction ends: its row is the lock of all that belongs to it."""
    await db.fetch("UPDATE accounts SET balance = balance WHERE id = $1", account_id)
