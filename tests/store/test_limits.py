"""The limits of keys and accounts in the batch: checked, counted, given back."""

from typing import Any

import pytest

from myna.accounts import caps, keys
from myna.accounts.caps import Cap, Period
from myna.accounts.limits import as_texts
from myna.actions.accounts import LimitAccount
from myna.actions.keys import LimitKey, RollKey, SetKeyCap, SetKeyRoutes
from myna.store.batch import (
    DAY_MS,
    MINUTE_MS,
    Charged,
    ChargeOutcome,
    ChargeRefused,
    DefaultLimits,
    LimitReached,
    Limits,
    Rate,
    RefusalReason,
)
from myna.store.queries import keys as store
from tests.rig.actors import perform
from tests.store.books import Books, Customer, charge_of, keep_of, refund_of

RPM, CONCURRENT, UNITS = RefusalReason.RPM, RefusalReason.CONCURRENT, RefusalReason.UNITS_PER_DAY


async def limited(books: Books, *, units: int = 1000, **limits: int | None) -> Customer:
    """A customer whose key has these limits."""
    customer = await books.customer(units=units)
    await perform(books.db, LimitKey(key=str(customer.key_id), **as_texts(limits)))
    return customer


async def limit_account(books: Books, customer: Customer, **limits: int | None) -> None:
    await perform(books.db, LimitAccount(name=customer.name, **as_texts(limits)))


async def outcome(books: Books, customer: Customer, **changes: Any) -> ChargeOutcome:
    (found,) = await books.charge(charge_of(customer, **changes))
    return found


async def outcomes(books: Books, *customers: Customer, **changes: Any) -> list[RefusalReason | None]:
    """The refusals of charges in one batch; None for a charged one."""
    found = await books.charge(*(charge_of(customer, **changes) for customer in customers))
    return [one.why if isinstance(one, ChargeRefused) else None for one in found]


async def open_calls(books: Books, customer: Customer) -> tuple[int, int]:
    """Those of the key and of the account."""
    rows = await store.limits_of_account(books.db, customer.account_id)
    none = store.LimitsRow(0)
    return rows.get(customer.key_id, none).open_calls, rows.get(store.OF_ACCOUNT, none).open_calls


async def day_units(books: Books, customer: Customer) -> list[tuple[Any, ...]]:
    return await books.sql(
        "SELECT key_id, day_units FROM limits WHERE account_id = $1 ORDER BY key_id", customer.account_id
    )


async def test_a_key_makes_the_calls_of_its_limit_in_a_minute_from_its_first(books: Books) -> None:
    await books.stop_clock()
    customer = await limited(books, rpm=2)
    first = await outcome(books, customer)
    assert isinstance(first, Charged)
    assert first.rate == Rate(limit=2, remaining=1, reset_ms=MINUTE_MS)
    await books.move_clock(MINUTE_MS - 1000)
    second = await outcome(books, customer)
    assert isinstance(second, Charged)
    assert second.rate == Rate(limit=2, remaining=0, reset_ms=1000)
    reached = LimitReached(of_key=True, limit=2, used=2, reset_ms=1000)
    assert await outcome(books, customer) == ChargeRefused(RPM, limit=reached)
    await books.move_clock(999)
    assert await outcomes(books, customer) == [RPM]
    await books.move_clock(1)
    assert await outcomes(books, customer, customer, customer) == [None, None, RPM]
    assert await books.balance(customer) == 996


async def test_open_calls_are_limited_until_they_end(books: Books) -> None:
    customer = await limited(books, concurrent=2)
    calls = [await books.opened(customer) for _ in range(2)]
    reached = LimitReached(of_key=True, limit=2, used=2, reset_ms=0)
    assert await outcome(books, customer) == ChargeRefused(CONCURRENT, limit=reached)
    await books.end(keep_of(calls[0]), keep_of(calls[0]))
    assert await open_calls(books, customer) == (1, 0)
    calls[0] = await books.opened(customer)
    assert await outcomes(books, customer) == [CONCURRENT]
    await books.end(refund_of(calls[0]), refund_of(calls[1]))
    assert await open_calls(books, customer) == (0, 0)
    await books.end(refund_of(calls[0]), refund_of(calls[1]))
    assert await open_calls(books, customer) == (0, 0)


async def test_units_of_a_day_are_limited_and_refunds_are_given_back(books: Books) -> None:
    await books.stop_clock()
    customer = await limited(books, units_per_day=10)
    first = await books.opened(customer, units=4, deadline_ms=9 * DAY_MS)
    await books.end(keep_of(await books.opened(customer, units=5)))
    await books.move_clock(1000)
    reached = LimitReached(of_key=True, limit=10, used=9, reset_ms=DAY_MS - 1000)
    assert await outcome(books, customer, units=2) == ChargeRefused(UNITS, limit=reached)
    await books.opened(customer, units=1)
    await books.end(refund_of(first))
    await books.opened(customer, units=4)
    assert await outcomes(books, customer) == [UNITS]
    assert await outcomes(books, customer, units=0) == [None]


async def test_a_charge_returns_the_limit_of_which_the_least_is_left(books: Books) -> None:
    customer = await limited(books, rpm=5)
    await limit_account(books, customer, rpm=3)
    for remaining in (2, 1, 0):
        found = await outcome(books, customer)
        assert isinstance(found, Charged)
        assert found.rate is not None
        assert (found.rate.limit, found.rate.remaining) == (3, remaining)
    refused = await outcome(books, customer)
    assert isinstance(refused, ChargeRefused) and refused.limit is not None
    assert (refused.limit.of_key, refused.limit.used) == (False, 3)
    await limit_account(books, customer, rpm=50)
    found = await outcome(books, customer)
    assert isinstance(found, Charged)
    assert found.rate is not None
    assert (found.rate.limit, found.rate.remaining) == (5, 1)


async def test_the_limits_of_the_site_hold_where_there_is_no_other(books: Books) -> None:
    site = DefaultLimits(key=Limits(rpm=2, concurrent=9), account=Limits(units_per_day=3))
    plain, free = await books.customer(units=1000), await limited(books, rpm=0)
    own = await limited(books, rpm=1)
    for customer, refusals in (
        (plain, [None, None, RPM]),
        (free, [None, None, None, UNITS]),
        (own, [None, RPM]),
    ):
        several = [customer] * len(refusals)
        assert await outcomes(books, *several, default_limits=site) == refusals
    assert await outcomes(books, plain, free) == [None, None], "no limits of the site any more"
    await perform(books.db, LimitKey(key=str(own.key_id), rpm="default"))
    assert await outcomes(books, own, own, default_limits=site) == [None, RPM]


@pytest.mark.parametrize("reason", ["units", "cap", "route", "stale", "limit of the account"])
async def test_a_charge_refused_for_another_reason_counts_nowhere(books: Books, reason: str) -> None:
    customer = await limited(books, units=9, rpm=2, concurrent=2, units_per_day=100)
    await perform(books.db, SetKeyCap(key=str(customer.key_id), cap=str(Cap(5, Period.DAY))))
    await caps.renew(books.db, customer.key_hash, "UTC")
    await perform(books.db, SetKeyRoutes(key=str(customer.key_id), route=("svc-chat",)))
    await limit_account(books, customer, units_per_day=5 if reason.startswith("limit") else 100)
    change: dict[str, Any] = {
        "units": {"units": 10},
        "cap": {"units": 6},
        "route": {"route": "tts-1"},
        "stale": {"config_version": 99},
        "limit of the account": {"units": 6},
    }[reason]
    for _ in range(5):
        assert await outcomes(books, customer, **{"route": "svc-chat"} | change) != [None]
    assert await outcomes(books, customer, route="svc-chat") == [None]
    assert await open_calls(books, customer) == (1, 1)
    assert await day_units(books, customer) == [(0, 1), (customer.key_id, 1)]
    assert await books.sql("SELECT used FROM key_caps") == [(1,)]


async def test_a_charge_that_a_limit_refuses_takes_nothing_from_the_cap(books: Books) -> None:
    customer = await limited(books, concurrent=1)
    await perform(books.db, SetKeyCap(key=str(customer.key_id), cap=str(Cap(5, Period.DAY))))
    await caps.renew(books.db, customer.key_hash, "UTC")
    assert await outcomes(books, customer, customer, customer) == [None, CONCURRENT, CONCURRENT]
    assert await books.sql("SELECT used FROM key_caps") == [(1,)]


async def test_a_charge_that_is_sent_again_counts_once(books: Books) -> None:
    customer = await limited(books, rpm=2, concurrent=5, units_per_day=9)
    call = await books.opened(customer)
    await books.charge(call, call)
    assert await open_calls(books, customer) == (1, 0)
    assert await outcomes(books, customer, customer) == [None, RPM]


async def test_charges_of_two_processes_never_exceed_a_limit(books: Books) -> None:
    customer = await limited(books, rpm=10)
    await limit_account(books, customer, concurrent=7)
    found = await books.charged_by_two([charge_of(customer) for _ in range(30)])
    assert sum(isinstance(outcome, Charged) for outcome in found) == 7
    assert await open_calls(books, customer) == (7, 7)


async def test_calls_from_before_a_limit_do_not_count_in_it(books: Books) -> None:
    customer = await books.customer(units=1000)
    before = await books.opened(customer, units=7)
    await perform(books.db, LimitKey(key=str(customer.key_id), concurrent="1", units_per_day="5"))
    call = await books.opened(customer, units=5)
    await books.end(refund_of(before))
    assert await open_calls(books, customer) == (1, 0)
    assert await day_units(books, customer) == [(customer.key_id, 5)]
    await books.end(keep_of(call))
    assert await open_calls(books, customer) == (0, 0)


async def test_a_clock_that_was_far_ahead_does_not_hold_a_limit(books: Books) -> None:
    await books.stop_clock()
    customer = await limited(books, rpm=1, units_per_day=1)
    await books.move_clock(300 * DAY_MS)
    call = await books.opened(customer, deadline_ms=900 * DAY_MS)
    assert await outcomes(books, customer) == [RPM]
    await books.move_clock(-1000)
    assert await outcomes(books, customer) == [RPM], "a small correction begins no minute"
    await books.move_clock(1000 - 300 * DAY_MS)
    await books.opened(customer)
    await books.end(refund_of(call))
    assert await day_units(books, customer) == [(customer.key_id, 1)]
    assert await outcomes(books, customer) == [RPM]


async def test_a_rolled_key_has_the_same_limits_of_which_nothing_is_used(books: Books) -> None:
    customer = await limited(books, rpm=3, concurrent=0)
    await books.opened(customer)
    rolled = await perform(books.db, RollKey(key=str(customer.key_id), grace="1d"))
    row = await store.limits_of(books.db, customer.account_id, rolled.issued.id)
    assert row == store.LimitsRow(rolled.issued.id, rpm=3, concurrent=0)
    new = Customer(customer.account_id, customer.name, rolled.issued.id, keys.hash_of(rolled.issued.key))
    assert await outcomes(books, *[new] * 4) == [None, None, None, RPM]


async def test_a_call_that_ends_in_a_batch_makes_room_in_it(books: Books) -> None:
    customer = await limited(books, concurrent=1)
    call = await books.opened(customer)
    _, (found,) = await books.db.commit_batch([keep_of(call)], [charge_of(customer)])
    assert isinstance(found, Charged)
    assert await open_calls(books, customer) == (1, 0)


async def test_a_late_refund_does_not_count_in_the_next_day(books: Books) -> None:
    await books.stop_clock()
    customer = await limited(books, units_per_day=10)
    await limit_account(books, customer, units_per_day=10)
    call = await books.opened(customer, units=7, deadline_ms=9 * DAY_MS)
    await books.move_clock(DAY_MS - 1)
    assert await outcomes(books, customer, units=4) == [UNITS]
    await books.move_clock(1)
    await books.opened(customer, units=9)
    await books.end(refund_of(call))
    assert await day_units(books, customer) == [(0, 9), (customer.key_id, 9)]
    assert await open_calls(books, customer) == (1, 1)


async def test_charges_of_several_accounts_in_one_batch_count_apart(books: Books) -> None:
    customers = [await limited(books, rpm=2, concurrent=3) for _ in range(3)]
    for customer in customers:
        await limit_account(books, customer, units_per_day=100)
    assert await outcomes(books, *customers, *customers, *customers) == [None] * 6 + [RPM] * 3
    assert [await open_calls(books, customer) for customer in customers] == [(2, 2)] * 3


async def test_calls_that_end_after_a_limit_was_removed_are_not_open_when_set_again(books: Books) -> None:
    customer = await limited(books, concurrent=2)
    calls = [await books.opened(customer) for _ in range(2)]
    await perform(books.db, LimitKey(key=str(customer.key_id), **as_texts({"concurrent": None})))
    free = await books.opened(customer)
    await books.end(keep_of(calls[0]), keep_of(free))
    await perform(books.db, LimitKey(key=str(customer.key_id), **as_texts({"concurrent": 2})))
    assert await open_calls(books, customer) == (1, 0)
    assert await outcomes(books, customer, customer) == [None, CONCURRENT]


async def test_only_limited_keys_and_accounts_count(books: Books) -> None:
    customer = await books.customer()
    await books.end(keep_of(await books.opened(customer)))
    found = await outcome(books, customer)
    assert isinstance(found, Charged)
    assert found.rate is None
    assert await books.sql("SELECT key_id FROM limits") == []
    assert await books.sql("SELECT key_day, account_day FROM calls") == [(0, 0), (0, 0)]


@pytest.mark.parametrize(("limit", "window_ms"), [("rpm", MINUTE_MS), ("units_per_day", DAY_MS)])
async def test_a_clock_that_is_set_back_by_more_than_a_window_begins_another(
    books: Books, limit: str, window_ms: int
) -> None:
    await books.stop_clock()
    customer = await limited(books, **{limit: 1})
    await books.opened(customer, deadline_ms=9 * DAY_MS)
    await books.move_clock(-window_ms)  # two windows before the end of this one
    assert await outcomes(books, customer) == [RefusalReason(limit)]
    await books.move_clock(-1)
    assert await outcomes(books, customer) == [None]


async def test_a_day_after_a_clock_was_set_back_counts_no_refund_of_an_earlier_one(books: Books) -> None:
    await books.stop_clock()
    customer = await limited(books, units_per_day=10)
    calls = []
    for units, moved_ms in ((3, 0), (4, -3 * DAY_MS), (5, 3 * DAY_MS)):  # the third at the time of the first
        await books.move_clock(moved_ms)
        calls.append(await books.opened(customer, units=units, deadline_ms=90 * DAY_MS))
    await books.end(refund_of(calls[0]), refund_of(calls[1]))
    assert await day_units(books, customer) == [(customer.key_id, 5)]
    await books.end(refund_of(calls[2]))
    assert await day_units(books, customer) == [(customer.key_id, 0)]
