"""The time of queries on a long queue."""

import statistics
import time
from collections.abc import Awaitable, Callable

import pytest

from myna.store.queries.farm import capacity, polls, queue
from tests.tasks.task_service import TaskService
from tests.tasks.test_fairness import many_tasks

pytestmark = pytest.mark.anyio

TASKS = 10_000
REFUSED = 1_000
ROUNDS = 25
GENEROUS_MS = 500.0
"""An idle machine needs less than 5 ms; a loaded one is many times slower."""


async def median_ms(work: Callable[[], Awaitable[object]]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await work()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1000


@pytest.mark.parametrize("accounts", [1, 100])
async def test_a_lease_on_a_long_queue_is_fast(service: TaskService, accounts: int) -> None:
    books = service.books
    node, unable = await service.node(), await service.node("another voice")
    for _ in range(accounts):
        customer = await books.customer(units=TASKS // accounts)
        await many_tasks(books, customer, TASKS // accounts)

    lease = await median_ms(lambda: service.tasks.lease(node, 1, 0))
    next_job_ms = await median_ms(lambda: queue.next_jobs(books.db, unable, 1))
    capacity_ms = await median_ms(lambda: capacity.queued(books.db))

    assert max(lease, next_job_ms, capacity_ms) < GENEROUS_MS, (lease, next_job_ms, capacity_ms)


async def test_a_lease_past_many_refused_tasks_is_fast(service: TaskService) -> None:
    """The refused tasks are the oldest of the queue, so each lease skips them."""
    books = service.books
    node, other = await service.node(), await service.node()
    await many_tasks(books, await books.customer(units=TASKS), TASKS)
    await books.sql(f"UPDATE tasks SET refused_by = ',{node},' WHERE id <= {REFUSED}")

    lease = await median_ms(lambda: service.tasks.lease(node, 1, 0))
    others = await median_ms(lambda: service.tasks.lease(other, 1, 0))
    able = await median_ms(lambda: polls.able(books.db))

    assert max(lease, others, able) < GENEROUS_MS, (lease, others, able)
