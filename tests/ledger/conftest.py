"""A ledger of one process, on each of the two databases."""

from collections.abc import AsyncIterator

import pytest

from tests.ledger.desk import Desk, desk_on
from tests.store.books import Books


@pytest.fixture
async def desk(books: Books) -> AsyncIterator[Desk]:
    async with desk_on(books.db) as opened:
        yield opened
