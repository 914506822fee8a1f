"""The parts of one process, on each database or on PostgreSQL only."""

from collections.abc import AsyncIterator

import pytest

from tests.store.books import Books
from tests.tasks.works import Works, works_on


@pytest.fixture
async def works(books: Books) -> AsyncIterator[Works]:
    async with works_on(books) as opened:
        yield opened


@pytest.fixture
async def postgres_works(postgres_books: Books) -> AsyncIterator[Works]:
    async with works_on(postgres_books) as opened:
        yield opened
