"""Queries on passwords, which are stored as argon2id hashes."""

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.queries.accounts import AccountRow, same_email
from myna.store.rows import columns


class Candidate(Struct, frozen=True):
    """An account that a person may mean, with the hash of its password, empty if it has none."""

    account: AccountRow
    hash: str

    def __repr__(self) -> str:
        return f"Candidate({self.account!r})"


_CANDIDATE = f"""
SELECT coalesce(p.hash, ''), {columns(AccountRow, "a")}
FROM accounts a LEFT JOIN passwords p ON p.account_id = a.id
"""


async def candidate(db: Queries, name_or_email: str) -> Candidate | None:
    """The account of this name; else the account with this e-mail address, by `same_email`, if it is the only
    one."""
    if not name_or_email.isprintable():  # no account has such a name, and PostgreSQL refuses some characters
        return None
    rows = await db.fetch(
        f"{_CANDIDATE} WHERE a.name = $1 OR (a.email <> '' AND lower(a.email) = lower($1))", name_or_email
    )
    found = [Candidate(AccountRow(*account), password_hash) for password_hash, *account in rows]
    named = [one for one in found if one.account.name == name_or_email]
    matching = named or [one for one in found if same_email(one.account.email, name_or_email)]
    return matching[0] if len(matching) == 1 else None


async def of_account(db: Queries, account_id: int) -> Candidate | None:
    """The account of this id."""
    rows = await db.fetch(f"{_CANDIDATE} WHERE a.id = $1", account_id)
    return Candidate(AccountRow(*rows[0][1:]), rows[0][0]) if rows else None


async def put(db: Transaction, account_id: int, password_hash: str) -> None:
    """Sets the account's password."""
    await db.fetch(
        "INSERT INTO passwords (account_id, hash, set_at) VALUES ($1, $2, now_ms())"
        " ON CONFLICT (account_id) DO UPDATE SET hash = excluded.hash, set_at = excluded.set_at",
        account_id, password_hash,
    )  # fmt: skip


async def rehash(db: Transaction, account_id: int, before: str, after: str) -> None:
    """Replaces the hash of an unchanged password."""
    await db.fetch(
        "UPDATE passwords SET hash = $3 WHERE account_id = $1 AND hash = $2", account_id, before, after
    )


async def an_operator_can_sign_in(db: Queries) -> bool:
    """Whether an enabled account of an operator has a password."""
    rows = await db.fetch(
        "SELECT 1 FROM accounts a JOIN passwords p ON p.account_id = a.id"
        " WHERE a.operator = 1 AND a.disabled_at = 0 LIMIT 1"
    )
    return bool(rows)
