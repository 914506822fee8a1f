"""One-time links, with which a person sets a password without having one.

`first` creates the account of the first operator; `invite` sets the first password of an account, `reset` a
new one. A link is valid once and until it expires. A newer one for the same account and purpose replaces it,
and so does a password that is set. Its token is in the query of the address, which no log contains.
"""

from enum import StrEnum
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct

from myna.accounts import accounts, activity
from myna.accounts.activity import Actor
from myna.accounts.sign_in import passwords, sessions
from myna.errors import CommandError
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import accounts as account_store
from myna.store.queries import sign_in as store
from myna.store.queries.accounts import AccountRow

PATH: Final = "/office/welcome"
_MINUTE_MS = 60_000
_USED = "the link was used to set the password"
NOT_VALID = "This link was used, was replaced or has expired; ask for a new one."


class Purpose(StrEnum):
    """What a link is for."""

    FIRST = "first"
    INVITE = "invite"
    RESET = "reset"


LIFE_MS: Final = {
    Purpose.FIRST: 15 * _MINUTE_MS,
    Purpose.INVITE: 3 * 24 * 60 * _MINUTE_MS,
    Purpose.RESET: 60 * _MINUTE_MS,
}
"""How long links are valid."""


class Link(Struct, frozen=True):
    """A link that can be used. `account` is None for the first operator's. Time in Unix ms."""

    purpose: Purpose
    account: AccountRow | None
    expires_at: int


class NewAccount(Struct, frozen=True):
    """The name and e-mail address that the first operator chooses."""

    name: str
    email: str = ""


def url(base_url: str, token: str) -> str:
    """The address of a link. `base_url` is that of the settings."""
    return f"{base_url}{PATH}?{urlencode({'token': token})}"


async def create_first(db: Database) -> str:
    """Creates a link for the first operator and returns its token, which is not stored. Raises CommandError
    if an operator can sign in."""

    async def work(connection: Transaction) -> str:
        if await store.an_operator_can_sign_in(connection):
            raise CommandError("There already is an operator who can sign in.")
        return await _put(connection, Purpose.FIRST, 0)

    return await db.transaction(work)


async def first_is_needed(db: Queries) -> bool:
    """Whether no operator can sign in."""
    return not await store.an_operator_can_sign_in(db)


async def create(connection: Transaction, purpose: Purpose, account: AccountRow) -> str:
    """Creates a link for a locked account, likewise. Raises CommandError if the account is disabled, or if it
    has a password and is to be invited, or has none to reset."""
    name, has_password = account.name, await passwords.has_one(connection, account.id)
    if account.disabled_at:
        raise CommandError("The account {name!r} is disabled; enable it first.", name=name)
    if purpose is Purpose.INVITE and has_password:
        raise CommandError("{name!r} has a password already; reset it instead.", name=name)
    if purpose is Purpose.RESET and not has_password:
        raise CommandError("{name!r} has no password yet; invite its holder instead.", name=name)
    return await _put(connection, purpose, account.id)


async def find(db: Queries, token: str) -> Link | None:
    """The link of this token; None if it can't be used."""
    row = await store.link_by_token(db, sessions.hash_of(token))
    if row is None:
        return None
    purpose = Purpose(row.purpose)
    if purpose is Purpose.FIRST:
        taken = await store.an_operator_can_sign_in(db)
        return None if taken else Link(purpose, None, row.expires_at)
    found = await store.password_of(db, row.account_id)
    if found is None or found.account.disabled_at:
        return None
    return Link(purpose, found.account, row.expires_at)


async def consume(
    db: Database,
    token: str,
    plain: str,
    *,
    address: str,
    user_agent: str,
    new: NewAccount | None = None,
) -> str:
    """Uses a link: sets the password, ends the account's sessions and opens one, in one transaction. Returns
    the token of the session, which is pending if the account has a second factor.

    `new` is the account to create with a link of the first operator. Raises CommandError: a link that is
    refused for its password or name can be used again. This is no action: who makes the change is known only
    when the transaction has taken the link.
    """
    link = await find(db, token)
    if link is None:
        raise CommandError(NOT_VALID)
    owner = link.account or new
    if owner is None:
        raise CommandError("The first operator needs a name.")
    if link.account is None:
        accounts.check_details(owner.name, owner.email)
    password_hash = await passwords.new_hash(plain, name=owner.name, email=owner.email)

    async def work(connection: Transaction) -> str:
        if link.account is not None:
            await account_store.lock(connection, link.account.id)
        if await store.take_link(connection, sessions.hash_of(token)) is None:
            raise CommandError(NOT_VALID)
        account_id = link.account.id if link.account else await _first_operator(connection, owner)
        await passwords.replace(connection, account_id, password_hash)
        by = Actor(account_id=account_id, name=owner.name, address=address)
        note = "" if link.purpose is Purpose.FIRST else _USED
        await activity.record(connection, by, _command(link.purpose, owner), account_id, note=note)
        return await sessions.open_in(connection, account_id, address, user_agent)

    return await db.transaction(work)


async def _put(connection: Transaction, purpose: Purpose, account_id: int) -> str:
    token = sessions.new_token(sessions.LINK_PREFIX)
    await store.put_link(connection, sessions.hash_of(token), purpose.value, account_id, LIFE_MS[purpose])
    return token


async def _first_operator(connection: Transaction, new: AccountRow | NewAccount) -> int:
    if await store.an_operator_can_sign_in(connection):
        raise CommandError(NOT_VALID)
    account_id = await account_store.insert(connection, new.name, new.email, operator=True)
    if account_id is None:
        raise CommandError("There already is an account {name!r}.", name=new.name)
    return account_id


def _command(purpose: Purpose, owner: AccountRow | NewAccount) -> list[str]:
    if purpose is Purpose.FIRST:
        return activity.words("account", "add", owner.name, email=owner.email or None, operator=True)
    return activity.words("account", purpose.value, owner.name)
