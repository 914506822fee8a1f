"""A row that another process locks for long blocks only operations on it: not reads, not other leases."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg
import pytest

from myna.actions.site import DisableNode
from myna.errors import StaleLease
from myna.settings import POSTGRESQL_CONNECTIONS
from myna.store import postgresql
from myna.store.database import Transaction
from myna.store.postgresql_session import shares
from tests.rig.actors import perform
from tests.store.books import AUDIO, Books
from tests.store.stalls import until
from tests.tasks.task_service import TaskService, proof_of, task_service_on

pytestmark = pytest.mark.anyio

POOL = shares(POSTGRESQL_CONNECTIONS).pool
MANY = POOL + 4
WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


@pytest.fixture
async def service(postgres_books: Books) -> AsyncIterator[TaskService]:
    async with task_service_on(postgres_books) as opened:
        yield opened


@contextlib.asynccontextmanager
async def locked(books: Books, sql: str) -> AsyncIterator[None]:
    """Another process's open transaction with the locks of this statement."""
    session = await asyncpg.connect(books.url)
    async with session.transaction():
        await session.execute(sql)
        yield
    await session.close()


async def reads_continue(service: TaskService, asked: Sequence[asyncio.Future[Any]]) -> int:
    """Checks that a read is answered while all these wait for a lock; returns how many sessions wait."""
    watch = await asyncpg.connect(service.books.url)

    async def wait() -> bool:
        return bool(await watch.fetchval(WAITING))

    await until(wait, "a session waits")
    await asyncio.wait_for(service.books.db.fetch("SELECT 1"), 60)
    assert not any(one.done() for one in asked)
    waiting = int(await watch.fetchval(WAITING))
    await watch.close()
    return waiting


async def test_leases_that_wait_for_another_process_leave_connections_to_reads(service: TaskService) -> None:
    node, customer = await service.node(), await service.books.customer(units=MANY)
    for _ in range(MANY):
        await service.ordered(customer)
    async with locked(service.books, "SELECT pg_advisory_xact_lock(77121111)"):
        leases = [asyncio.ensure_future(service.tasks.lease(node, 1, 0)) for _ in range(MANY)]
        assert await reads_continue(service, leases) == 1
    assert len({job.id for (job,) in await asyncio.gather(*leases)}) == MANY


async def test_ends_that_wait_for_their_account_leave_connections_to_reads(service: TaskService) -> None:
    node, customer = await service.node(), await service.books.customer(units=MANY)
    for _ in range(MANY):
        await service.ordered(customer)
    jobs = await service.tasks.lease(node, MANY, 0)
    async with locked(service.books, "SELECT id FROM accounts FOR UPDATE"):
        ends = [asyncio.ensure_future(service.tasks.complete(node, proof_of(job), AUDIO)) for job in jobs]
        assert await reads_continue(service, ends) < POOL
    assert all(await asyncio.gather(*ends))


async def test_a_node_disabled_during_a_heartbeat_has_no_lease(service: TaskService) -> None:
    node = await service.node(name="the node")
    call, job = await service.lease_new(node)
    async with locked(service.books, "SELECT id FROM tasks FOR UPDATE"):
        await perform(service.nodes.db, DisableNode(name="the node"))
    assert await service.status(call) == 1
    assert not await service.beats(node, proof_of(job))
    with pytest.raises(StaleLease):
        await service.tasks.complete(node, proof_of(job), AUDIO)


async def test_locks_of_a_stopped_process_are_released(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock_taken = asyncio.Event()

    async def keep_lock(db: Transaction) -> None:
        await db.fetch(db.queue_lock)
        lock_taken.set()
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:  # for the connections of this process alone
        patched.setitem(postgresql.SESSION, "idle_in_transaction_session_timeout", "200")
        stopped = await service.books.open_again()
        while not lock_taken.is_set():  # on a loaded machine the timeout may pass before it has the lock
            keeping = asyncio.ensure_future(stopped.transaction(keep_lock))
            ready = asyncio.ensure_future(lock_taken.wait())
            await asyncio.wait([keeping, ready], return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()
            if keeping.done():
                keeping.exception()
    node = await service.node()
    await service.ordered(await service.books.customer())
    assert await asyncio.wait_for(service.leased(node), 60)
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await stopped.close()


async def test_a_locked_job_is_skipped_for_the_next_one(
    service: TaskService,
) -> None:
    node, customers = await service.node(), [await service.books.customer() for _ in range(2)]
    for customer in customers:
        await service.ordered(customer, text=customer.name)
    async with locked(service.books, "SELECT id FROM tasks ORDER BY id LIMIT 1 FOR UPDATE"):
        assert (await service.leased(node)).text == customers[1].name
