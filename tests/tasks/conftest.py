"""The parts of one process, on the database of the test or on PostgreSQL."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.store.books import Books
from tests.tasks.task_service import TaskService, task_service_on


@pytest.fixture
async def service(books: Books) -> AsyncIterator[TaskService]:
    async with task_service_on(books) as opened:
        yield opened


@pytest.fixture
async def postgres_service(postgres_books: Books) -> AsyncIterator[TaskService]:
    async with task_service_on(postgres_books) as opened:
        yield opened


@pytest.fixture
def transactions(service: TaskService, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The transactions of the service until now."""
    found: list[object] = []
    run = service.db.transaction

    async def noted(work: Any) -> Any:
        found.append(work)
        return await run(work)

    monkeypatch.setattr(service.db, "transaction", noted)
    return found
