"""Fresh books on each of the two databases, and a ledger of one process on them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.ledger.desk import Desk, desk_on
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
async def desk(books: Books) -> AsyncIterator[Desk]:
    async with desk_on(books.db) as opened:
        yield opened
