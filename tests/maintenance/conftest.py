"""A serving process without its periodic jobs, on the books of a test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from myna.billing.ledger import DEADLINE_MARGIN_S
from myna.config import ConfigCache
from myna.server.service import Service
from myna.settings import Settings
from myna.store.database import Database
from tests.store.books import Books

AUDIT_EVERY_S = 60.0


async def service_on(db: Database, folder: Path, **environ: str) -> Service:
    settings = Settings(data=str(folder), chat_url="parrot:", speech="none", audit_every_s=AUDIT_EVERY_S)
    return Service(
        settings=settings,
        environ=environ,
        db=db,
        config=await ConfigCache.read(db),
        commits=Service.commits_of(db, settings),
    )


@pytest.fixture
async def service(books: Books) -> AsyncIterator[Service]:
    """Only the group commit is started."""
    made = await service_on(books.db, books.folder)
    made.commits.start()
    yield made
    await made.jobs.close()
    await made.commits.close(DEADLINE_MARGIN_S)
