"""Fresh books, on each of the two databases or on one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.rig.postgres import Postgres
from tests.store.books import Books, books_of


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Empty for SQLite."""
    if request.param == "sqlite":
        return ""
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
async def books(database_url: str, tmp_path: Path) -> AsyncIterator[Books]:
    async with books_of(database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
async def sqlite_books(tmp_path: Path) -> AsyncIterator[Books]:
    async with books_of("", tmp_path) as opened:
        yield opened


@pytest.fixture
async def postgres_books(postgres: Postgres, tmp_path: Path) -> AsyncIterator[Books]:
    url = postgres.fresh_database()
    async with books_of(url, tmp_path) as opened:
        yield opened
    postgres.drop(url)
