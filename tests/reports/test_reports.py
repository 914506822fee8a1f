"""What the pages and commands read: usage by hour and day, the ledger page by page, months, the site's
hours, and calls."""

from collections.abc import Awaitable, Callable
from datetime import date, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import structs

from myna.accounts.keys import Scope
from myna.actions.accounts import GrantUnits
from myna.billing import reports, rollup
from myna.billing.reports import LedgerEntry, LedgerFilter, Usage
from myna.config import SiteSettings
from myna.errors import CommandError, InvalidRequest, Overloaded
from myna.lib.ids import new_id
from myna.lib.times import day_of
from myna.office.pages.reports import download_usage
from myna.office.visit import Visit
from myna.store.batch import CallState, EntryKind
from myna.store.database import Queries
from myna.store.queries import reports as store
from myna.store.queries.reports import CALL_ID_MAX, CallRow
from myna.store.transaction_queue import TransactionQueue
from tests.rig.actors import perform
from tests.store.books import AUDIO, Books, Customer, charge_of, keep_of, refund_of, speech

GRANT, CHARGE, REFUND = EntryKind.GRANT, EntryKind.CHARGE, EntryKind.REFUND
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
FOLDED = pytest.mark.parametrize("folded", [True, False])


async def now(books: Books) -> int:
    return int((await books.sql("SELECT now_ms()"))[0][0])


async def use(books: Books, customer: Customer, *, kept: int = 1, refunded: int = 0, ms: int = 0) -> None:
    """Calls of two units that take `ms`."""
    made = [await books.opened(customer, units=2) for _ in range(kept + refunded)]
    await books.move_clock(ms)
    await books.end(*map(keep_of, made[:kept]), *map(refund_of, made[kept:]))


async def roll(books: Books, folded: bool, zone: str = "UTC") -> None:
    if folded:
        await rollup.roll(books.db, zone)


@FOLDED
async def test_usage_by_hour_is_by_key_and_rate(books: Books, folded: bool) -> None:
    await books.stop_clock()
    customer = await books.customer(units=100)
    second, other = await books.second_key(customer), await books.customer(units=100)
    at = await now(books)
    await use(books, customer, kept=2, refunded=1, ms=30)
    await use(books, second)
    await use(books, other)
    await use(books, customer)
    speech = charge_of(customer, pays=int(Scope.TTS), units=7)
    await books.charge(speech)
    await books.end(keep_of(speech))
    await roll(books, folded)

    rows = await reports.usage_by_hour(books.db, customer.account_id, at - HOUR_MS, at + HOUR_MS)

    found = {(row.key_id, row.kind): Usage(row.calls, row.ok_calls, row.units, row.ms) for row in rows}
    assert found == {
        (customer.key_id, Scope.CHAT): Usage(4, 3, 6, 90),
        (customer.key_id, Scope.TTS): Usage(1, 1, 7, 0),
        (second.key_id, Scope.CHAT): Usage(1, 1, 2, 0),
    }
    with pytest.raises(CommandError, match="31 days"):
        await reports.usage_by_hour(books.db, customer.account_id, 0, 31 * DAY_MS + 1)


@FOLDED
async def test_days_are_those_of_the_zone_and_never_lag(books: Books, folded: bool) -> None:
    customer = await books.customer(units=100)
    await rollup.roll(books.db, "Asia/Shanghai")
    await books.stop_clock()
    noon = (await now(books)) // DAY_MS * DAY_MS + DAY_MS + 4 * HOUR_MS  # at noon in Shanghai
    await books.move_clock(noon - await now(books))
    for _ in range(4):  # noon, three in the morning of the next day, …
        await use(books, customer)
        await roll(books, folded, "Asia/Shanghai")
        await books.move_clock(15 * HOUR_MS)
    await roll(books, folded, "Asia/Shanghai")

    first = day_of("Asia/Shanghai", noon)
    rows = await reports.usage_by_day(books.db, customer.account_id, first, first + 9)

    assert [(row.at - first, row.calls) for row in rows] == [(0, 1), (1, 2), (2, 1)]
    today = day_of("Asia/Shanghai", await now(books))
    ago = today - first
    days = (await reports.sparklines(books.db.read, customer.account_id, today))[customer.key_id]
    assert [day.calls for day in days][-1 - ago :] == [1, 2, 1, 0, 0][: ago + 1]
    with pytest.raises(CommandError, match="732 days"):
        await reports.usage_by_day(books.db, customer.account_id, 0, 732)


class Reads:
    """A database whose owners' reads are refused while it is `full`, and those of the system are not."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._owners, self._full = TransactionQueue(1), TransactionQueue(1, waiting_max=0)
        self.full = False

    async def read(self, query: Callable[[Queries], Awaitable[Any]]) -> Any:
        async with (self._full if self.full else self._owners).turn():
            return await self._books.db.read(query)


async def test_all_weeks_of_a_download_are_read_in_turn_with_other_accounts(books: Books) -> None:
    customer = await books.customer(units=100)
    reads = Reads(books)
    site: Any = SimpleNamespace(db=reads, config=SimpleNamespace(settings=SiteSettings()))
    session: Any = SimpleNamespace(account=SimpleNamespace(id=customer.account_id))
    request: Any = SimpleNamespace(query_params={"period": "30d"})
    nothing: Any = None
    file: Any = await download_usage(Visit(request, site, nothing, nothing, session))
    reads.full = True
    with pytest.raises(Overloaded):
        [part async for part in file.body_iterator]


async def test_a_day_that_is_written_has_its_late_calls_at_once(books: Books) -> None:
    await books.stop_clock()
    customer = await books.customer(units=100)
    day = day_of("UTC", await now(books))
    await use(books, customer)
    await books.move_clock(3 * DAY_MS)
    await rollup.roll(books.db, "UTC")
    await books.move_clock(-3 * DAY_MS)
    await use(books, customer)
    await books.move_clock(3 * DAY_MS)

    (found,) = await reports.usage_by_day(books.db, customer.account_id, day, day)

    assert found.calls == 2


async def every_entry(
    books: Books, customer: Customer, only: LedgerFilter = reports.ALL_ENTRIES, limit: int = 50
) -> list[LedgerEntry]:
    """The entries of all pages."""
    found: list[LedgerEntry] = []
    before = ""
    while True:
        page = await reports.ledger_page(books.db, customer.account_id, only, before, limit)
        found += page.entries
        if not page.before:
            return found
        before = page.before


@FOLDED
async def test_the_ledger_comes_page_by_page_with_balances(books: Books, folded: bool) -> None:
    customer, other = await books.customer(units=100), await books.customer(units=50)
    await books.move_clock(1)  # within a millisecond entries have no order
    for _ in range(3):
        await use(books, customer, kept=2, refunded=1)
        await use(books, other)
    await roll(books, folded)
    await use(books, customer, kept=1)
    await books.move_clock(1000)
    await perform(books.db, GrantUnits(name=customer.name, units=5, memo="a gift"))

    found = await every_entry(books, customer, limit=4)
    assert len(found) == 1 + 3 * 4 + 1 + 1
    assert [entry.number for entry in found] == list(range(len(found), 0, -1))
    assert found[0].balance == await books.balance(customer)
    for newer, older in pairwise(found):
        assert newer.balance == older.balance + newer.units
    assert found[0].memo == "a gift"
    assert found[-1].memo == "opening grant"
    with pytest.raises(InvalidRequest, match="before"):
        await reports.ledger_page(books.db, customer.account_id, before="yesterday")


@FOLDED
async def test_a_page_has_a_kind_or_a_period(books: Books, folded: bool) -> None:
    await books.stop_clock()
    customer = await books.customer(units=100)
    second = await books.second_key(customer)
    await books.move_clock(HOUR_MS)
    middle = await now(books)
    await use(books, second, kept=1, refunded=1)
    await books.move_clock(HOUR_MS)
    for _ in range(5):
        await books.move_clock(1)
        await use(books, customer)
    await roll(books, folded)

    async def entries(only: LedgerFilter, limit: int = 50) -> list[tuple[int, int]]:
        return [(one.kind, one.key_id) for one in await every_entry(books, customer, only, limit)]

    of_second = [(REFUND, second.key_id), (CHARGE, second.key_id), (CHARGE, second.key_id)]
    assert await entries(LedgerFilter(kind=REFUND)) == of_second[:1]
    assert await entries(LedgerFilter(kind=GRANT), 1) == [(GRANT, 0)]
    assert await entries(LedgerFilter(kind=CHARGE), 2) == [(CHARGE, customer.key_id)] * 5 + of_second[1:]
    assert sorted(await entries(LedgerFilter(start_ms=middle, end_ms=middle + 1))) == sorted(of_second)


@FOLDED
async def test_a_month_adds_up(books: Books, folded: bool) -> None:
    await books.stop_clock()
    customer = await books.customer(units=100)
    await use(books, customer, kept=2, refunded=1)
    await perform(books.db, GrantUnits(name=customer.name, units=-10, memo="taken"))
    began = date(1970, 1, 1) + timedelta(days=day_of("UTC", await now(books)))
    await roll(books, folded)
    await books.move_clock(32 * DAY_MS)
    await use(books, customer)
    await roll(books, folded)

    first = await reports.month(books.db, customer.account_id, began.year, began.month)
    following = began.replace(day=1) + timedelta(days=31)
    second = await reports.month(books.db, customer.account_id, following.year, following.month)
    assert (first.start_balance, first.granted, first.charged, first.refunded) == (0, 90, 6, 2)
    assert (first.redeemed, first.end_balance, first.entries) == (0, 86, 6)
    later = await reports.balance_proof(books.db, customer.account_id)
    assert (later.units, later.entries, later.checked_at) == (84, 7, 0)
    assert second.start_balance == 86


async def test_the_site_counts_calls_by_channel_and_latency(books: Books) -> None:
    await books.stop_clock()
    customer = await books.customer(units=100)
    at = await now(books)
    for ms in (0, 5, 7, 8):
        await use(books, customer, ms=ms)
    await books.end(refund_of(await books.opened(customer, units=2)))
    await rollup.roll(books.db, "UTC")

    rows = await store.site_hours(books.db, at - HOUR_MS, at + HOUR_MS)

    assert {(row.channel, row.kind) for row in rows} == {("", Scope.CHAT)}
    assert [sum(getattr(row, name) for row in rows) for name in ("calls", "ok_calls", "units")] == [5, 4, 8]
    delivered = {row.bucket: row.ok_calls for row in rows if row.ok_calls}
    assert delivered == {0: 1, 3: 2, 4: 1}, "a refunded call has no latency"


async def test_a_key_knows_when_it_was_last_used(books: Books) -> None:
    await books.stop_clock()
    customer = await books.customer(units=100)
    await books.second_key(customer)
    await use(books, customer, ms=5)

    assert await store.last_used(books.db, customer.account_id) == {customer.key_id: await now(books)}


@FOLDED
async def test_the_accounts_that_used_most_units_come_first(books: Books, folded: bool) -> None:
    await books.stop_clock()
    light, heavy = await books.customer(units=100), await books.customer(units=100)
    before = await now(books)
    await use(books, heavy)
    await books.move_clock(2 * HOUR_MS)
    await use(books, light, kept=1, refunded=2)
    await roll(books, folded)
    await use(books, heavy, kept=3)

    async def most_used(start: int, limit: int) -> list[store.AccountUsage]:
        return await books.db.snapshot(lambda db: store.usage_by_account(db, start, limit))

    names = {row.account: row for row in await most_used(before - HOUR_MS, 9)}
    assert [(row.calls, row.ok_calls, row.units) for row in names.values()] == [(4, 4, 8), (3, 1, 2)]
    (newest,) = await most_used(before + HOUR_MS, 1)
    assert (newest.account, newest.calls, newest.units) == (next(iter(names)), 3, 6)
    assert await most_used(before + 4 * HOUR_MS, 9) == []


async def test_the_ledger_is_listed_by_time_with_the_balance_after_each_entry(books: Books) -> None:
    await books.stop_clock()
    customer, other = await books.customer(units=10), await books.customer()
    await books.move_clock(1000)
    slow = await books.opened(customer, units=4, request_id="slow")
    await books.opened(other)
    await books.move_clock(1000)
    await books.opened(customer, units=1, request_id="quick")
    await books.move_clock(1000)
    await books.end(refund_of(slow))
    await books.move_clock(1000)
    await perform(books.db, GrantUnits(name=customer.name, units=-2, memo="a correction"))

    found = await every_entry(books, customer)

    moved = [(GRANT, -2, 7), (REFUND, 4, 9), (CHARGE, -1, 5), (CHARGE, -4, 6), (GRANT, 10, 10)]
    assert [(entry.kind, entry.units, entry.balance) for entry in found] == moved
    assert [entry.request_id for entry in found] == ["", "slow", "quick", "slow", ""]
    assert [found[0].memo, found[1].call_id] == ["a correction", slow.call_id]
    place = await store.place_of(books.db, customer.account_id, slow.call_id, REFUND)
    assert place is not None
    page = await reports.entries_below(books.db, customer.account_id, place, 2)
    assert page.entries == found[2:4]
    assert await store.place_of(books.db, other.account_id, slow.call_id, REFUND) is None


async def test_a_call_is_found_by_its_id_its_request_and_its_account(books: Books) -> None:
    customer, other = await books.customer(), await books.customer()
    first, second, third = sorted(new_id() for _ in range(3))  # as if each was made in a later millisecond
    kept = await books.opened(
        customer, call_id=first, request_id="a request", task=speech(), units=2, route="tts"
    )
    await books.end(structs.replace(keep_of(kept, None, AUDIO), channel="main"))
    refunded = await books.opened(customer, call_id=second, request_id="a request")
    await books.end(refund_of(refunded, "UpstreamFailed"))
    running = await books.opened(customer, call_id=third, request_id="another")
    await books.opened(other, request_id="a stranger's")

    (call,) = await store.call(books.db, kept.call_id)

    ((task_id,),) = await books.sql("SELECT id FROM tasks")
    assert (call.account, call.key_id, call.state, call.units) == (customer.name, customer.key_id, 1, 2)
    assert (call.channel, call.request_id, call.task_id) == ("main", "a request", task_id)
    assert call.created_at <= call.ended_at < call.deadline

    async def ids(found: list[CallRow]) -> list[bytes]:
        return [row.id for row in found]

    of_request = await store.calls_of_request(books.db, "a request", CALL_ID_MAX, 10)
    assert await ids(of_request) == [refunded.call_id, kept.call_id]
    assert [row.state for row in of_request] == [CallState.REFUNDED, CallState.KEPT]
    assert [row.reason for row in of_request] == ["UpstreamFailed", ""]
    assert [row.route for row in of_request] == ["", "tts"]
    newest = await store.calls_of_account(books.db, customer.account_id, CALL_ID_MAX, 2)
    assert await ids(newest) == [running.call_id, refunded.call_id]
    older = await store.calls_of_account(books.db, customer.account_id, refunded.call_id, 2)
    assert await ids(older) == [kept.call_id]
