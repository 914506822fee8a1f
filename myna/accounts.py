"""Accounts, which own units and keys. Each change is recorded in the activity."""

import re
from difflib import get_close_matches

from myna import activity
from myna.activity import Actor
from myna.errors import CommandError
from myna.limits import Given, as_texts
from myna.limits import put as put_limits
from myna.names import is_line, is_name
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import accounts as store
from myna.store.queries import ledger
from myna.store.queries.accounts import AccountRow
from myna.store.queries.passwords import an_operator_can_sign_in

NAME_MAX_CHARS = 100
EMAIL_MAX_CHARS = 254
MEMO_MAX_CHARS = 1000
UNITS_MAX = 2**53 - 1
"""The largest balance: JSON parsers of every language represent it exactly."""
_PAGE = 500
_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)*")


async def add(db: Database, name: str, email: str, operator: bool, units: int, *, by: Actor) -> AccountRow:
    """Adds an account and grants it `units`, in one transaction."""
    check_details(name, email)
    _check_units(units, least=0)
    command = activity.words(
        "account", "add", name, units=units or None, email=email or None, operator=operator
    )

    async def work(connection: Transaction) -> AccountRow:
        account_id = await store.insert(connection, name, email, operator)
        if account_id is None:
            raise CommandError("There already is an account {name!r}.", name=name)
        if units:
            await ledger.grant(connection, account_id, units, "opening grant")
        await activity.record(connection, by, command, account_id)
        return await find(connection, name)

    return await db.transaction(work)


async def grant(
    db: Database, name: str, units: int, memo: str, *, by: Actor, to_empty: bool = False
) -> AccountRow:
    """Grants `units`, or takes them if negative. The balance never falls below 0. With `to_empty` nothing is
    granted to an account that has units."""
    check_memo(memo)
    _check_units(units, least=-UNITS_MAX)
    if not units:
        raise CommandError("A grant of 0 units changes nothing.")
    account = await find(db, name)
    if account.balance + units > UNITS_MAX:
        raise CommandError("The balance may be {units_max} units at most.", units_max=UNITS_MAX)
    command = activity.words("account", "grant", name, units, memo=memo or None)

    async def work(connection: Transaction) -> AccountRow:
        if to_empty:
            await store.lock(connection, account.id)
            if (present := await find(connection, name)).balance:
                return present
        if await ledger.grant(connection, account.id, units, memo) is None:
            raise CommandError(
                "The account has {balance} units; {units} can't be taken.",
                balance=account.balance,
                units=-units,
            )
        await activity.record(connection, by, command, account.id)
        return await find(connection, name)  # in the transaction: afterwards the connection may be lost

    try:
        return await db.transaction(work)
    except db.unavailable:
        raise CommandError(
            "The database became unavailable: whether the {units} units were granted is"
            " unknown. Check the balance of {name!r} before you try again.",
            units=units,
            name=name,
        ) from None


async def find(db: Queries, name: str) -> AccountRow:
    """The account of this name, or else the only one with this e-mail address. Raises CommandError."""
    if account := await store.by_name(db, name):
        return account
    same = await store.by_email(db, name) if "@" in name and name.isprintable() else []
    if len(same) == 1:
        return same[0]
    if same:
        names = ", ".join(repr(row.name) for row in same)
        raise CommandError(
            "Several accounts have the e-mail address {email!r}: name one of {names}.",
            email=name,
            names=names,
        )
    near = get_close_matches(name, [row.name for row in await store.page(db, 0, _PAGE)])
    if near:
        names = ", ".join(map(repr, near))
        raise CommandError("There is no account {name!r}; did you mean {names}?", name=name, names=names)
    raise CommandError("There is no account {name!r}.", name=name)


async def list_all(db: Queries) -> list[AccountRow]:
    """All accounts, oldest first."""
    found: list[AccountRow] = []
    while page := await store.page(db, found[-1].id if found else 0, _PAGE):
        found += page
    return found


async def rename(db: Database, name: str, new: str, *, by: Actor) -> AccountRow:
    """Renames an account. Its id, keys and units stay the same."""
    _check_name(new)
    account = await find(db, name)

    async def work(connection: Transaction) -> AccountRow:
        if not await store.rename(connection, account.id, new):
            raise CommandError("There already is an account {new!r}.", new=new)
        await activity.record(connection, by, activity.words("account", "rename", name, new), account.id)
        return await find(connection, new)

    return await db.transaction(work)


async def set_enabled(
    db: Database, name: str, enabled: bool, *, by: Actor, keep_operator: bool = False
) -> AccountRow:
    """Enables or disables an account. The keys of a disabled account are refused once this returns. With
    `keep_operator` the last operator with a password is not disabled."""
    account = await find(db, name)

    async def work(connection: Transaction) -> AccountRow:
        await (store.enable if enabled else store.disable)(connection, account.id)
        last = bool(account.operator) and not enabled and not await an_operator_can_sign_in(connection)
        if last and keep_operator:
            raise CommandError(
                "Without {name!r} no operator could sign in to the back office; --force disables it anyway.",
                name=name,
            )
        command = activity.words("account", "enable" if enabled else "disable", name, force=last)
        await activity.record(connection, by, command, account.id)
        return await find(connection, name)

    return await db.transaction(work)


async def set_limits(db: Database, name: str, limits: Given, *, by: Actor) -> None:
    """Sets limits of an account. What is used of them stays. Raises CommandError."""
    account = await find(db, name)
    command = activity.words("account", "limit", name, **as_texts(limits))

    async def work(connection: Transaction) -> None:
        await store.lock(connection, account.id)
        await put_limits(connection, account.id, limits)
        await activity.record(connection, by, command, account.id)

    await db.transaction(work)


def check_details(name: str, email: str) -> None:
    """Raises CommandError if an account can't have this name or e-mail address."""
    _check_name(name)
    _check_line("An email address", email, EMAIL_MAX_CHARS)
    if email and not _EMAIL.fullmatch(email):
        raise CommandError("{email!r} is not an e-mail address, such as name@example.org.", email=email)


def check_memo(memo: str) -> None:
    """Raises CommandError for a memo that the ledger doesn't store."""
    _check_line("A memo", memo, MEMO_MAX_CHARS)


def _check_name(name: str) -> None:
    if not is_name(name, NAME_MAX_CHARS) or name != name.strip():
        raise CommandError(
            "An account needs a name of 1 to {name_max_chars} printable characters, with no space around it.",
            name_max_chars=NAME_MAX_CHARS,
        )


def _check_line(what: str, text: str, chars_max: int) -> None:
    if not is_line(text, chars_max):
        raise CommandError(
            "{what} has at most {chars_max} characters, all of them printable.",
            what=what,
            chars_max=chars_max,
        )


def _check_units(units: int, least: int) -> None:
    if not least <= units <= UNITS_MAX:
        raise CommandError(
            "Units must be a whole number from {least} to {units_max}.", least=least, units_max=UNITS_MAX
        )
