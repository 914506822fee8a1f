"""The conditions of a charge, in the order of their refusals."""

import pytest
from msgspec import structs

from myna.accounts.keys import Scope
from myna.actions.accounts import DisableAccount, EnableAccount
from myna.actions.keys import RevokeKey
from myna.store.batch import Charged, ChargeOutcome, ChargeRefused, RefusalReason, Replayed
from tests.rig.actors import perform
from tests.store.books import (
    KEY_REFUSED,
    Books,
    charge_of,
    charged_of,
    idempotency_key_of,
    keep_of,
    refund_of,
)

RATE_REFUSED, STALE = ChargeRefused(RefusalReason.RATE), ChargeRefused(RefusalReason.STALE)


async def nothing_moved(books: Books) -> bool:
    calls = await books.sql("SELECT id FROM calls")
    return not calls and not await books.sql("SELECT call_id FROM ledger WHERE kind <> 2")


async def test_a_charge_takes_its_units_and_opens_its_call(books: Books) -> None:
    customer = await books.customer(units=10)

    (outcome,) = await books.charge(call := charge_of(customer, units=3))

    assert outcome == charged_of(customer, 7)
    assert await books.balance(customer) == 7
    assert await books.entries(call.call_id) == [(0, -3)]
    assert await books.state(call.call_id) == 0
    assert await books.counters(customer) == (1, 0, 3)


async def test_the_deadline_of_a_call_counts_from_its_commit(books: Books) -> None:
    customer = await books.customer()
    call = await books.opened(customer, deadline_ms=12_345)
    assert await books.sql("SELECT deadline - created_at FROM calls WHERE id = $1", call.call_id) == [
        (12_345,)
    ]


@pytest.mark.parametrize(
    ("changes", "refusal"),
    [
        pytest.param({"key_hash": b"?" * 32}, KEY_REFUSED, id="an_unknown_key"),
        pytest.param({"scope": int(Scope.RECORDS)}, KEY_REFUSED, id="a_key_without_the_endpoints_scope"),
        pytest.param({"pays": int(Scope.TTS)}, RATE_REFUSED, id="a_rate_without_its_scope"),
        pytest.param({"config_version": 2}, STALE, id="another_configuration"),
        pytest.param({"units": 3}, ChargeRefused(RefusalReason.UNITS, 2), id="a_charge_over_the_balance"),
    ],
)
async def test_a_refused_charge_moves_nothing(
    books: Books, changes: dict[str, object], refusal: ChargeRefused
) -> None:
    customer = await books.customer(units=2, scopes=Scope.CHAT)
    assert await books.charge(charge_of(customer, **changes)) == [refusal]
    assert await nothing_moved(books)
    assert await books.balance(customer) == 2


async def test_a_revoked_key_is_refused(books: Books) -> None:
    customer = await books.customer()
    await perform(books.db, RevokeKey(key=str(customer.key_id)))
    assert await books.charge(charge_of(customer)) == [KEY_REFUSED]
    assert await nothing_moved(books)


async def test_a_key_is_refused_from_the_moment_it_expires(books: Books) -> None:
    customer = await books.customer(life_ms=60_000)
    call = await books.opened(customer)
    await books.move_clock(60_000)
    assert await books.charge(charge_of(customer)) == [KEY_REFUSED]
    assert await books.end(keep_of(call)) == ["done"]
    assert await books.counters(customer) == (1, 1, 1)


async def test_the_key_of_a_disabled_account_is_refused_until_it_is_enabled(books: Books) -> None:
    customer = await books.customer()
    await perform(books.db, DisableAccount(name=customer.name, force=True))
    assert await books.charge(charge_of(customer)) == [KEY_REFUSED]
    assert await nothing_moved(books)
    await perform(books.db, EnableAccount(name=customer.name))
    assert isinstance((await books.charge(charge_of(customer)))[0], Charged)


async def test_the_last_unit_can_be_spent(books: Books) -> None:
    customer = await books.customer(units=1)
    assert await books.charge(charge_of(customer), charge_of(customer)) == [
        charged_of(customer, 0), ChargeRefused(RefusalReason.UNITS, 0),
    ]  # fmt: skip
    assert await books.balance(customer) == 0


async def test_a_free_call_is_opened_with_a_balance_of_zero(books: Books) -> None:
    customer = await books.customer(units=0)
    call = await books.opened(customer, units=0)
    assert await books.end(keep_of(call)) == ["done"]
    assert await books.counters(customer) == (1, 1, 0)


async def test_refusals_have_the_same_order_on_both_databases(books: Books) -> None:
    """Key, then rate, then idempotency key, then configuration, then units; here all are wrong at once.
    A rate that was decided under an old configuration is decided again."""
    good = await books.customer(units=1)
    poor = await books.second_key(good, Scope.CHAT)
    order = idempotency_key_of()
    stale, unpaid = {"config_version": 0}, {"pays": int(Scope.TTS)}
    dear = {**stale, "units": 9}
    first = await books.opened(good, idempotency_key=order)

    async def outcome(**changes: object) -> ChargeOutcome:
        return (await books.charge(charge_of(poor, **changes)))[0]

    assert await outcome(key_hash=b"?" * 32, idempotency_key=order, **dear, **unpaid) == KEY_REFUSED
    assert await outcome(idempotency_key=order, **dear, **unpaid) == STALE
    assert await outcome(idempotency_key=order, **unpaid, units=9) == RATE_REFUSED
    assert await outcome(idempotency_key=idempotency_key_of(body="another"), **dear) == ChargeRefused(
        RefusalReason.REUSED
    )
    assert await outcome(idempotency_key=order, **dear) == ChargeRefused(RefusalReason.PENDING)
    await books.end(keep_of(first, "the answer"))
    assert await outcome(idempotency_key=order, **dear) == Replayed("the answer")
    assert await outcome(idempotency_key=order, **unpaid, units=9) == RATE_REFUSED
    assert await outcome(**dear) == STALE
    assert await outcome(units=9) == ChargeRefused(RefusalReason.UNITS, 0)
    assert await books.counters(poor) == (0, 0, 0)


async def test_a_call_keeps_its_request_its_channel_and_its_usage(books: Books) -> None:
    customer = await books.customer()
    kept, other, refunded = [await books.opened(customer, request_id=f"req-{n}") for n in range(3)]
    await books.end(
        structs.replace(keep_of(kept), channel="main", usage='{"input_tokens":1}'),
        structs.replace(keep_of(other), channel="spare", usage='{"input_tokens":2}'),
        structs.replace(refund_of(refunded), channel="main"),
    )
    assert await books.sql("SELECT request_id, state, channel, usage FROM calls ORDER BY request_id") == [
        ("req-0", 1, "main", '{"input_tokens":1}'), ("req-1", 1, "spare", '{"input_tokens":2}'),
        ("req-2", 2, "main", ""),
    ]  # fmt: skip
