"""One process runs an audit when it is due, and the metrics of every process show its result."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from myna.config import ConfigCache
from myna.service import Service
from myna.settings import Settings
from myna.store.queries import audit_state
from myna.telemetry import metrics
from tests.store.books import Books, keep_of

pytestmark = pytest.mark.anyio

EVERY_S = 60.0


@pytest.fixture
async def service(books: Books, tmp_path: Path) -> AsyncIterator[Service]:
    settings = Settings(data=str(tmp_path), chat_url="parrot:", speech="none", audit_every_s=EVERY_S)
    yield Service(
        settings=settings,
        environ={},
        db=books.db,
        config=await ConfigCache.read(books.db),
        commits=Service.commits_of(books.db, settings),
    )


async def test_an_audit_runs_when_due_and_sets_the_metrics(books: Books, service: Service) -> None:
    await books.end(keep_of(await books.opened(await books.customer(units=5))))
    await books.move_clock(1)  # the call's id is below the fence
    await service.jobs.audit()
    assert await audit_metrics() == (0, 1, 2)
    first = await audit_state.state(books.db)
    assert abs(metrics.AUDIT_TIME._value.get() - first.audited_at / 1000) < 0.001

    await books.sql("UPDATE accounts SET balance = 9")
    await service.jobs.audit()  # not due yet
    assert (await audit_state.state(books.db)).audited_at == first.audited_at
    assert await audit_metrics() == (0, 1, 2)

    await books.move_clock(int(EVERY_S * 1000) + 1)
    await service.jobs.audit()
    assert await audit_metrics() == (1, 0, 0)
    await books.sql("UPDATE accounts SET balance = 4")


async def test_metrics_show_the_audit_of_another_process(books: Books, service: Service) -> None:
    counted = '{"calls": 7, "entries": 8}'
    await books.db.transaction(lambda connection: audit_state.finish(connection, 3, counted))
    await service.jobs.audit()
    assert await audit_metrics() == (3, 7, 8)


async def audit_metrics() -> tuple[float, float, float]:
    """Breaches, calls and entries of the last audit in the metrics."""
    checked = [metrics.AUDIT_CHECKED.labels(kind)._value.get() for kind in ("calls", "entries")]
    return (metrics.AUDIT_BREACHES._value.get(), checked[0], checked[1])
