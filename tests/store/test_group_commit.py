"""Many callers share one transaction, and each gets its own outcome."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence

import apsw
import asyncpg
import pytest

from myna.errors import CommitInDoubt, Overloaded
from myna.lib.aio import TICK_S
from myna.store import group_commit
from myna.store.batch import CallState, Charge, Charged, ChargeOutcome, End, EndOutcome
from myna.store.group_commit import GroupCommit
from tests.rig.waiting import SOON_S, MonotonicClock
from tests.store.books import Books, Customer, charge_of, charged_of, keep_of, refund_of
from tests.store.stalls import ends_as, queued, stalled_commits

ARRIVING = 12


@pytest.fixture
async def commits(books: Books) -> AsyncIterator[GroupCommit]:
    """Not started: operations are queued until the test starts it."""
    made = GroupCommit(books.db, queue_max=2000)
    yield made
    await made.close(SOON_S)


async def test_each_caller_gets_its_own_outcome(books: Books, commits: GroupCommit) -> None:
    commits.start()
    customers = [await books.customer(units=units) for units in (5, 0, 50)]

    async def spend(customer: Customer) -> bool:
        call = charge_of(customer)
        if not isinstance(await commits.charge(call, SOON_S), Charged):
            return False
        return await commits.end(keep_of(call), SOON_S) is EndOutcome.DONE

    for customer, delivered in zip(customers, (5, 0, 20), strict=True):
        outcomes = await asyncio.gather(*[spend(customer) for _ in range(20)])
        assert outcomes.count(True) == delivered
        assert await books.counters(customer) == (delivered, delivered, delivered)


async def test_more_callers_than_one_batch_takes_are_all_served(books: Books, commits: GroupCommit) -> None:
    customer = await books.customer(units=group_commit.BATCH_MAX + 10)
    calls = [charge_of(customer) for _ in range(group_commit.BATCH_MAX + 20)]
    waiting = [asyncio.ensure_future(commits.charge(call, SOON_S)) for call in calls]
    await queued(commits, len(calls))
    commits.start()
    outcomes = await asyncio.gather(*waiting)
    assert [isinstance(outcome, Charged) for outcome in outcomes] == [True] * (len(calls) - 10) + [False] * 10


async def arriving_turn_by_turn(commits: GroupCommit, customer: Customer) -> None:
    """Charges: two at the start, and one more in each iteration of the event loop."""
    waiting = [asyncio.ensure_future(commits.charge(charge_of(customer), SOON_S)) for _ in range(2)]
    await asyncio.sleep(0)
    commits.start()
    for _ in range(ARRIVING - 2):
        waiting.append(asyncio.ensure_future(commits.charge(charge_of(customer), SOON_S)))
        await asyncio.sleep(0)
    assert [type(outcome) for outcome in await asyncio.gather(*waiting)] == [Charged] * ARRIVING


@pytest.fixture
def batches(books: Books, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of operations of each later transaction of the books."""
    sizes: list[int] = []
    commit = books.db.commit_batch

    async def counted(
        ends: Sequence[End], charges: Sequence[Charge], *, contended: bool
    ) -> tuple[list[EndOutcome], list[ChargeOutcome]]:
        sizes.append(len(ends) + len(charges))
        return await commit(ends, charges, contended=contended)

    monkeypatch.setattr(books.db, "commit_batch", counted)
    return sizes


@pytest.mark.parametrize(
    ("dialect", "gather_max_s", "first"),
    [("sqlite", SOON_S, ARRIVING), ("sqlite", 0.0, 2), ("postgresql", SOON_S, 2)],
    indirect=["dialect"],
)
async def test_a_batch_gathers_operations_on_sqlite_for_a_limited_time(
    books: Books,
    commits: GroupCommit,
    batches: list[int],
    monkeypatch: pytest.MonkeyPatch,
    gather_max_s: float,
    first: int,
) -> None:
    monkeypatch.setattr(group_commit, "GATHER_MAX_S", gather_max_s)
    await arriving_turn_by_turn(commits, await books.customer(units=ARRIVING))
    assert batches[0] == first


async def test_an_operation_that_fails_on_its_data_fails_alone(books: Books, commits: GroupCommit) -> None:
    customer = await books.customer(units=100)
    before = await books.opened(customer)
    calls = [charge_of(customer) for _ in range(20)]
    calls[13] = charge_of(customer, units=-1)
    waiting = [asyncio.ensure_future(commits.charge(call, SOON_S)) for call in calls]
    waiting_end = asyncio.ensure_future(commits.end(refund_of(before), SOON_S))
    await queued(commits, 21)

    commits.start()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)

    assert isinstance(outcomes.pop(13), apsw.Error | asyncpg.PostgresError)
    assert {type(outcome) for outcome in outcomes} == {Charged}
    assert await waiting_end is EndOutcome.DONE
    assert await books.balance(customer) == 100 - 19
    assert isinstance(await commits.charge(charge_of(customer), SOON_S), Charged)


async def test_a_full_queue_refuses_a_charge_before_it_is_sent(books: Books) -> None:
    customer = await books.customer()
    commits = GroupCommit(books.db, queue_max=3)
    before = await books.opened(customer)
    waiting = [asyncio.ensure_future(commits.charge(charge_of(customer), SOON_S)) for _ in range(3)]
    await queued(commits, 3)

    with pytest.raises(Overloaded):
        await commits.charge(charge_of(customer), SOON_S)
    ending = asyncio.ensure_future(commits.end(keep_of(before), SOON_S))  # an end is never refused
    await queued(commits, 4)

    commits.start()
    await asyncio.gather(*waiting)
    assert await ending is EndOutcome.DONE
    assert await books.counters(customer) == (4, 1, 4)
    await commits.close(SOON_S)


async def test_a_charge_cancelled_while_it_waits_for_a_connection_is_never_sent(
    books: Books, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was already in a batch that was never sent to the database."""

    async def refused(*, contended: bool = False) -> None:
        raise ConnectionRefusedError

    customer = await books.customer()
    call = charge_of(customer)
    connect = books.db.ready
    monkeypatch.setattr(books.db, "ready", refused)
    monkeypatch.setattr(books.db, "unavailable", (ConnectionRefusedError,))
    commits.start()
    with pytest.raises(TimeoutError):
        await commits.charge(call, 0.3)
    monkeypatch.setattr(books.db, "ready", connect)
    assert isinstance(await commits.charge(charge_of(customer), SOON_S), Charged)
    assert await books.state(call.call_id) is None


async def test_a_cancelled_end_is_sent(books: Books, commits: GroupCommit) -> None:
    call = await books.opened(await books.customer())
    with pytest.raises(TimeoutError):
        await commits.end(refund_of(call), 0.01)
    commits.start()
    await ends_as(books, call.call_id, CallState.REFUNDED)


@pytest.mark.parametrize("cancelled", [True, False])
async def test_a_charge_is_answered_after_its_commit_and_a_cancelled_one_is_refunded_at_once(
    books: Books, commits: GroupCommit, cancelled: bool
) -> None:
    customer = await books.customer()
    call = charge_of(customer)
    waiting = asyncio.ensure_future(commits.charge(call, 60))
    await queued(commits, 1)
    async with stalled_commits(books) as stalled:
        commits.start()
        await queued(commits, 0)
        await stalled()
        await asyncio.wait([waiting], timeout=0.1)
        assert not waiting.done()
        assert await books.balance(customer) == 10
        if cancelled:
            waiting.cancel()
            with pytest.raises(CommitInDoubt):
                await waiting
    if cancelled:
        await ends_as(books, call.call_id, CallState.REFUNDED)
    else:
        assert await waiting == charged_of(customer, 9)
    assert await books.balance(customer) == (10 if cancelled else 9)


async def first_future(monkeypatch: pytest.MonkeyPatch) -> "asyncio.Future[object]":
    """The first future that a task makes in the next iteration of the event loop."""
    loop, made = asyncio.get_running_loop(), []
    create = loop.create_future
    with monkeypatch.context() as patched:
        patched.setattr(loop, "create_future", lambda: made.append(create()) or made[-1])
        await asyncio.sleep(0)
    return made[0]


async def test_a_charge_cancelled_while_its_result_is_set_is_refunded(
    books: Books, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    customer = await books.customer()
    call = charge_of(customer)
    waiting = asyncio.ensure_future(commits.charge(call, 60))
    answer = await first_future(monkeypatch)
    commits.start()
    while not answer.done():  # noqa: ASYNC110 - every iteration of the loop counts here
        await asyncio.sleep(0)

    waiting.cancel()

    with pytest.raises(CommitInDoubt):
        await waiting
    await ends_as(books, call.call_id, CallState.REFUNDED)
    assert await books.balance(customer) == 10


async def test_an_answer_that_arrives_at_the_deadline_is_returned(
    books: Books, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = MonotonicClock(monkeypatch, "myna.lib.aio", "myna.store.group_commit")
    customer = await books.customer()
    call = charge_of(customer)
    waiting = asyncio.ensure_future(commits.charge(call, SOON_S))
    answer = await first_future(monkeypatch)
    commits.start()
    while not answer.done():  # noqa: ASYNC110 - every iteration of the loop counts here
        await asyncio.sleep(0)
    clock.move(SOON_S)
    end = time.monotonic() + 2 * TICK_S
    while time.monotonic() < end:  # the loop is kept busy, so that answer and deadline come together
        pass
    assert await waiting == charged_of(customer, 9)


async def test_queued_operations_are_committed_at_shutdown(books: Books, commits: GroupCommit) -> None:
    call = await books.opened(await books.customer())
    ending = asyncio.ensure_future(commits.end(keep_of(call), SOON_S))
    await queued(commits, 1)
    commits.start()
    await commits.close(SOON_S)
    assert ending.done()
    assert await ending is EndOutcome.DONE


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
async def test_a_single_operation_is_committed_at_once(
    books: Books, commits: GroupCommit, batches: list[int]
) -> None:
    customer = await books.customer()
    waiting = [commits._enqueue(charge_of(customer)).future]
    commits.start()
    await asyncio.sleep(0)
    waiting.append(commits._enqueue(charge_of(customer)).future)
    await asyncio.gather(*waiting)
    assert batches == [1, 1]
