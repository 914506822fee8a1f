"""Rows that another session locks: the account's row guards its data, and what waits for a lock delays
nothing else."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import asyncpg
import pytest

from myna.accounts import caps
from myna.actions.keys import SetKeyCap
from myna.actions.site import DisableNode
from myna.errors import StaleLease
from myna.settings import POSTGRESQL_CONNECTIONS
from myna.store import postgresql, postgresql_batch
from myna.store.batch import ChargeRefused, RefusalReason
from myna.store.database import Database, Transaction
from myna.store.postgresql_session import shares
from tests.rig.actors import perform
from tests.rig.waiting import until
from tests.store.books import AUDIO, KEY_REFUSED, Books, Customer, charge_of, charged_of, disable, revoke
from tests.store.stalls import locked, stalled_commits
from tests.tasks.task_service import TaskService, proof_of, task_service_on

LOCK_ACCOUNT = "UPDATE accounts SET balance = balance WHERE id = $1"
WAITING = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.fixture
def books(postgres_books: Books) -> Books:
    """Only sessions of PostgreSQL lock rows."""
    return postgres_books


@pytest.fixture
async def other(books: Books, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Database]:
    """The connection of a second process. A batch waits for an account without a timeout, so that a test can
    observe it."""
    monkeypatch.setattr(postgresql_batch, "LOCK_TIMEOUT_MS", 30_000)
    db = await books.open_again()
    yield db
    await db.close()


async def waiting_sessions(books: Books) -> int:
    """How many sessions wait for a lock, once one does."""
    watch = await asyncpg.connect(books.url)

    async def waits() -> bool:
        return bool(await watch.fetch(WAITING))

    await until(waits, "a session waits for a lock")
    waiting = len(await watch.fetch(WAITING))
    await watch.close()
    return waiting


async def test_two_processes_never_spend_one_unit_twice(books: Books, other: Database) -> None:
    customer = await books.customer(units=1)
    async with stalled_commits(books) as stalled:
        first = asyncio.ensure_future(books.charge(charge_of(customer)))
        await stalled()
        second = asyncio.ensure_future(other.commit_batch([], [charge_of(customer)], contended=True))
        await waiting_sessions(books)
    assert await first == [charged_of(customer, 0)]
    assert (await second)[1] == [ChargeRefused(RefusalReason.UNITS, 0)]


async def test_a_charge_that_waited_for_a_revocation_is_refused(books: Books, other: Database) -> None:
    customer = await books.customer()
    async with locked(books, LOCK_ACCOUNT, customer.account_id) as session:
        await session.execute("UPDATE keys SET revoked_at = 1 WHERE id = $1", customer.key_id)
        charging = asyncio.ensure_future(other.commit_batch([], [charge_of(customer)], contended=True))
        await waiting_sessions(books)
    assert (await charging)[1] == [KEY_REFUSED]


async def test_a_renewal_of_a_cap_that_waited_for_another_keeps_what_was_charged_since(
    books: Books, other: Database
) -> None:
    customer = await books.customer()
    await perform(books.db, SetKeyCap(key=str(customer.key_id), cap=str(caps.Cap(10, caps.Period.DAY))))
    async with locked(books, LOCK_ACCOUNT, customer.account_id) as session:
        await session.execute("UPDATE key_caps SET ends_at = now_ms() + 60000, used = 7")
        renewing = asyncio.ensure_future(caps.renew(other, customer.key_hash, "UTC"))
        await waiting_sessions(books)
    await renewing
    assert await books.sql("SELECT used FROM key_caps") == [(7,)]
    await books.sql("UPDATE key_caps SET used = 0")  # there is no call of these units


@pytest.mark.parametrize("refuse", [revoke, disable])
async def test_a_revocation_waits_for_the_charges_before_it(
    books: Books, other: Database, refuse: Callable[[Database, Customer], Awaitable[None]]
) -> None:
    customer = await books.customer()
    async with stalled_commits(books) as stalled:
        charging = asyncio.ensure_future(other.commit_batch([], [charge_of(customer)]))
        await stalled()
        refusing = asyncio.ensure_future(refuse(books.db, customer))
        await asyncio.wait([refusing], timeout=0.2)
        assert not refusing.done()
    assert (await charging)[1] == [charged_of(customer, 9)]
    await refusing
    assert await books.charge(charge_of(customer)) == [KEY_REFUSED]


POOL = shares(POSTGRESQL_CONNECTIONS).pool
MANY = POOL + 4


@pytest.fixture
async def service(books: Books) -> AsyncIterator[TaskService]:
    async with task_service_on(books) as opened:
        yield opened


async def reads_continue(service: TaskService, asked: Sequence[asyncio.Future[Any]]) -> int:
    """Checks that a read is answered while all these wait for a lock; returns how many sessions wait."""
    await waiting_sessions(service.books)
    await asyncio.wait_for(service.books.db.fetch("SELECT 1"), 60)
    assert not any(one.done() for one in asked)
    return await waiting_sessions(service.books)


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


async def test_a_locked_job_is_skipped_for_the_next_one(service: TaskService) -> None:
    node, customers = await service.node(), [await service.books.customer() for _ in range(2)]
    for customer in customers:
        await service.ordered(customer, text=customer.name)
    async with locked(service.books, "SELECT id FROM tasks ORDER BY id LIMIT 1 FOR UPDATE"):
        assert (await service.leased(node)).text == customers[1].name
