"""Fresh books, on each of the two databases or on one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.store.books import Books, books_of


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> str:
    """Empty for SQLite; a PostgreSQL database has the schema."""
    if request.param == "sqlite":
        return ""
    return str(request.getfixturevalue("postgres_books_url"))


@pytest.fixture
async def books(database_url: str, tmp_path: Path) -> AsyncIterator[Books]:
    async with books_of(database_url, tmp_path) as opened:
        yield opened


@pytest.fixture
async def sqlite_books(tmp_path: Path) -> AsyncIterator[Books]:
    async with books_of("", tmp_path) as opened:
        yield opened


@pytest.fixture
async def postgres_books(postgres_books_url: str, tmp_path: Path) -> AsyncIterator[Books]:
    async with books_of(postgres_books_url, tmp_path) as opened:
        yield opened
