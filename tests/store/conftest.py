"""Both databases, with one PostgreSQL database and event loop for the folder, not one for each file."""

from collections.abc import AsyncIterator

import pytest

from tests.rig.postgres import Postgres
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
