"""People who sign in, on books."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import TypeVar

from myna.accounts.activity import Actor
from myna.accounts.sign_in import passwords
from myna.actions.accounts import AddAccount, SetPassword
from myna.store.queries.accounts import AccountRow
from tests.rig.actors import perform
from tests.store.books import Books

T = TypeVar("T")

PASSWORD = "plum anchor velvet 47"
OTHER_PASSWORD = "quiet lantern over 9 hills"
ADDRESS = "192.0.2.7"
ELSEWHERE = "198.51.100.9"
BROWSER = "Firefox"
OPERATOR = Actor(account_id=0, name="root", address="")


async def person(
    books: Books, name: str = "ann", *, email: str = "", operator: bool = False, password: str = PASSWORD
) -> AccountRow:
    """An account; with the empty password one that can't sign in."""
    account = await perform(books.db, AddAccount(name=name, email=email, operator=operator))
    if password:
        await set_password(books, name, password)
    return account


async def set_password(books: Books, name: str, password: str, by: Actor = OPERATOR) -> None:
    """Sets the password of an account, as its page does."""
    hashed = await passwords.new_hash(password, name=name, email="")
    await perform(books.db, SetPassword(name=name, password_hash=hashed), by=by)


async def at_once(work: Iterable[Awaitable[T]]) -> tuple[list[T], list[BaseException]]:
    """The results and the errors of work that runs at the same time."""
    done: list[T] = []
    failed: list[BaseException] = []
    for result in await asyncio.gather(*work, return_exceptions=True):
        if isinstance(result, BaseException):
            failed.append(result)
        else:
            done.append(result)
    return done, failed
