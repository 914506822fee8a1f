"""Passwords whose hashes cost little, and books that no audit reads: nothing here touches a ledger."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import argon2
import pytest

from myna.accounts.sign_in import passwords
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
