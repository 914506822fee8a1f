"""Both databases, with one PostgreSQL database and event loop for the folder, not one for each file."""

from collections.abc import AsyncIterator

import pytest

from myna.store.postgresql_batch import BatchWriter, LockPolicy
from myna.store.schema import SchemaWatch
from tests.rig.postgres import Postgres
from tests.store.books import Books
from tests.store.reused import ReusedBooks


@pytest.fixture(scope="package")
async def reused_postgres(anyio_backend: str, postgres: Postgres) -> AsyncIterator[ReusedBooks]:
    reused = ReusedBooks(postgres)
    await reused.open()
    yield reused
    await reused.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def dialect(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def writer(new_postgres_books: Books) -> AsyncIterator[BatchWriter]:
    made = BatchWriter(new_postgres_books.url, "a writer", LockPolicy.NONE, SchemaWatch("postgresql"))
    yield made
    await made.drop()


async def scans(writer: BatchWriter) -> dict[str, tuple[int, int]]:
    """The number of scans of each index of the writer's database, and of entries that they returned."""
    raw = await writer.connection()
    await raw.fetch("SELECT pg_stat_force_next_flush()")
    rows = await raw.fetch("SELECT indexrelname, idx_scan, idx_tup_read FROM pg_stat_user_indexes")
    return {name: (asked, read) for name, asked, read in rows}
