"""A ledger of one process."""

from collections.abc import AsyncIterator

import pytest

from tests.ledger.ledger_service import LedgerService, ledger_service_on
from tests.store.books import Books


@pytest.fixture
async def service(books: Books) -> AsyncIterator[LedgerService]:
    async with ledger_service_on(books.db) as opened:
        yield opened
