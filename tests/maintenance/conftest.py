"""A serving process without its periodic jobs."""

from pathlib import Path

import pytest

from myna.server.service import Service
from tests.maintenance.serving import service_on
from tests.store.books import Books


@pytest.fixture
async def service(books: Books, tmp_path: Path) -> Service:
    return await service_on(books.db, tmp_path)
