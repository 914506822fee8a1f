"""Passwords whose hashes cost little, and books that no audit reads: nothing here touches a ledger."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Iterable
from pathlib import Path
from typing import TypeVar

import argon2
import pytest

from myna.accounts.activity import Actor
from myna.accounts.sign_in import passwords
from myna.actions.accounts import AddAccount, SetPassword
from myna.store.queries.accounts import AccountRow
from tests.rig.actors import perform
from tests.store.books import Books, books_of

FAST = argon2.PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
REAL = passwords.HASHER
REAL_DUMMY = passwords.DUMMY_HASH


@pytest.fixture(autouse=True)
def fast_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passwords, "HASHER", FAST)
    monkeypatch.setattr(passwords, "DUMMY_HASH", f"$argon2id$v=19$m=8,t=1,p=1${'A' * 22}${'A' * 43}")


@pytest.fixture
def real_hashes(fast_hashes: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a test of the parameters themselves."""
    monkeypatch.setattr(passwords, "HASHER", REAL)
    monkeypatch.setattr(passwords, "DUMMY_HASH", REAL_DUMMY)


@pytest.fixture(scope="session")
def empty_sqlite(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A database file with the schema."""
    folder = tmp_path_factory.mktemp("empty")

    async def make() -> None:
        async with books_of("", folder):
            pass

    asyncio.run(make())
    return (folder / "myna.sqlite").read_bytes()


@contextlib.asynccontextmanager
async def _opened(url: str, folder: Path, empty_sqlite: bytes) -> AsyncIterator[Books]:
    made = Books(url, folder)
    if not url:
        file = folder / "myna.sqlite"
        file.touch(0o600)
        file.write_bytes(empty_sqlite)
    made.db = await made.open_again()
    try:
        yield made
    finally:
        await made.db.close()


@pytest.fixture
async def books(database_url: str, tmp_path: Path, empty_sqlite: bytes) -> AsyncIterator[Books]:
    async with _opened(database_url, tmp_path, empty_sqlite) as opened:
        yield opened


@pytest.fixture
async def sqlite_books(tmp_path: Path, empty_sqlite: bytes) -> AsyncIterator[Books]:
    async with _opened("", tmp_path, empty_sqlite) as opened:
        yield opened


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
