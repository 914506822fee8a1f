"""How a call ends: kept, refunded, swept; exactly once, and reported as committed."""

import asyncio

import pytest

from myna.billing import ledger as ledger_module
from myna.errors import CallRefunded, CommitInDoubt
from myna.lib.telemetry import logs
from myna.store.batch import CallState, Charged, End
from tests.ledger.ledger_service import LedgerService, ledger_service_on
from tests.store.books import Books, broken_refunds, charge_of, idempotency_key_of, refund_of, speech
from tests.store.fixtures import each_database
from tests.store.stalls import ends_as, stalled_commits

PAST_EVERY_DEADLINE_MS = 3_600_000


async def test_a_cancelled_call_is_refunded(books: Books, service: LedgerService) -> None:
    customer = await books.customer()
    admitted = asyncio.Event()

    async def work() -> None:
        async with await service.admit(customer):
            admitted.set()
            await asyncio.Event().wait()

    working = asyncio.ensure_future(work())
    await admitted.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await books.balance(customer) == 10


@each_database
async def test_a_keep_after_the_refund_is_lost(books: Books, service: LedgerService) -> None:
    """The sweep was faster: the units were refunded, so the answer must not be sent."""
    customer = await books.customer()
    with pytest.raises(CallRefunded):
        async with await service.admit(customer) as call:
            await books.end(refund_of(charge_of(customer, call_id=call.id), "swept"))
            await call.keep("the answer")
    assert await books.balance(customer) == 10
    assert await books.entries(call.id) == [(0, -1), (1, 1)]


@each_database
async def test_a_keep_without_a_reply_at_its_deadline_is_in_doubt(
    books: Books, service: LedgerService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither success nor refund is reported: the keep is still being sent, and is committed later."""
    monkeypatch.setattr(ledger_module, "DEADLINE_MARGIN_S", 0.2)
    customer = await books.customer()
    call = await service.admit(customer, service.order(seconds=0.1))
    async with stalled_commits(books):
        other = asyncio.ensure_future(service.commits.charge(refunded := charge_of(customer), 60))
        with pytest.raises(CommitInDoubt):
            async with call:
                await asyncio.wait([other], timeout=0.05)
                await call.keep("the answer")

    await ends_as(books, call.id, CallState.KEPT)
    assert isinstance(await other, Charged)
    await books.end(refund_of(refunded))
    assert await books.balance(customer) == 9


@each_database
async def test_a_cancelled_keep_is_in_doubt(books: Books, service: LedgerService) -> None:
    customer = await books.customer()
    call = await service.admit(customer)

    async def work() -> None:
        async with call:
            await call.keep("the answer")

    working = asyncio.ensure_future(work())
    await asyncio.wait([working], timeout=0)
    working.cancel()
    with pytest.raises(CommitInDoubt):
        await working

    await ends_as(books, call.id, CallState.KEPT)
    assert await books.balance(customer) == 9


@each_database
async def test_the_sweep_refunds_calls_of_a_dead_process(books: Books, service: LedgerService) -> None:
    customer = await books.customer()
    left = await books.opened(
        customer, units=3, task=speech(), idempotency_key=idempotency_key_of(), deadline_ms=1000
    )
    assert await service.ledger.sweep() == 0
    await books.move_clock(1001)
    assert await service.ledger.sweep() == 1
    assert await service.ledger.sweep() == 0
    assert await books.balance(customer) == 10
    assert await books.state(left.call_id) == CallState.REFUNDED
    assert (await books.task(left.call_id))[0] == 3
    assert await books.answer(left.call_id) == []


async def test_the_sweep_does_not_refund_calls_that_this_process_works_on(
    books: Books, service: LedgerService
) -> None:
    customer = await books.customer()
    async with await service.admit(customer) as call:
        await books.move_clock(PAST_EVERY_DEADLINE_MS)
        assert await service.ledger.sweep() == 0
        await call.keep("the answer")
    assert await books.counters(customer) == (1, 1, 1)


@each_database
async def test_the_sweep_repeats_a_failed_refund(books: Books, service: LedgerService) -> None:
    """Its refund fails by a trigger; once the trigger is dropped, the sweep of this process refunds it."""
    customer = await books.customer()
    call = await service.admit(customer)
    async with broken_refunds(books):
        with pytest.raises(Exception, match="out of order"):
            async with call:
                pass
    await books.move_clock(PAST_EVERY_DEADLINE_MS)
    assert await service.ledger.sweep() == 1
    assert await books.balance(customer) == 10


@each_database
async def test_two_processes_that_sweep_at_once_refund_once(books: Books, service: LedgerService) -> None:
    customer = await books.customer(units=50)
    for _ in range(20):
        await books.opened(customer, deadline_ms=1)
    await books.move_clock(10)
    async with books.second_process() as other, ledger_service_on(other) as second:
        await asyncio.gather(*[at.ledger.sweep() for at in (service, second, service, second)])
    assert await books.balance(customer) == 50
    assert await books.counters(customer) == (20, 0, 0)


@each_database
async def test_a_starting_process_refunds_every_open_call(books: Books, service: LedgerService) -> None:
    customer = await books.customer(units=10)
    kept = await books.opened(customer)
    await books.end(End(kept.call_id, CallState.KEPT))
    for _ in range(3):
        await books.opened(customer, deadline_ms=PAST_EVERY_DEADLINE_MS)
    assert await service.ledger.recover() == 3
    assert await service.ledger.recover() == 0
    assert await books.balance(customer) == 9


async def test_finishing_waits_for_calls_that_still_run(books: Books, service: LedgerService) -> None:
    customer = await books.customer()
    call = await service.admit(customer)
    finishing = asyncio.ensure_future(service.ledger.finish(60))
    await asyncio.wait([finishing], timeout=0.05)
    assert not finishing.done()
    async with call:
        await call.keep("the answer")
    await finishing


async def test_recovery_refunds_more_calls_than_one_sweep_takes(
    books: Books, service: LedgerService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "SWEEP_MAX", 4)
    customer = await books.customer(units=10)
    for _ in range(10):
        await books.opened(customer)
    counts = [await service.ledger.recover() for _ in range(4)]
    assert counts == [4, 4, 2, 0]


@each_database
async def test_a_call_keeps_its_request_and_answering_channel(books: Books, service: LedgerService) -> None:
    logs.request_id.set("a-request")
    async with await service.admit(await books.customer()) as kept:
        kept.details.asks("a channel")
        await kept.keep("the answer")
    async with await service.admit(await books.customer()) as refunded:
        refunded.details.asks("a channel")
    for call in (kept, refunded):
        row = await books.sql("SELECT request_id, channel FROM calls WHERE id = $1", call.id)
        assert row == [("a-request", "a channel")]


@each_database
async def test_sweeps_queue_no_refund_twice(books: Books) -> None:
    customer = await books.customer()
    for _ in range(5):
        await books.opened(customer, units=1, deadline_ms=1000)
    await books.move_clock(1001)
    async with ledger_service_on(books.db, charge_wait_s=0.1) as service:
        async with stalled_commits(books):
            for _ in range(4):
                assert await service.ledger.sweep() == 0
            assert service.commits.waiting <= 4  # the first is in the stalled batch
        assert await service.ledger.sweep() in range(6)
    assert await books.balance(customer) == 10
