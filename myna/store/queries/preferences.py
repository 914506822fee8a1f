"""Queries on the preferences of accounts."""

from typing import Final

from msgspec import Struct

from myna.store.database import Queries, Transaction
from myna.store.rows import columns

LANGUAGES: Final = ("", "zh", "en")
"""Empty: that of the browser."""


class Preferences(Struct, frozen=True):
    """An account's language, `zh`, `en` or empty, and the balance in units below which it is low, 0 for
    none."""

    language: str = ""
    low_balance: int = 0


async def of_account(db: Queries, account_id: int) -> Preferences:
    """The account's preferences, or the defaults."""
    rows = await db.fetch(f"SELECT {columns(Preferences)} FROM preferences WHERE account_id = $1", account_id)
    return Preferences(*rows[0]) if rows else Preferences()


async def put(db: Transaction, account_id: int, preferences: Preferences) -> None:
    """Sets the account's preferences."""
    await db.fetch(
        "INSERT INTO preferences (account_id, language, low_balance) VALUES ($1, $2, $3)"
        " ON CONFLICT (account_id) DO UPDATE SET language = excluded.language,"
        " low_balance = excluded.low_balance",
        account_id, preferences.language, preferences.low_balance,
    )  # fmt: skip
