"""The time of queries on a long queue."""

import statistics
import time
from collections.abc import Awaitable, Callable

import pytest

from myna.store.queries.farm import capacity, polls, queue
from tests.tasks.test_fairness import many_tasks
from tests.tasks.works import Works

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
async def test_a_lease_on_a_long_queue_is_fast(works: Works, accounts: int) -> None:
    books = works.books
    node, unable = await works.node(), await works.node("another voice")
    for _ in range(accounts):
        holder = await books.holder(units=TASKS // accounts)
        await many_tasks(books, holder, TASKS // accounts)

    lease = await median_ms(lambda: works.tasks.lease(node, 1, 0))
    look = await median_ms(lambda: queue.next_jobs(books.db, unable, 1))
    outlook_ms = await median_ms(lambda: capacity.queued(books.db))

    assert max(lease, look, outlook_ms) < GENEROUS_MS, (lease, look, outlook_ms)


async def test_a_lease_past_many_refused_tasks_is_fast(works: Works) -> None:
    """The refused tasks are the oldest of the queue, so each lease skips them."""
    books = works.books
    node, other = await works.node(), await works.node()
    await many_tasks(books, await books.holder(units=TASKS), TASKS)
    await books.sql(f"UPDATE tasks SET refused_by = ',{node},' WHERE id <= {REFUSED}")

    lease = await median_ms(lambda: works.tasks.lease(node, 1, 0))
    others = await median_ms(lambda: works.tasks.lease(other, 1, 0))
    able = await median_ms(lambda: polls.able(books.db))

    assert max(lease, others, able) < GENEROUS_MS, (lease, others, able)
