"""Books: on SQLite, and on PostgreSQL where marked `each_database` or where a folder overrides `dialect`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.rig.postgres import Postgres
from tests.store.books import Books, books_of
from tests.store.reused import ReusedBooks

each_database = pytest.mark.parametrize("dialect", ["sqlite", "postgresql"], indirect=True)


@pytest.fixture(params=["sqlite"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def database_url(dialect: str, request: pytest.FixtureRequest) -> str:
    """Empty for SQLite; a new PostgreSQL database has the schema."""
    return "" if dialect == "sqlite" else str(request.getfixturevalue("postgres_books_url"))


@pytest.fixture(scope="module")
async def reused_postgres(anyio_backend: str, postgres: Postgres) -> AsyncIterator[ReusedBooks]:
    reused = ReusedBooks(postgres)
    await reused.open()
    yield reused
    await reused.close()


@pytest.fixture
def reused_books(dialect: str, request: pytest.FixtureRequest) -> ReusedBooks | None:
    return None if dialect == "sqlite" else request.getfixturevalue("reused_postgres")


@pytest.fixture
async def books(reused_books: ReusedBooks | None, tmp_path: Path) -> AsyncIterator[Books]:
    """Equal to new ones, but PostgreSQL's database and pool may have been another test's."""
    async with books_of("", tmp_path) if reused_books is None else reused_books.lent(tmp_path) as opened:
        yield opened


@pytest.fixture
async def damaged_books(reused_books: ReusedBooks | None, tmp_path: Path) -> AsyncIterator[Books]:
    """The same for a test that damages them."""
    lent = books_of("", tmp_path, damaged=True)
    if reused_books is not None:
        lent = reused_books.lent(tmp_path, damaged=True)
    async with lent as opened:
        yield opened


@pytest.fixture
async def sqlite_books(tmp_path: Path) -> AsyncIterator[Books]:
    async with books_of("", tmp_path) as opened:
        yield opened


@pytest.fixture
async def postgres_books(reused_postgres: ReusedBooks, tmp_path: Path) -> AsyncIterator[Books]:
    async with reused_postgres.lent(tmp_path) as opened:
        yield opened


@pytest.fixture
async def new_postgres_books(postgres_books_url: str, tmp_path: Path) -> AsyncIterator[Books]:
    """For tests that count pages or plans, or change the settings of the database or of its sessions."""
    async with books_of(postgres_books_url, tmp_path) as opened:
        yield opened
