"""The caps of keys in the batch: charged, given back, renewed."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from myna.accounts import caps
from myna.accounts.caps import Cap, Period
from myna.actions.keys import RollKey, SetKeyCap
from myna.errors import CommandError
from myna.store.batch import Charged, ChargeRefused, RefusalReason
from myna.store.queries import keys as store
from tests.rig.actors import perform
from tests.store.books import Books, Customer, charge_of, keep_of, refund_of

DAY_MS = 86_400_000
CAP = ChargeRefused(RefusalReason.CAP)
PERIOD = ChargeRefused(RefusalReason.PERIOD)


async def set_cap(books: Books, customer: Customer, cap: Cap | None) -> None:
    await perform(books.db, SetKeyCap(key=str(customer.key_id), cap=str(cap or "none")))


async def capped(books: Books, units: int, period: Period = Period.DAY, balance: int = 1000) -> Customer:
    """A customer whose key has a cap, in its first period."""
    customer = await books.customer(units=balance)
    await set_cap(books, customer, Cap(units, period))
    await caps.renew(books.db, customer.key_hash, "UTC")
    return customer


async def used(books: Books, customer: Customer) -> int:
    row = await store.cap_of(books.db, customer.key_id)
    assert row is not None
    return row.used


async def test_a_key_is_charged_up_to_its_cap(books: Books) -> None:
    customer = await capped(books, 10)
    await books.opened(customer, units=4)
    await books.end(keep_of(await books.opened(customer, units=6)))
    assert await books.charge(charge_of(customer, units=1)) == [CAP]
    assert (await used(books, customer), await books.balance(customer)) == (10, 990)


async def test_charges_at_once_never_exceed_the_cap(books: Books) -> None:
    customer = await capped(books, 10)
    outcomes = await books.charged_by_two([charge_of(customer) for _ in range(30)])
    assert sum(isinstance(outcome, Charged) for outcome in outcomes) == 10
    assert await used(books, customer) == 10


async def test_a_refund_gives_back_to_the_cap_once(books: Books) -> None:
    customer = await capped(books, 10)
    first, second = await books.opened(customer, units=4), await books.opened(customer, units=6)
    await books.end(refund_of(first), refund_of(first))
    await books.end(refund_of(first), keep_of(second))
    assert await used(books, customer) == 6
    (outcome,) = (await books.db.commit_batch([refund_of(second)], [charge_of(customer, units=5)]))[1]
    assert outcome == CAP
    assert isinstance((await books.charge(charge_of(customer, units=4)))[0], Charged)


async def test_a_charge_that_is_sent_again_takes_once(books: Books) -> None:
    customer = await capped(books, 10)
    call = await books.opened(customer, units=4)
    await books.charge(call)
    assert await used(books, customer) == 4


@pytest.mark.parametrize("reason", ["units", "stale"])
async def test_a_charge_refused_otherwise_takes_nothing_from_the_cap(books: Books, reason: str) -> None:
    customer = await capped(books, 10, balance=3)
    change = {"units": {"units": 4}, "stale": {"config_version": 99}}[reason]
    (outcome,) = await books.charge(charge_of(customer, **change))
    assert isinstance(outcome, ChargeRefused)
    assert outcome.why == reason
    assert await used(books, customer) == 0


async def test_the_cap_is_renewed_after_its_period_and_a_late_refund_changes_nothing(books: Books) -> None:
    await books.stop_clock()
    customer = await capped(books, 10)
    call = await books.opened(customer, units=7, deadline_ms=9 * DAY_MS)
    await books.move_clock(DAY_MS)
    assert await books.charge(charge_of(customer)) == [PERIOD]
    await caps.renew(books.db, customer.key_hash, "UTC")
    await books.opened(customer, units=9)
    await caps.renew(books.db, customer.key_hash, "UTC")
    await books.end(refund_of(call))
    assert (await used(books, customer), await books.balance(customer)) == (9, 991)


async def test_a_period_ends_with_its_last_millisecond(books: Books) -> None:
    await books.stop_clock()
    customer = await capped(books, 10)
    await books.opened(customer, units=2, deadline_ms=9 * DAY_MS)
    row = await store.cap_of(books.db, customer.key_id)
    assert row is not None
    ((now,),) = await books.sql("SELECT now_ms()")
    await books.move_clock(row.ends_at - 1 - now)
    await books.opened(customer, units=5, deadline_ms=9 * DAY_MS)
    assert await books.charge(charge_of(customer, units=4)) == [CAP]
    await books.move_clock(1)
    assert await books.charge(charge_of(customer)) == [PERIOD]
    assert (caps.used(row, row.ends_at - 1), caps.used(row, row.ends_at)) == (2, 0)
    await caps.renew(books.db, customer.key_hash, "UTC")
    await books.opened(customer, units=9)
    assert await used(books, customer) == 9


async def test_a_cap_with_other_units_keeps_its_use_and_one_of_another_period_does_not(books: Books) -> None:
    customer = await capped(books, 10)
    call = await books.opened(customer, units=7)
    await set_cap(books, customer, Cap(5, Period.DAY))
    assert await books.charge(charge_of(customer)) == [CAP]
    await set_cap(books, customer, Cap(5, Period.WEEK))
    assert await books.charge(charge_of(customer)) == [PERIOD]
    await caps.renew(books.db, customer.key_hash, "UTC")
    await books.opened(customer, units=2)
    await books.end(refund_of(call))
    assert await used(books, customer) == 2
    await set_cap(books, customer, None)
    await books.end(refund_of(await books.opened(customer, units=100)))
    await caps.renew(books.db, customer.key_hash, "UTC")
    assert await store.cap_of(books.db, customer.key_id) is None


async def test_calls_before_a_cap_do_not_count_in_it(books: Books) -> None:
    await books.stop_clock()
    customer = await capped(books, 10)
    earlier = await books.opened(customer, units=10)
    await set_cap(books, customer, None)
    await set_cap(books, customer, Cap(10, Period.DAY))
    await caps.renew(books.db, customer.key_hash, "UTC")
    await books.opened(customer, units=10)
    await books.end(refund_of(earlier))
    assert await used(books, customer) == 10


async def test_a_rolled_key_has_the_same_cap_of_which_nothing_is_used(books: Books) -> None:
    customer = await capped(books, 10)
    await books.opened(customer, units=3)
    rolled = await perform(books.db, RollKey(key=str(customer.key_id), grace="1d"))
    row = await store.cap_of(books.db, rolled.issued.id)
    assert row is not None
    assert (caps.of_row(row), row.used) == (Cap(10, Period.DAY), 0)


def ms(text: str, zone: ZoneInfo) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=zone).timestamp() * 1000)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/New_York", "Asia/Kathmandu"])
@pytest.mark.parametrize(
    ("period", "first", "following"),
    [
        (Period.DAY, "2026-11-01", "2026-11-02"),
        (Period.WEEK, "2026-10-26", "2026-11-02"),
        (Period.MONTH, "2026-11-01", "2026-12-01"),
    ],
)
def test_periods_begin_at_midnight_of_the_zone(zone: str, period: Period, first: str, following: str) -> None:
    """On 2026-11-01, a Sunday, the clocks of New York go back."""
    there = ZoneInfo(zone)
    bounds = (ms(first, there), ms(following, there))
    for moment in ("2026-11-01T00:00:00", "2026-11-01T23:59:59"):
        assert caps.bounds(period, ms(moment, there), zone) == bounds


def test_a_day_whose_midnight_is_skipped_begins_at_the_change_of_the_clock() -> None:
    beirut = ZoneInfo("Asia/Beirut")  # 2024-03-31 began at 01:00
    start, _ = caps.bounds(Period.DAY, ms("2024-03-31T12:00:00", beirut), "Asia/Beirut")
    assert datetime.fromtimestamp(start / 1000, UTC).isoformat() == "2024-03-30T22:00:00+00:00"


def test_a_cap_is_written_as_it_is_parsed() -> None:
    for text in ("1/day", "1000/week", f"{2**53 - 1}/month"):
        assert str(caps.parsed(text)) == text
    for text in ("", "0/day", "-1/day", "5", "5/year", "5/Day", f"{2**53}/day"):
        with pytest.raises(CommandError, match="not a cap"):
            caps.parsed(text)


async def test_charges_of_one_batch_share_the_cap(books: Books) -> None:
    customer = await capped(books, 10)
    other = await books.second_key(customer)
    outcomes = await books.charge(
        *(charge_of(key, units=4) for key in (customer, other, customer, other, customer, other))
    )
    assert [isinstance(outcome, Charged) for outcome in outcomes] == [True, True, True, True, False, True]
    assert outcomes[4] == CAP
    assert (await used(books, customer), await books.balance(customer)) == (8, 980)


async def test_refunded_units_of_the_cap_can_be_charged_in_the_same_batch(books: Books) -> None:
    customer = await capped(books, 10)
    first = await books.opened(customer, units=10)
    _, (outcome,) = await books.db.commit_batch([refund_of(first)], [charge_of(customer, units=9)])
    assert isinstance(outcome, Charged)
    assert await used(books, customer) == 9
