"""Notifications: polls and waiters for the end of a task, in the same process and in others."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import asyncpg
import pytest

from myna.farm import polls
from myna.store import notifications
from tests.store.books import AUDIO, Books
from tests.store.stalls import until
from tests.tasks.works import LEASE_MS, Works, failure, shown, works_on

pytestmark = pytest.mark.anyio

T = TypeVar("T")
SOON_S = 60.0
LONG_S = 3600.0
ROUNDS = 10


@pytest.fixture(autouse=True)
def no_query_without_a_notification(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except every 50 ms on SQLite, which has no notifications."""
    monkeypatch.setattr(polls, "CHECK_EVERY_S", LONG_S)
    monkeypatch.setattr(notifications, "POLL_NOTIFIED_S", LONG_S)


@contextlib.asynccontextmanager
async def another_process(works: Works) -> AsyncIterator[Works]:
    """The parts of another server on PostgreSQL, of the command line on SQLite."""
    books = Books(works.books.url, works.books.folder)
    books.db = await works.books.open_again(serving=False)
    async with works_on(books) as other:
        yield other
    await books.db.close()


async def result_after(waiting: Awaitable[T], happen: Awaitable[object]) -> T:
    """Starts `waiting`, runs `happen` and returns the result of `waiting`."""
    heard = asyncio.ensure_future(waiting)
    await asyncio.wait([heard], timeout=0.03)
    assert not heard.done()
    await happen
    return await asyncio.wait_for(heard, SOON_S)


async def test_a_new_task_notifies_polls_of_the_same_process(works: Works) -> None:
    node, holder = await works.node(), await works.books.holder(units=ROUNDS)

    async def order() -> None:
        await works.ordered(holder)
        works.tasks.notify_nodes()

    for _ in range(ROUNDS):
        await result_after(works.tasks.lease(node, 1, LONG_S), order())


async def test_a_new_task_notifies_polls_of_another_process(works: Works) -> None:
    """On SQLite the other process is the command line, which sends no notification."""
    node, holder = await works.node(), await works.books.holder(units=ROUNDS)
    async with another_process(works) as other:
        for _ in range(ROUNDS):
            await result_after(works.tasks.lease(node, 1, LONG_S), other.ordered(holder))


async def test_a_new_voice_notifies_polls(works: Works) -> None:
    node, holder = await works.node(clones=["zh"]), await works.books.holder()
    async with another_process(works) as other:
        (job,) = await result_after(works.tasks.lease(node, 1, LONG_S), other.clone(holder))
    assert job.kind == "clone"


async def test_a_returned_job_notifies_polls_of_every_process(works: Works) -> None:
    node, waiting = await works.node(), await works.node()
    _, job = await works.held(node)
    async with another_process(works) as other:
        for at in (works, other):
            (again,) = await result_after(
                at.tasks.lease(waiting, 1, LONG_S), works.tasks.fail(node, failure(job, handed_back=True))
            )
            await works.tasks.fail(waiting, failure(again, handed_back=True))
            await works.end_cooldown(waiting)
            job = await works.leased(node)


async def test_an_expired_lease_notifies_polls_of_every_process(works: Works) -> None:
    node, waiting = await works.node(), await works.node()
    async with another_process(works) as other:
        for at in (works, other):
            await works.held(node)
            await works.books.move_clock(LEASE_MS + 1)
            (again,) = await result_after(at.tasks.lease(waiting, 1, LONG_S), works.sweep_leases())
            await works.tasks.complete(waiting, shown(again), AUDIO)


@pytest.mark.parametrize("completed", [True, False])
async def test_the_end_of_a_task_notifies_its_waiters_in_every_process(works: Works, completed: bool) -> None:
    node = await works.node()
    async with another_process(works) as other:
        for at in (works, other):
            _, job = await works.held(node)
            how = failure(job, final=True)
            end = works.tasks.complete(node, shown(job), AUDIO) if completed else works.tasks.fail(node, how)
            row = await result_after(at.tasks.wait_for_end(job.id, LONG_S), end)
            assert row is not None
            assert (row.status, row.audio) == ((2, AUDIO.name) if completed else (3, ""))


async def test_a_refund_notifies_waiters_of_the_task(works: Works) -> None:
    node = await works.node()
    call, job = await works.held(node)
    refund = works.desk.ledger.refund_all({call.call_id: "too late"})
    row = await result_after(works.tasks.wait_for_end(job.id, LONG_S), refund)
    assert row is not None
    assert row.status == 3


async def test_a_poll_without_a_job_ends_at_its_timeout(works: Works) -> None:
    node = await works.node()
    began = time.monotonic()
    assert await works.tasks.lease(node, 1, 0.2) == []
    assert 0.2 <= time.monotonic() - began < SOON_S


async def test_closing_ends_all_waiters(works: Works) -> None:
    node = await works.node()
    _, job = await works.held(node)
    leasing = asyncio.ensure_future(works.tasks.lease(node, 1, LONG_S))
    waiting = asyncio.ensure_future(works.tasks.wait_for_end(job.id, LONG_S))
    await asyncio.wait([leasing, waiting], timeout=0.05)
    await works.tasks.close()
    assert await asyncio.wait_for(asyncio.gather(leasing, waiting), SOON_S) == [[], None]


async def test_a_disconnected_listener_reconnects(postgres_works: Works) -> None:
    works = postgres_works
    node, holder = await works.node(), await works.books.holder()
    listeners = (
        "FROM pg_stat_activity WHERE application_name = 'myna-listener' AND datname = current_database()"
    )
    hand = await asyncpg.connect(works.books.url)

    async def listening() -> bool:
        return await hand.fetchval(f"SELECT count(*) {listeners} AND wait_event = 'ClientRead'") == 2

    await until(listening, "both listeners have connected")
    before = {row[0] for row in await hand.fetch(f"SELECT pid {listeners}")}
    await hand.execute(f"SELECT pg_terminate_backend(pid) {listeners}")

    async def others_listen() -> bool:
        now = {row[0] for row in await hand.fetch(f"SELECT pid {listeners} AND query LIKE 'LISTEN%'")}
        return len(now) == 2 and not now & before

    await until(others_listen, "both listeners have reconnected")
    await hand.close()
    async with another_process(works) as other:
        await result_after(works.tasks.lease(node, 1, LONG_S), other.ordered(holder))
