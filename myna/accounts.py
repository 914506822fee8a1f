"""Accounts: who holds units and keys."""

from myna.errors import CommandError
from myna.ids import new_id
from myna.store import accounts as store
from myna.store import ledger
from myna.store.accounts import AccountRow
from myna.store.database import Connection, Database, Reader

NAME_MAX_CHARS = 100
EMAIL_MAX_CHARS = 254
MEMO_MAX_CHARS = 1000
UNITS_MAX = 2**53 - 1
"""The largest balance: what JSON readers in every language hold exactly."""
_PAGE = 500


async def add(db: Database, name: str, email: str, operator: bool, units: int) -> AccountRow:
    """A new account with `units` granted, in one transaction."""
    if not name.strip() or len(name) > NAME_MAX_CHARS or not name.isprintable():
        raise CommandError(f"An account needs a name of 1 to {NAME_MAX_CHARS} printable characters.")
    _check_line("An email address", email, EMAIL_MAX_CHARS)
    _check_units(units, least=0)

    async def work(connection: Connection) -> None:
        account_id = await store.insert(connection, name, email, operator)
        if account_id is None:
            raise CommandError(f"There already is an account {name!r}.")
        if units:
            await ledger.grant(connection, new_id(), account_id, units, "opening grant")

    await db.transaction(work)
    return await find(db, name)


async def grant(db: Database, name: str, units: int, memo: str) -> AccountRow:
    """Gives `units`, or takes them where negative, but never below a balance of 0."""
    _check_line("A memo", memo, MEMO_MAX_CHARS)
    _check_units(units, least=-UNITS_MAX)
    if not units:
        raise CommandError("A grant of 0 units changes nothing.")
    account = await find(db, name)
    if account.balance + units > UNITS_MAX:
        raise CommandError(f"The balance may be {UNITS_MAX} units at most.")

    async def work(connection: Connection) -> None:
        if await ledger.grant(connection, new_id(), account.id, units, memo) is None:
            raise CommandError(f"The account has {account.balance} units; {-units} can't be taken.")

    try:
        await db.transaction(work)
    except db.away:
        raise CommandError(
            f"The database went away: whether the {units} units moved isn't known. Look at the balance of"
            f" {name!r} before you try again."
        ) from None
    return await find(db, name)


async def find(db: Reader, name: str) -> AccountRow:
    """The account of this name. Raises CommandError if there is none."""
    account = await store.by_name(db, name)
    if account is None:
        raise CommandError(f"There is no account {name!r}.")
    return account


async def everyone(db: Reader) -> list[AccountRow]:
    """All accounts, in the order of their making."""
    found: list[AccountRow] = []
    while page := await store.page(db, found[-1].id if found else 0, _PAGE):
        found += page
    return found


async def set_enabled(db: Database, name: str, enabled: bool) -> AccountRow:
    """Disables or enables an account; disabled, its keys are refused from the moment this returns."""
    account = await find(db, name)

    async def work(connection: Connection) -> None:
        await (store.enable if enabled else store.disable)(connection, account.id)

    await db.transaction(work)
    return await find(db, name)


def _check_line(what: str, text: str, chars_max: int) -> None:
    if len(text) > chars_max or not text.isprintable():
        raise CommandError(f"{what} has at most {chars_max} characters, all of them printable.")


def _check_units(units: int, least: int) -> None:
    if not least <= units <= UNITS_MAX:
        raise CommandError(f"Units must be a whole number from {least} to {UNITS_MAX}.")
