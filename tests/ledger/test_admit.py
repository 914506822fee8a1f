"""Who is let in, at which price, and what the others are told."""

import asyncio

import pytest

from myna import accounts, keys, site
from myna.errors import (
    DatabaseAway,
    InsufficientUnits,
    InvalidRequest,
    NoSpeechChannel,
    Overloaded,
    SpeechNotInScope,
    Unauthorized,
)
from myna.keys import Scope
from myna.ledger import Order
from myna.store.batch import Replayed
from tests.ledger.desk import Desk, asks, desk_on, refuses
from tests.store.books import Books, charge_of, keep_of, reserved, speech
from tests.store.stalls import stalled_commits, until

pytestmark = pytest.mark.anyio

BAD_REQUEST = InvalidRequest("text: must not be blank.")


async def test_a_call_is_paid_when_it_is_admitted(books: Books, desk: Desk) -> None:
    holder = await books.holder(units=5)

    admitted = await desk.ledger.admit(asks(holder), desk.order(units=2, seconds=30.0))

    assert not isinstance(admitted, Replayed)
    call, plan = admitted
    assert (call.account_id, call.units, call.task_id, plan) == (holder.account_id, 2, 0, "a plan at 2")
    assert 29 < call.seconds_left <= 30
    assert await books.balance(holder) == 3
    async with call:
        await call.keep("an answer", stored=False)


async def test_a_task_is_ordered_with_its_call(books: Books, desk: Desk) -> None:
    holder = await books.holder()
    async with await desk.admit(holder, desk.order(pays=Scope.TTS, task=speech())) as call:
        assert await books.sql("SELECT id FROM tasks") == [(call.task_id,)]


async def test_a_call_that_is_not_kept_is_refunded(books: Books, desk: Desk) -> None:
    holder = await books.holder()
    with pytest.raises(ZeroDivisionError):
        async with await desk.admit(holder, desk.order(units=4)) as call:
            assert await books.balance(holder) == 6
            raise ZeroDivisionError
    assert await books.balance(holder) == 10
    assert await books.entries(call.id) == [(0, -4), (1, 4)]


async def test_a_price_that_changed_meanwhile_is_the_one_that_counts(books: Books, desk: Desk) -> None:
    """The process's copy is stale; the charge notices, and the request is decided anew."""
    holder = await books.holder(units=9)
    await site.change(books.db, "chat_units", "7")

    admitted = await desk.ledger.admit(asks(holder), desk.order())

    assert not isinstance(admitted, Replayed)
    assert (admitted[0].units, admitted[1]) == (7, "a plan at 7")
    assert await books.balance(holder) == 2
    async with admitted[0]:
        pass


async def test_a_refusal_by_a_stale_configuration_is_decided_anew(books: Books, desk: Desk) -> None:
    holder = await books.holder()
    await site.change(books.db, "chat_units", "3")

    async def decide() -> Order[str]:
        if desk.site.settings.chat_units != 3:
            raise BAD_REQUEST
        return await desk.order()()

    async with await desk.admit(holder, decide) as call:
        assert call.units == 3


@pytest.mark.parametrize("error", [BAD_REQUEST, NoSpeechChannel("nobody can speak")])
async def test_a_refusal_is_only_told_to_a_good_key(books: Books, desk: Desk, error: InvalidRequest) -> None:
    holder = await books.holder()
    with pytest.raises(type(error)):
        await desk.ledger.admit(asks(holder), refuses(error))
    await keys.revoke(books.db, holder.key_id)
    with pytest.raises(Unauthorized, match="revoked"):
        await desk.ledger.admit(asks(holder), refuses(error))


async def test_a_key_that_is_refused_by_the_charge_is_told_why(books: Books, desk: Desk) -> None:
    holder = await books.holder(life_ms=60_000)
    narrow = await books.second_key(holder, Scope.RECORDS)
    revoked = await books.second_key(holder)
    await keys.revoke(books.db, revoked.key_id)
    with pytest.raises(Unauthorized, match="revoked"):
        await desk.admit(revoked)
    with pytest.raises(Unauthorized, match="chat scope"):
        await desk.admit(narrow)
    await accounts.set_enabled(books.db, holder.name, False)
    with pytest.raises(Unauthorized, match="disabled"):
        await desk.admit(holder)
    await accounts.set_enabled(books.db, holder.name, True)
    await books.move_clock(60_000)
    with pytest.raises(Unauthorized, match="expired"):
        await desk.admit(holder)
    assert await books.sql("SELECT id FROM calls") == []


async def test_units_and_rates_that_do_not_suffice_are_refused(books: Books, desk: Desk) -> None:
    holder = await books.holder(units=2, scopes=Scope.CHAT)
    with pytest.raises(InsufficientUnits, match="has 2 units and this call costs 3"):
        await desk.admit(holder, desk.order(units=3))
    with pytest.raises(SpeechNotInScope):
        await desk.admit(holder, desk.order(pays=Scope.TTS))
    assert await books.balance(holder) == 2


async def test_too_many_waiting_calls_are_refused_before_they_cost(books: Books) -> None:
    holder = await books.holder()
    async with desk_on(books.db, queue_max=0) as desk:
        with pytest.raises(Overloaded):
            await desk.admit(holder)
    assert await books.balance(holder) == 10


async def test_a_copy_gets_the_answer_that_was_kept(books: Books, desk: Desk) -> None:
    holder, order = await books.holder(), reserved()
    async with await desk.admit(holder, reservation=order) as call:
        await call.keep("the answer", stored=True)

    assert await desk.ledger.admit(asks(holder, order), desk.order()) == Replayed("the answer")
    assert await books.balance(holder) == 9


async def test_a_copy_gets_its_answer_where_a_new_call_would_be_refused(books: Books, desk: Desk) -> None:
    """The channel is gone, the balance is spent: the answer was paid for."""
    holder, order = await books.holder(units=1), reserved()
    async with await desk.admit(holder, reservation=order) as call:
        await call.keep("the answer", stored=True)

    gone = refuses(NoSpeechChannel("nobody can speak"))
    assert await desk.ledger.admit(asks(holder, order), gone) == Replayed("the answer")
    assert await desk.ledger.admit(asks(holder, order), desk.order(units=50)) == Replayed("the answer")
    with pytest.raises(NoSpeechChannel):
        await desk.ledger.admit(asks(holder, reserved(body="another")), gone)


async def test_a_copy_is_only_answered_to_a_good_key(books: Books, desk: Desk) -> None:
    holder, order = await books.holder(), reserved()
    async with await desk.admit(holder, reservation=order) as call:
        await call.keep("the answer", stored=True)
    await keys.revoke(books.db, holder.key_id)
    for decide in (desk.order(), refuses(BAD_REQUEST)):
        with pytest.raises(Unauthorized):
            await desk.ledger.admit(asks(holder, order), decide)


async def test_another_request_under_the_same_key_is_refused(books: Books, desk: Desk) -> None:
    holder = await books.holder()
    async with await desk.admit(holder, reservation=reserved()) as call:
        with pytest.raises(InvalidRequest, match="Idempotency-Key"):
            await desk.ledger.admit(asks(holder, reserved(body="another")), desk.order())
        await call.keep("the answer", stored=True)


async def test_a_copy_waits_for_the_first_call_in_another_process_too(books: Books, desk: Desk) -> None:
    holder, order = await books.holder(), reserved()
    other = await books.open_again() if books.url else books.db
    async with desk_on(other) as second, await desk.admit(holder, reservation=order) as call:
        copies = [
            asyncio.ensure_future(at.ledger.admit(asks(holder, order), at.order())) for at in (desk, second)
        ]
        await asyncio.wait(copies, timeout=0.2)
        assert not any(copy.done() for copy in copies)
        await call.keep("the answer", stored=True)
        assert await asyncio.gather(*copies) == [Replayed("the answer")] * 2
    if other is not books.db:
        await other.close()
    assert await books.counters(holder) == (1, 1, 1)


async def test_a_copy_of_a_call_that_fails_becomes_a_call_of_its_own(books: Books, desk: Desk) -> None:
    holder, order = await books.holder(), reserved()
    async with await desk.admit(holder, reservation=order):
        copy = asyncio.ensure_future(desk.admit(holder, reservation=order))
        await asyncio.wait([copy], timeout=0.1)
        assert not copy.done()
    async with await copy as call:
        await call.keep("the answer", stored=True)
    assert await books.counters(holder) == (2, 1, 1)


async def test_a_charge_that_waits_too_long_is_refused_and_costs_nothing(books: Books) -> None:
    holder = await books.holder()
    async with desk_on(books.db, charge_wait_s=0.3) as desk:
        async with stalled_commits(books):
            with pytest.raises(DatabaseAway):
                await desk.admit(holder)

        call = charge_of(holder)
        await desk.commits.charge(call, 10)  # behind the one that was given up
        await desk.commits.end(keep_of(call), 10)

        async def only_ours() -> bool:
            return await books.sql("SELECT id FROM calls WHERE state <> 2") == [(call.call_id,)]

        await until(only_ours, "the charge of the one who left is undone")
    assert await books.balance(holder) == 9
