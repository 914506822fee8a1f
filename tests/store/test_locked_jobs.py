"""A row that another process locks for long blocks only operations on it: not reads, not other leases."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest

from myna.errors import StaleLease
from myna.store import postgresql
from myna.store.database import Transaction
from myna.store.postgresql import POOL_MAX
from tests.store.books import AUDIO, Books
from tests.store.stalls import until
from tests.tasks.works import Works, shown, works_on

pytestmark = pytest.mark.anyio

MANY = POOL_MAX + 4
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


@pytest.fixture
async def works(postgres_books: Books) -> AsyncIterator[Works]:
    async with works_on(postgres_books) as opened:
        yield opened


@contextlib.asynccontextmanager
async def locked(books: Books, sql: str) -> AsyncIterator[None]:
    """Another process's open transaction with the locks of this statement."""
    session = await asyncpg.connect(books.url)
    async with session.transaction():
        await session.execute(sql)
        yield
    await session.close()


async def reads_continue(works: Works, asked: Sequence[asyncio.Future[Any]]) -> int:
    """Checks that a read is answered while all these wait for a lock; returns how many sessions wait."""
    watch = await asyncpg.connect(works.books.url)

    async def wait() -> bool:
        return bool(await watch.fetchval(WAITING))

    await until(wait, "a session waits")
    await asyncio.wait_for(works.books.db.fetch("SELECT 1"), 60)
    assert not any(one.done() for one in asked)
    waiting = int(await watch.fetchval(WAITING))
    await watch.close()
    return waiting


async def test_leases_that_wait_for_another_process_leave_connections_to_reads(works: Works) -> None:
    node, holder = await works.node(), await works.books.holder(units=MANY)
    for _ in range(MANY):
        await works.ordered(holder)
    async with locked(works.books, "SELECT pg_advisory_xact_lock(77121111)"):
        leases = [asyncio.ensure_future(works.tasks.lease(node, 1, 0)) for _ in range(MANY)]
        assert await reads_continue(works, leases) == 1
    assert len({job.id for (job,) in await asyncio.gather(*leases)}) == MANY


async def test_ends_that_wait_for_their_account_leave_connections_to_reads(works: Works) -> None:
    node, holder = await works.node(), await works.books.holder(units=MANY)
    for _ in range(MANY):
        await works.ordered(holder)
    jobs = await works.tasks.lease(node, MANY, 0)
    async with locked(works.books, "SELECT id FROM accounts FOR UPDATE"):
        ends = [asyncio.ensure_future(works.tasks.complete(node, shown(job), AUDIO)) for job in jobs]
        assert await reads_continue(works, ends) < POOL_MAX
    assert all(await asyncio.gather(*ends))


async def test_a_node_disabled_during_a_heartbeat_has_no_lease(works: Works) -> None:
    node = await works.node(name="the node")
    call, job = await works.held(node)
    async with locked(works.books, "SELECT id FROM tasks FOR UPDATE"):
        await works.nodes.disable("the node")
    assert await works.status(call) == 1
    assert not await works.beats(node, shown(job))
    with pytest.raises(StaleLease):
        await works.tasks.complete(node, shown(job), AUDIO)


async def test_a_locked_job_is_skipped_for_the_next_one(
    works: Works,
) -> None:
    node, holders = await works.node(), [await works.books.holder() for _ in range(2)]
    for holder in holders:
        await works.ordered(holder, text=holder.name)
    async with locked(works.books, "SELECT id FROM tasks ORDER BY id LIMIT 1 FOR UPDATE"):
        assert (await works.leased(node)).text == holders[1].name


async def test_locks_of_a_stopped_process_are_released(works: Works, monkeypatch: pytest.MonkeyPatch) -> None:
    holds = asyncio.Event()

    async def stand_still(db: Transaction) -> None:
        await db.fetch(db.queue_lock)
        holds.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:  # for the connections of this process alone
        patched.setitem(postgresql.SESSION, "idle_in_transaction_session_timeout", "200")
        stopped = await works.books.open_again()
        while not holds.is_set():  # on a loaded machine the timeout may pass before it has the lock
            standing = asyncio.ensure_future(stopped.transaction(stand_still))
            ready = asyncio.ensure_future(holds.wait())
            await asyncio.wait([standing, ready], return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            if standing.done():
                standing.exception()
    node = await works.node()
    await works.ordered(await works.books.holder())
    assert await asyncio.wait_for(works.leased(node), 60)
    standing.cancel()
    await asyncio.gather(standing, return_exceptions=True)
    await stopped.close()
