"""Admission: which calls are charged, at which price, and the errors of refused ones."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from myna.accounts import keys
from myna.accounts.caps import Cap, Period
from myna.accounts.keys import Scope
from myna.actions.accounts import DisableAccount, EnableAccount
from myna.actions.keys import RevokeKey, SetKeyCap
from myna.actions.site import SetSetting
from myna.billing.ledger import TOO_LARGE_TO_REPEAT, ChargeOrder
from myna.errors import (
    DatabaseUnavailable,
    InsufficientQuota,
    InvalidRequest,
    NoSpeechChannel,
    Overloaded,
    Unauthorized,
)
from myna.store.batch import NOT_STORED, STORED_ANSWER_MAX_BYTES, Replayed
from myna.store.queries import config as config_store
from myna.store.queries import keys as cap_store
from myna.store.queries.config import Config
from tests.ledger.ledger_service import LedgerService, caller_of, ledger_service_on, refusing
from tests.rig.actors import perform
from tests.rig.waiting import SOON_S
from tests.store.books import Books, idempotency_key_of
from tests.store.fixtures import each_database

DAY_MS = 86_400_000

BAD_REQUEST = InvalidRequest("text: must not be blank.")


@each_database
async def test_a_call_that_is_not_kept_is_refunded(books: Books, service: LedgerService) -> None:
    customer = await books.customer()
    with pytest.raises(ZeroDivisionError):
        async with await service.admit(customer, service.order(units=4)) as call:
            assert await books.balance(customer) == 6
            raise ZeroDivisionError
    assert await books.balance(customer) == 10
    assert await books.entries(call.id) == [(0, -4), (1, 4)]


@each_database
async def test_a_price_that_changed_before_the_charge_applies(books: Books, service: LedgerService) -> None:
    """The process's configuration is stale; the charge detects it, and the request is planned again."""
    customer = await books.customer(units=9)
    await perform(books.db, SetSetting(name="chat_units", value="7"))

    call = await service.admit(customer)

    assert call.units == 7
    assert await books.balance(customer) == 2
    async with call:
        pass


async def test_a_late_refresh_does_not_restore_an_older_configuration(
    books: Books, service: LedgerService, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await config_store.load(books.db)
    await perform(books.db, SetSetting(name="chat_units", value="7"))
    new = await config_store.load(books.db)
    started, released = asyncio.Event(), asyncio.Event()

    async def late(_: object) -> Config:
        monkeypatch.setattr(config_store, "load", early)
        started.set()
        await released.wait()
        return old

    async def early(_: object) -> Config:
        return new

    monkeypatch.setattr(config_store, "load", late)
    refreshing = asyncio.ensure_future(service.config.refresh())
    await started.wait()
    await service.config.refresh()
    released.set()
    await refreshing
    assert service.config.current is new
    assert service.config.settings.chat_units == 7


async def test_a_decision_is_repeated_if_the_configuration_changed_meanwhile(
    books: Books, service: LedgerService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it would carry the price of one version and the number of another."""
    customer, old, prices = await books.customer(), service.config.current, []
    await perform(books.db, SetSetting(name="chat_units", value="7"))
    await service.config.refresh()

    async def older(_: object) -> Config:
        return old

    async def plan() -> ChargeOrder:
        if not prices:
            with monkeypatch.context() as patched:
                patched.setattr(config_store, "load", older)
                await service.config.refresh()
        prices.append(service.config.settings.chat_units)
        return ChargeOrder(Scope.CHAT, prices[-1], 30.0)

    async with await service.admit(customer, plan) as call:
        assert call.units == prices[-1] == 7
    assert prices[0] == 1


async def test_a_refusal_by_a_stale_configuration_is_decided_again(
    books: Books, service: LedgerService
) -> None:
    customer = await books.customer()
    await perform(books.db, SetSetting(name="chat_units", value="3"))

    async def plan() -> ChargeOrder:
        if service.config.settings.chat_units != 3:
            raise BAD_REQUEST
        return await service.order()()

    async with await service.admit(customer, plan) as call:
        assert call.units == 3


@pytest.mark.parametrize("error", [BAD_REQUEST, NoSpeechChannel("no channel can speak")])
async def test_a_revoked_key_gets_401_before_any_other_refusal(
    books: Books, service: LedgerService, error: InvalidRequest
) -> None:
    customer = await books.customer()
    with pytest.raises(type(error)):
        await service.charge(caller_of(customer), refusing(error))
    await perform(books.db, RevokeKey(key=str(customer.key_id)))
    with pytest.raises(Unauthorized, match="revoked"):
        await service.charge(caller_of(customer), refusing(error))


@each_database
async def test_a_key_that_the_charge_refuses_gets_the_reason(books: Books, service: LedgerService) -> None:
    customer = await books.customer(life_ms=60_000)
    narrow = await books.second_key(customer, Scope.RECORDS)
    revoked = await books.second_key(customer)
    await perform(books.db, RevokeKey(key=str(revoked.key_id)))
    with pytest.raises(Unauthorized, match="revoked"):
        await service.admit(revoked)
    with pytest.raises(Unauthorized, match="chat scope"):
        await service.admit(narrow)
    await perform(books.db, DisableAccount(name=customer.name, force=True))
    with pytest.raises(Unauthorized, match="disabled"):
        await service.admit(customer)
    await perform(books.db, EnableAccount(name=customer.name))
    await books.move_clock(60_000)
    with pytest.raises(Unauthorized, match="expired"):
        await service.admit(customer)
    assert await books.sql("SELECT id FROM calls") == []


async def test_insufficient_units_and_exceeded_rates_are_refused(
    books: Books, service: LedgerService
) -> None:
    customer = await books.customer(units=2, scopes=Scope.CHAT)
    with pytest.raises(InsufficientQuota, match="has 2 units and this call costs 3"):
        await service.admit(customer, service.order(units=3))
    with pytest.raises(InsufficientQuota, match="lacks the tts scope"):
        await service.admit(customer, service.order(pays=Scope.TTS))
    assert await books.balance(customer) == 2


@each_database
async def test_a_reached_cap_is_a_402_that_says_when_it_renews(books: Books, service: LedgerService) -> None:
    await books.stop_clock()
    customer = await books.customer(units=100)
    await perform(books.db, SetKeyCap(key=str(customer.key_id), cap=str(Cap(5, Period.MONTH))))
    async with await service.admit(customer, service.order(units=4)) as call:
        await call.keep("an answer")
    said = r"has used 4 of the 5 units that its cap allows per month, and this call costs 2"
    with pytest.raises(InsufficientQuota, match=said) as refused:
        await service.admit(customer, service.order(units=2))
    row = await cap_store.cap_of(books.db, customer.key_id)
    assert row is not None
    renews_at = datetime.fromtimestamp(row.ends_at / 1000, UTC).isoformat()
    assert f"renews at {renews_at}" in refused.value.message
    assert (refused.value.status, refused.value.type) == (402, "insufficient_quota")
    assert await books.balance(customer) == 96

    await books.move_clock(32 * DAY_MS)
    async with await service.admit(customer, service.order(units=2)) as call:
        await call.keep("an answer")
    assert await books.balance(customer) == 94


async def test_an_error_of_the_charge_is_not_taken_for_one_of_the_plan(
    books: Books, service: LedgerService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal has checked the key; a second check would only delay the error."""
    customer, checks, verify = await books.customer(units=2), [0], keys.verify

    async def counted(*arguments: Any) -> Any:
        checks[0] += 1
        return await verify(*arguments)

    monkeypatch.setattr(keys, "verify", counted)
    with pytest.raises(InsufficientQuota):
        await service.admit(customer, service.order(units=3))
    assert checks == [1]


async def test_calls_over_the_queue_limit_are_refused_before_the_charge(books: Books) -> None:
    customer = await books.customer()
    async with ledger_service_on(books.db, queue_max=0) as service:
        with pytest.raises(Overloaded):
            await service.admit(customer)
    assert await books.balance(customer) == 10


async def test_a_stored_response_is_returned_if_its_account_cannot_be_read(
    books: Books, service: LedgerService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """503 "nothing was charged" would be wrong: the first call was."""
    customer, retry_key = await books.customer(), idempotency_key_of()
    async with await service.admit(customer, idempotency_key=retry_key) as call:
        await call.keep("the answer")

    async def unavailable(*_: object) -> None:
        raise DatabaseUnavailable

    monkeypatch.setattr(keys, "verify", unavailable)
    assert await service.charge(caller_of(customer, retry_key), service.order()) == Replayed("the answer")


async def test_a_retry_gets_its_stored_response_where_a_new_call_would_be_refused(
    books: Books, service: LedgerService
) -> None:
    """No channel is available and the balance is zero, but the response was paid for."""
    customer, retry_key = await books.customer(units=1), idempotency_key_of()
    async with await service.admit(customer, idempotency_key=retry_key) as call:
        await call.keep("the answer")

    no_channel = refusing(NoSpeechChannel("no channel can speak"))
    assert await service.charge(caller_of(customer, retry_key), no_channel) == Replayed("the answer")
    assert await service.charge(caller_of(customer, retry_key), service.order(units=50)) == Replayed(
        "the answer"
    )
    with pytest.raises(NoSpeechChannel):
        await service.charge(caller_of(customer, idempotency_key_of(body="another")), no_channel)


@each_database
async def test_a_retry_of_a_response_too_large_to_store_is_refused(
    books: Books, service: LedgerService
) -> None:
    """Where the charge finds it, and where a new call would be refused before one."""
    customer, retry_key = await books.customer(), idempotency_key_of()
    async with await service.admit(customer, idempotency_key=retry_key) as call:
        await call.keep("好" * (STORED_ANSWER_MAX_BYTES // 3 + 1))

    assert await books.answer(call.id) == [(NOT_STORED,)]
    for plan in (service.order(), refusing(NoSpeechChannel("no channel can speak"))):
        retry = service.charge(caller_of(customer, retry_key), plan)
        results = await asyncio.gather(retry, return_exceptions=True)
        assert [str(error) for error in results] == [f"Idempotency-Key: {TOO_LARGE_TO_REPEAT}"]
    assert await books.balance(customer) == 9
    assert await books.counters(customer) == (1, 1, 1)


@each_database
async def test_a_retry_of_speech_requires_the_scope(books: Books, service: LedgerService) -> None:
    """Not by the charge, and not where the request is refused before one."""
    customer, retry_key = await books.customer(), idempotency_key_of()
    narrow = await books.second_key(customer, Scope.CHAT)
    spoken, no_channel = service.order(pays=Scope.TTS), refusing(NoSpeechChannel("no channel can speak"))
    async with await service.admit(customer, spoken, retry_key) as call:
        with pytest.raises(NoSpeechChannel):  # and it doesn't wait for a response that it may not get
            await asyncio.wait_for(service.charge(caller_of(narrow, retry_key), no_channel), SOON_S)
        await call.keep("the audio's address")
    with pytest.raises(InsufficientQuota, match="lacks the tts scope"):
        await service.charge(caller_of(narrow, retry_key), spoken)
    with pytest.raises(NoSpeechChannel):
        await service.charge(caller_of(narrow, retry_key), no_channel)
    assert await service.charge(caller_of(customer, retry_key), no_channel) == Replayed("the audio's address")


@each_database
async def test_a_retry_waits_for_the_call_of_another_process(books: Books, service: LedgerService) -> None:
    customer, retry_key = await books.customer(), idempotency_key_of()
    async with (
        books.second_process() as other,
        ledger_service_on(other) as second,
        await service.admit(customer, idempotency_key=retry_key) as call,
    ):
        retries = [
            asyncio.ensure_future(at.charge(caller_of(customer, retry_key), at.order()))
            for at in (service, second)
        ]
        await asyncio.wait(retries, timeout=0.1)
        assert not any(retry.done() for retry in retries)
        await call.keep("the answer")
        assert await asyncio.gather(*retries) == [Replayed("the answer")] * 2
    assert await books.counters(customer) == (1, 1, 1)


async def test_a_retry_of_a_failed_call_becomes_a_new_call(books: Books, service: LedgerService) -> None:
    customer, retry_key = await books.customer(), idempotency_key_of()
    async with await service.admit(customer, idempotency_key=retry_key):
        retry = asyncio.ensure_future(service.admit(customer, idempotency_key=retry_key))
        await asyncio.wait([retry], timeout=0.1)
        assert not retry.done()
    async with await retry as call:
        await call.keep("the answer")
    assert await books.counters(customer) == (2, 1, 1)


async def test_a_retry_requires_a_valid_key(books: Books, service: LedgerService) -> None:
    customer, retry_key = await books.customer(), idempotency_key_of()
    async with await service.admit(customer, idempotency_key=retry_key) as call:
        await call.keep("the answer")
    await perform(books.db, RevokeKey(key=str(customer.key_id)))
    for plan in (service.order(), refusing(BAD_REQUEST)):
        with pytest.raises(Unauthorized):
            await service.charge(caller_of(customer, retry_key), plan)


@each_database
async def test_another_request_of_an_idempotency_key_is_refused(books: Books, service: LedgerService) -> None:
    customer = await books.customer()
    async with await service.admit(customer, idempotency_key=idempotency_key_of()) as call:
        with pytest.raises(InvalidRequest, match="Idempotency-Key"):
            await service.charge(caller_of(customer, idempotency_key_of(body="another")), service.order())
        await call.keep("the answer")


@pytest.mark.parametrize("refused", [False, True])
async def test_a_retry_waits_and_is_planned_once(books: Books, service: LedgerService, refused: bool) -> None:
    """Also where a new call would be refused."""
    customer, retry_key, planned = await books.customer(), idempotency_key_of(), []
    order = refusing(NoSpeechChannel("no channel can speak")) if refused else service.order()

    async def plan() -> ChargeOrder:
        planned.append(1)
        return await order()

    async with await service.admit(customer, idempotency_key=retry_key) as call:
        retry = asyncio.ensure_future(service.charge(caller_of(customer, retry_key), plan))
        await asyncio.wait([retry], timeout=0.1)
        assert not retry.done()
        await call.keep("the answer")
        assert await retry == Replayed("the answer")
    assert planned == [1]
