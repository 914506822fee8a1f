"""Fresh books on each of the two databases, and the works of one process on them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.rig.postgres import Postgres
from tests.store.books import Books, books_of
from tests.tasks.works import Works, works_on


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
async def works(books: Books) -> AsyncIterator[Works]:
    async with works_on(books) as opened:
        yield opened


@pytest.fixture
async def postgres_books(postgres: Postgres, tmp_path: Path) -> AsyncIterator[Books]:
    url = postgres.fresh_database()
    async with books_of(url, tmp_path) as opened:
        yield opened
    postgres.drop(url)


@pytest.fixture
async def postgres_works(postgres_books: Books) -> AsyncIterator[Works]:
    async with works_on(postgres_books) as opened:
        yield opened
