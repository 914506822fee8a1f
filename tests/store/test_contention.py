"""An account, task or call that another session has locked delays no other operation."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from myna.store import postgresql, postgresql_batch
from myna.store.batch import CallState, Charge, EndOutcome, TaskStatus
from myna.store.database import Transaction
from myna.store.group_commit import GroupCommit
from myna.store.queries import accounts
from tests.rig.waiting import SOON_S
from tests.store.books import Books, Customer, charge_of, charged_of, keep_of, refund_of, speech
from tests.store.stalls import committing, locked

FOR_LONG_MS = 600_000
CALLS = 50
WRITER = """SELECT pid, backend_start FROM pg_stat_activity
WHERE application_name = 'myna-writer' AND datname = current_database()"""
LOCKS = {
    "account": "SELECT 1 FROM accounts a JOIN calls c ON c.account_id = a.id WHERE c.id = $1 FOR UPDATE OF a",
    "task": "SELECT 1 FROM tasks WHERE call_id = $1 FOR UPDATE",
    "call": "SELECT 1 FROM calls WHERE id = $1 FOR UPDATE",
}


@pytest.fixture
def books(postgres_books: Books) -> Books:
    """Only sessions of PostgreSQL lock rows."""
    return postgres_books


@pytest.fixture
async def commits(books: Books) -> AsyncIterator[GroupCommit]:
    async with committing(books.db) as commits:
        yield commits


async def spend(commits: GroupCommit, customer: Customer, calls: int) -> None:
    """Makes this number of calls of the customer one after the other; half of them are kept."""
    for number in range(calls):
        call = charge_of(customer)
        charged = await commits.charge(call, SOON_S)
        assert charged == charged_of(customer, charged.balance)  # type: ignore[union-attr]
        end = keep_of(call) if number % 2 else refund_of(call)
        assert await commits.end(end, SOON_S) is EndOutcome.DONE


async def ordered(books: Books, customer: Customer) -> Charge:
    """An open call whose task waits for a node."""
    return await books.opened(customer, task=speech(TaskStatus.QUEUED))


@pytest.mark.parametrize("what", ["account", "task"])
async def test_a_locked_account_delays_no_other_account(
    books: Books, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that waited for the lock would wait for ten minutes."""
    stuck, free = await books.customer(), await books.customer(units=CALLS)
    call = await ordered(books, stuck)
    monkeypatch.setattr(postgresql_batch, "LOCK_TIMEOUT_MS", FOR_LONG_MS)
    db = await books.open_again()
    async with committing(db) as commits:
        async with locked(books, LOCKS[what], call.call_id):
            ending = asyncio.ensure_future(commits.end(refund_of(call), None))
            await spend(commits, free, CALLS)
            assert not ending.done()
        assert await asyncio.wait_for(ending, SOON_S) is EndOutcome.DONE
    await db.close()
    assert await books.balance(stuck) == 10


async def test_a_lock_timeout_is_not_an_unavailable_database(
    books: Books, commits: GroupCommit, caplog: pytest.LogCaptureFixture
) -> None:
    stuck, free = await books.customer(), await books.customer(units=CALLS)
    call = await books.opened(stuck)
    writer = await books.sql(WRITER)
    async with locked(books, LOCKS["call"], call.call_id):
        ending = asyncio.ensure_future(commits.end(refund_of(call), None))
        together = [commits.charge(charge_of(free), SOON_S) for _ in range(3)]
        await asyncio.gather(*together)
        await spend(commits, free, CALLS - 3)
        assert not ending.done()
    assert await asyncio.wait_for(ending, SOON_S) is EndOutcome.DONE
    assert await books.state(call.call_id) == CallState.REFUNDED
    assert await books.sql(WRITER) == writer
    assert caplog.text == ""


async def test_two_processes_charge_one_account_without_starving(books: Books, commits: GroupCommit) -> None:
    customer = await books.customer(units=10_000)
    other = await books.open_again()
    async with committing(other) as beside:
        await asyncio.gather(*[spend(each, customer, CALLS) for each in (commits, beside) for _ in range(4)])
    await other.close()
    calls = 8 * CALLS
    assert await books.counters(customer) == (calls, calls // 2, calls // 2)


async def test_charges_of_a_locked_account_are_retried_together_and_refused_uncharged(
    books: Books, commits: GroupCommit
) -> None:
    """Each try waits LOCK_TIMEOUT_MS, so halving them would keep another contended account waiting."""
    stuck, brief = await books.customer(units=CALLS + 1), await books.customer(units=CALLS)
    call, other = await books.opened(stuck), await books.opened(brief)
    async with locked(books, LOCKS["account"], call.call_id):
        waiting = [asyncio.ensure_future(commits.charge(charge_of(stuck), 1.0)) for _ in range(CALLS)]
        async with locked(books, LOCKS["account"], other.call_id):
            contended = asyncio.ensure_future(commits.charge(charge_of(brief), SOON_S))
            await asyncio.sleep(0.3)  # both are contended now
        freed = asyncio.get_running_loop().time()
        await contended
        waited_s = asyncio.get_running_loop().time() - freed
        refused = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(one) for one in refused} == {TimeoutError}
    assert waited_s < CALLS * postgresql_batch.LOCK_TIMEOUT_MS / 1000
    assert await books.balance(stuck) == CALLS


async def test_a_transaction_waits_for_a_locked_account_for_a_bounded_time(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps one of a few connections meanwhile, which other accounts need."""
    customer = await books.customer()
    call = await books.opened(customer)

    async def change(db: Transaction) -> None:
        await accounts.lock(db, customer.account_id)

    monkeypatch.setitem(postgresql.SESSION, "lock_timeout", "200")
    db = await books.open_again()
    async with locked(books, LOCKS["account"], call.call_id):
        with pytest.raises(db.locked):
            await asyncio.wait_for(db.transaction(change), SOON_S)
    await db.transaction(change)
    await db.close()


async def test_other_calls_of_an_account_do_not_wait_for_its_task(books: Books, commits: GroupCommit) -> None:
    customer = await books.customer(units=CALLS)
    call = await ordered(books, customer)
    async with locked(books, LOCKS["task"], call.call_id):
        ending = asyncio.ensure_future(commits.end(refund_of(call), None))
        await spend(commits, customer, CALLS - 1)
        assert not ending.done()
    assert await asyncio.wait_for(ending, SOON_S) is EndOutcome.DONE
    assert (await books.task(call.call_id))[0] == TaskStatus.FAILED
