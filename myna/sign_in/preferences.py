"""What an account holder prefers: the language of the pages, and when a balance is low."""

from typing import Final

from msgspec import Struct

from myna import activity
from myna.activity import Actor
from myna.errors import CommandError
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import accounts
from myna.store.queries import preferences as store
from myna.store.queries.accounts import AccountRow
from myna.store.queries.preferences import Preferences

LANGUAGES: Final = ("", "zh", "en")
"""Empty: that of the browser."""
LOW_BALANCE_MAX: Final = 2**53 - 1


class Changes(Struct, frozen=True):
    """The preferences to change; None: unchanged. `low_balance` in units, 0 for no warning."""

    language: str | None = None
    low_balance: int | None = None


async def of_account(db: Queries, account_id: int) -> Preferences:
    """The account's preferences."""
    return await store.of_account(db, account_id)


async def change(db: Database, account: AccountRow, changes: Changes, by: Actor) -> Preferences:
    """Changes preferences and returns all. Raises CommandError for a value that isn't possible."""
    if changes.language is not None and changes.language not in LANGUAGES:
        raise CommandError("The language is zh, en, or empty for that of the browser.")
    if changes.low_balance is not None and not 0 <= changes.low_balance <= LOW_BALANCE_MAX:
        raise CommandError(
            "A low balance is a whole number from 0 to {low_balance_max}.", low_balance_max=LOW_BALANCE_MAX
        )

    async def work(connection: Transaction) -> Preferences:
        await accounts.lock(connection, account.id)
        before = await store.of_account(connection, account.id)
        after = Preferences(
            language=before.language if changes.language is None else changes.language,
            low_balance=before.low_balance if changes.low_balance is None else changes.low_balance,
        )
        await store.put(connection, account.id, after)
        words = activity.words(
            "account", "set", account.name, language=changes.language, low_balance=changes.low_balance
        )
        await activity.record(connection, by, words, account.id)
        return after

    return await db.transaction(work)
