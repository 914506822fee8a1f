"""Waiting is cheap: retries of an open call, and refunds that the database does not accept."""

import asyncio

import pytest

from myna.errors import InvalidRequest, NoSpeechChannel
from myna.ledger import ChargeOrder
from myna.store.batch import Replayed
from tests.ledger.desk import Desk, Plan, caller_of, desk_on, refusing
from tests.store.books import Books, reserved
from tests.store.stalls import stalled_commits

pytestmark = pytest.mark.anyio


def counted(plan: Plan, count: list[int]) -> Plan:
    async def counting() -> ChargeOrder:
        count[0] += 1
        return await plan()

    return counting


async def test_a_waiting_retry_is_planned_once(books: Books, desk: Desk) -> None:
    holder, retry_key, planned = await books.holder(), reserved(), [0]
    async with await desk.admit(holder, idempotency_key=retry_key) as call:
        plan = counted(desk.order(), planned)
        retry = asyncio.ensure_future(desk.charge(caller_of(holder, retry_key), plan))
        await asyncio.wait([retry], timeout=0.3)
        assert not retry.done()
        await call.keep("the answer")
        assert await retry == Replayed("the answer")
    assert planned == [1]


async def test_a_retry_waits_where_a_new_call_would_be_refused(books: Books, desk: Desk) -> None:
    holder, retry_key = await books.holder(), reserved()
    no_channel = refusing(NoSpeechChannel("no channel can speak"))
    async with await desk.admit(holder, idempotency_key=retry_key) as call:
        retry = asyncio.ensure_future(desk.charge(caller_of(holder, retry_key), no_channel))
        await asyncio.wait([retry], timeout=0.1)
        assert not retry.done()
        await call.keep("the answer")
        assert await retry == Replayed("the answer")


async def test_a_retry_of_a_failed_call_is_refused_where_a_new_call_would_be(
    books: Books, desk: Desk
) -> None:
    holder, retry_key = await books.holder(), reserved()
    bad = refusing(InvalidRequest("text: must not be blank."))
    async with await desk.admit(holder, idempotency_key=retry_key):
        retry = asyncio.ensure_future(desk.charge(caller_of(holder, retry_key), bad))
        await asyncio.wait([retry], timeout=0.1)
        assert not retry.done()
    with pytest.raises(InvalidRequest, match="blank"):
        await retry


async def test_sweeps_queue_no_refund_twice(books: Books) -> None:
    holder = await books.holder()
    for _ in range(5):
        await books.opened(holder, units=1, deadline_ms=1000)
    await books.move_clock(1001)
    async with desk_on(books.db, charge_wait_s=0.1) as desk:
        async with stalled_commits(books):
            for _ in range(4):
                assert await desk.ledger.sweep() == 0
            assert desk.commits.waiting <= 4  # the first is in the stalled batch
        assert await desk.ledger.sweep() in range(6)
    assert await books.balance(holder) == 10
