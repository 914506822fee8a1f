"""Waiting is cheap: retries of an open call, and refunds that the database does not accept."""

import asyncio

import pytest

from myna.billing.ledger import ChargeOrder
from myna.errors import NoSpeechChannel
from myna.store.batch import Replayed
from tests.ledger.ledger_service import LedgerService, Plan, caller_of, ledger_service_on, refusing
from tests.store.books import Books, idempotency_key_of
from tests.store.fixtures import each_database
from tests.store.stalls import stalled_commits

pytestmark = pytest.mark.anyio


def counted(plan: Plan, count: list[int]) -> Plan:
    async def counting() -> ChargeOrder:
        count[0] += 1
        return await plan()

    return counting


async def test_a_retry_waits_where_a_new_call_would_be_refused(books: Books, service: LedgerService) -> None:
    customer, retry_key = await books.customer(), idempotency_key_of()
    no_channel = refusing(NoSpeechChannel("no channel can speak"))
    async with await service.admit(customer, idempotency_key=retry_key) as call:
        retry = asyncio.ensure_future(service.charge(caller_of(customer, retry_key), no_channel))
        await asyncio.wait([retry], timeout=0.1)
        assert not retry.done()
        await call.keep("the answer")
        assert await retry == Replayed("the answer")


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


async def test_a_waiting_retry_is_planned_once(books: Books, service: LedgerService) -> None:
    customer, retry_key, planned = await books.customer(), idempotency_key_of(), [0]
    async with await service.admit(customer, idempotency_key=retry_key) as call:
        plan = counted(service.order(), planned)
        retry = asyncio.ensure_future(service.charge(caller_of(customer, retry_key), plan))
        await asyncio.wait([retry], timeout=0.1)
        assert not retry.done()
        await call.keep("the answer")
        assert await retry == Replayed("the answer")
    assert planned == [1]
