"""Queries on accounts."""

from typing import Final

from msgspec import Struct, structs

from myna.store.database import Queries, Transaction
from myna.store.rows import (
    ID_MAX,
    NOW,
    columns,
    fetch_row,
    fetch_rows,
    fetch_value,
    has_row,
    insert_row,
    put_row,
)


class AccountRow(Struct, frozen=True):
    """An account. Times in ms, 0 for never; the balance in units."""

    id: int
    name: str
    email: str
    operator: int
    disabled_at: int
    balance: int
    created_at: int


_COLUMNS = columns(AccountRow)


async def by_name(db: Queries, name: str) -> AccountRow | None:
    """The account of this name."""
    return await fetch_row(db, AccountRow, f"SELECT {_COLUMNS} FROM accounts WHERE name = $1", name)


async def by_id(db: Queries, account_id: int) -> AccountRow | None:
    """The account of this id."""
    return await fetch_row(db, AccountRow, f"SELECT {_COLUMNS} FROM accounts WHERE id = $1", account_id)


async def by_email(db: Queries, email: str) -> list[AccountRow]:
    """The accounts with this e-mail address, by `same_email`."""
    sql = f"SELECT {_COLUMNS} FROM accounts WHERE email <> '' AND lower(email) = lower($1) ORDER BY id"
    found = await fetch_rows(db, AccountRow, sql, email)
    return [account for account in found if same_email(account.email, email)]


async def page(db: Queries, after: int, limit: int) -> list[AccountRow]:
    """Accounts with ids above `after`, in order."""
    sql = f"SELECT {_COLUMNS} FROM accounts WHERE id > $1 ORDER BY id LIMIT $2"
    return await fetch_rows(db, AccountRow, sql, after, limit)


async def search(db: Queries, prefix: str, before: int, limit: int) -> list[AccountRow]:
    """Accounts whose name or e-mail address begins with `prefix`, ASCII letters in any case, newest first.
    Their ids are below `before`."""
    name, email, begins = (f"lower({text}{db.ascii_only})" for text in ("name", "email", "$2"))
    sql = f"""SELECT {_COLUMNS} FROM accounts WHERE id < $1 AND (substr({name}, 1, length($2)) = {begins}
        OR substr({email}, 1, length($2)) = {begins}) ORDER BY id DESC LIMIT $3"""
    return await fetch_rows(db, AccountRow, sql, before, prefix, limit)


def same_email(one: str, other: str) -> bool:
    """Whether two e-mail addresses are equal: ASCII letters in any case, everything else exactly.

    PostgreSQL's `lower` maps other characters to ASCII letters too, such as the Kelvin sign to k, so what a
    query finds by it is compared again.
    """
    return one.encode().lower() == other.encode().lower()


async def insert(db: Transaction, name: str, email: str, operator: bool) -> int | None:
    """Adds an account without units; None if the name is taken."""
    sql = """INSERT INTO accounts (name, email, operator, created_at) VALUES ($1, $2, $3, now_ms())
        ON CONFLICT (name) DO NOTHING RETURNING id"""
    return await fetch_value(db, int, sql, name, email, int(operator))


async def rename(db: Transaction, account_id: int, name: str) -> bool:
    """Renames the account; False, and nothing changed, if another account has the name."""
    sql = """UPDATE accounts SET name = $2 WHERE id = $1
        AND NOT EXISTS (SELECT 1 FROM accounts WHERE name = $2 AND id <> $1) RETURNING id"""
    return await has_row(db, sql, account_id, name)


async def disable(db: Transaction, account_id: int) -> None:
    """Disables the account: its keys are refused from the commit on, and its sessions end."""
    await db.fetch("UPDATE accounts SET disabled_at = now_ms() WHERE id = $1 AND disabled_at = 0", account_id)
    await db.fetch("DELETE FROM sessions WHERE account_id = $1", account_id)


async def enable(db: Transaction, account_id: int) -> None:
    """Enables the account: its keys work again, except revoked and expired ones."""
    await db.fetch("UPDATE accounts SET disabled_at = 0 WHERE id = $1", account_id)


async def lock(db: Transaction, account_id: int) -> None:
    """Locks the account until the transaction ends. Its row is the lock of all its rows in other tables."""
    await db.fetch("UPDATE accounts SET balance = balance WHERE id = $1", account_id)


LANGUAGES: Final = ("", "zh", "en")
"""Empty: that of the browser."""


class Preferences(Struct, frozen=True):
    """An account's language, `zh`, `en` or empty, and the balance in units below which it is low, 0 for
    none."""

    language: str = ""
    low_balance: int = 0


async def preferences_of(db: Queries, account_id: int) -> Preferences:
    """The account's preferences, or the defaults."""
    sql = f"SELECT {columns(Preferences)} FROM preferences WHERE account_id = $1"
    return await fetch_row(db, Preferences, sql, account_id) or Preferences()


async def put_preferences(db: Transaction, account_id: int, preferences: Preferences) -> None:
    """Sets the account's preferences."""
    await put_row(db, "preferences", "account_id", account_id=account_id, **structs.asdict(preferences))


PROGRAM = "myna"
"""With this word every recorded command line begins."""


class NewActivity(Struct, frozen=True):
    """A change and the command line that makes the same. `actor_id` is 0 for the command line; `account_id`
    is the account concerned, 0 for none."""

    actor_id: int
    actor: str
    address: str
    command: str
    account_id: int


class ActivityRow(NewActivity, frozen=True):
    """A change that was recorded. `account` is the present name of the account. Time in ms."""

    id: int
    created_at: int
    account: str


_ACTIVITY = f"""
SELECT {columns(ActivityRow, "r", account="coalesce(a.name, '')")}
FROM activity AS r LEFT JOIN accounts AS a ON a.id = r.account_id
WHERE r.id < $1 AND substr(r.command, 1, length($2)) = $2
"""


async def add_activity(db: Transaction, new: NewActivity) -> None:
    """Adds a row with the database's time."""
    await insert_row(db, "activity", created_at=NOW, **structs.asdict(new))


async def activity_page(
    db: Queries,
    *,
    before: int = ID_MAX,
    limit: int = 50,
    prefix: str = "",
    actor_id: int | None = None,
    account_id: int | None = None,
) -> list[ActivityRow]:
    """Changes with ids below `before`, newest first. `prefix` is the beginning of the command after `myna`,
    such as `account grant`; `actor_id` (0: the command line) and `account_id` select, None for all."""
    filters = {"actor_id": actor_id, "account_id": account_id}
    given = {column: value for column, value in filters.items() if value is not None}
    conditions = "".join(f" AND r.{column} = ${n}" for n, column in enumerate(given, 4))
    sql = f"{_ACTIVITY}{conditions} ORDER BY r.id DESC LIMIT $3"
    return await fetch_rows(db, ActivityRow, sql, before, f"{PROGRAM} {prefix}", limit, *given.values())
