"""Who waits for a job or for the end of one hears of it at once, whoever brought it about."""

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
def no_look_without_a_notification(monkeypatch: pytest.MonkeyPatch) -> None:
    """But every 50 ms where the database notifies nobody, which is SQLite."""
    monkeypatch.setattr(polls, "CHECK_EVERY_S", LONG_S)
    monkeypatch.setattr(notifications, "POLL_NOTIFIED_S", LONG_S)


@contextlib.asynccontextmanager
async def another_process(works: Works) -> AsyncIterator[Works]:
    """The works of another server on PostgreSQL, of the command line on SQLite."""
    books = Books(works.books.url, works.books.folder)
    books.db = await works.books.open_again(serving=False)
    async with works_on(books) as other:
        yield other
    await books.db.close()


async def wakes(waiting: Awaitable[T], happen: Awaitable[object]) -> T:
    """What the waiting coroutine returned after `happen` did."""
    heard = asyncio.ensure_future(waiting)
    await asyncio.wait([heard], timeout=0.03)
    assert not heard.done()
    await happen
    return await asyncio.wait_for(heard, SOON_S)


async def test_a_new_task_wakes_a_lease_that_waits_in_the_same_process(works: Works) -> None:
    node, holder = await works.node(), await works.books.holder(units=ROUNDS)

    async def order() -> None:
        await works.ordered(holder)
        works.tasks.notify_nodes()

    for _ in range(ROUNDS):
        await wakes(works.tasks.lease(node, 1, LONG_S), order())


async def test_a_new_task_wakes_a_lease_that_waits_in_another_process(works: Works) -> None:
    """On SQLite the other process is the command line, of which nobody tells."""
    node, holder = await works.node(), await works.books.holder(units=ROUNDS)
    async with another_process(works) as other:
        for _ in range(ROUNDS):
            await wakes(works.tasks.lease(node, 1, LONG_S), other.ordered(holder))


async def test_a_voice_to_be_made_wakes_a_lease_too(works: Works) -> None:
    node, holder = await works.node(clones=["zh"]), await works.books.holder()
    async with another_process(works) as other:
        (job,) = await wakes(works.tasks.lease(node, 1, LONG_S), other.clone(holder))
    assert job.kind == "clone"


async def test_a_job_that_is_handed_back_wakes_a_lease_in_every_process(works: Works) -> None:
    node, waiting = await works.node(), await works.node()
    _, job = await works.held(node)
    async with another_process(works) as other:
        for at in (works, other):
            (again,) = await wakes(
                at.tasks.lease(waiting, 1, LONG_S), works.tasks.fail(node, failure(job, handed_back=True))
            )
            await works.tasks.fail(waiting, failure(again, handed_back=True))
            await works.rested(waiting)
            job = await works.leased(node)


async def test_a_lease_that_ran_out_wakes_another_in_every_process(works: Works) -> None:
    node, waiting = await works.node(), await works.node()
    async with another_process(works) as other:
        for at in (works, other):
            await works.held(node)
            await works.books.move_clock(LEASE_MS + 1)
            (again,) = await wakes(at.tasks.lease(waiting, 1, LONG_S), works.look_after_leases())
            await works.tasks.complete(waiting, shown(again), AUDIO)


@pytest.mark.parametrize("completed", [True, False])
async def test_the_end_of_a_task_wakes_who_waits_for_it_in_every_process(
    works: Works, completed: bool
) -> None:
    node = await works.node()
    async with another_process(works) as other:
        for at in (works, other):
            _, job = await works.held(node)
            how = failure(job, final=True)
            end = works.tasks.complete(node, shown(job), AUDIO) if completed else works.tasks.fail(node, how)
            row = await wakes(at.tasks.wait_for_end(job.id, LONG_S), end)
            assert row is not None
            assert (row.status, row.audio) == ((2, AUDIO.name) if completed else (3, ""))


async def test_a_refund_by_the_clock_wakes_who_waits_for_the_task(works: Works) -> None:
    node = await works.node()
    call, job = await works.held(node)
    refund = works.desk.ledger.refund_all({call.call_id: "too late"})
    row = await wakes(works.tasks.wait_for_end(job.id, LONG_S), refund)
    assert row is not None
    assert row.status == 3


async def test_a_lease_that_finds_nothing_ends_in_its_time(works: Works) -> None:
    node = await works.node()
    began = time.monotonic()
    assert await works.tasks.lease(node, 1, 0.2) == []
    assert 0.2 <= time.monotonic() - began < SOON_S


async def test_the_end_of_the_process_ends_all_who_wait(works: Works) -> None:
    node = await works.node()
    _, job = await works.held(node)
    leasing = asyncio.ensure_future(works.tasks.lease(node, 1, LONG_S))
    waiting = asyncio.ensure_future(works.tasks.wait_for_end(job.id, LONG_S))
    await asyncio.wait([leasing, waiting], timeout=0.05)
    await works.tasks.close()
    assert await asyncio.wait_for(asyncio.gather(leasing, waiting), SOON_S) == [[], None]


async def test_a_listener_that_was_cut_off_listens_again(postgres_works: Works) -> None:
    works = postgres_works
    node, holder = await works.node(), await works.books.holder()
    listeners = (
        "FROM pg_stat_activity WHERE application_name = 'myna-listener' AND datname = current_database()"
    )
    hand = await asyncpg.connect(works.books.url)

    async def listening() -> bool:
        return await hand.fetchval(f"SELECT count(*) {listeners} AND wait_event = 'ClientRead'") == 2

    await until(listening, "both bells listen")
    before = {row[0] for row in await hand.fetch(f"SELECT pid {listeners}")}
    await hand.execute(f"SELECT pg_terminate_backend(pid) {listeners}")

    async def others_listen() -> bool:
        now = {row[0] for row in await hand.fetch(f"SELECT pid {listeners} AND query LIKE 'LISTEN%'")}
        return len(now) == 2 and not now & before

    await until(others_listen, "both listen again")
    await hand.close()
    async with another_process(works) as other:
        await wakes(works.tasks.lease(node, 1, LONG_S), other.ordered(holder))
