"""What the pages and the CSV files read: usage, the ledger, and months.

A report is read in one snapshot, on the connection for reports: `Database.read`.
Times are Unix milliseconds. A day is the number of days since 1970-01-01 in the reporting zone, and an hour
begins at the zone's minutes. A call counts when it ended, a ledger entry when it was entered.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from functools import partial
from operator import attrgetter

from msgspec import Struct, structs

from myna.errors import CommandError, InvalidRequest
from myna.lib.times import HOUR_MS, day_of, day_start, month_start
from myna.store.batch import EntryKind
from myna.store.database import Queries
from myna.store.queries import accounts, audit_state, outbox
from myna.store.queries import reports as store
from myna.store.queries import rollup as rollup_store
from myna.store.queries.outbox import Place
from myna.store.queries.reports import UsageRow
from myna.store.queries.rollup import EntryRow

DAY_MS = 24 * HOUR_MS
HOURS_MAX_DAYS = 31
"""The longest period by the hour."""
DAYS_MAX = 2 * 366
"""The longest period by the day."""
SPARKLINE_DAYS = 30
PAGE_MAX = 500
"""Entries of the longest page of the ledger."""


class Usage(Struct, frozen=True):
    """Calls that ended: all of them, those delivered, the units of the delivered ones, and the sum of the
    durations of all in milliseconds."""

    calls: int = 0
    ok_calls: int = 0
    units: int = 0
    ms: int = 0

    def plus(self, row: "Usage | UsageRow") -> "Usage":
        return Usage(
            calls=self.calls + row.calls,
            ok_calls=self.ok_calls + row.ok_calls,
            units=self.units + row.units,
            ms=self.ms + row.ms,
        )


class LedgerEntry(EntryRow, frozen=True, gc=False):
    """An entry of the ledger. `number` counts the account's entries from 1, `balance` is in units after it.
    `call_id` is the grant's or the redemption's own id where there is no call, and `key_id` is 0 then."""

    memo: str
    request_id: str
    route: str


class LedgerPage(Struct, frozen=True):
    """Entries, newest first. `before` is what the next page takes, "" after the oldest entry."""

    entries: list[LedgerEntry]
    before: str


class LedgerFilter(Struct, frozen=True):
    """Which entries a page has: of a kind, from `start_ms` on and before `end_ms` (0: no end)."""

    kind: EntryKind | None = None
    start_ms: int = 0
    end_ms: int = 0


ALL_ENTRIES = LedgerFilter()
NO_DETAILS = ("", "", "")
ReadUsage = Callable[[Callable[[Queries], Awaitable[list[UsageRow]]]], Awaitable[list[UsageRow]]]
"""Runs a query in a snapshot: `Database.read`, or for a visitor, in turn with others, `Visit.read`."""


class Month(Struct, frozen=True):
    """A month of an account, in units: `start_balance` + `granted` + `redeemed` - `charged` + `refunded` =
    `end_balance`. `granted` is less what the operator took. `entries` is how many entries it has."""

    start_ms: int
    end_ms: int
    start_balance: int
    granted: int
    redeemed: int
    charged: int
    refunded: int
    end_balance: int
    entries: int


class BalanceProof(Struct, frozen=True):
    """The balance, and `units`, the sum of the account's `entries` entries. `checked_at` is when the audit
    last checked all balances, in Unix ms (0: never), `breaches` what it found."""

    balance: int
    units: int
    entries: int
    checked_at: int
    breaches: int


async def usage_by_hour(
    db: Queries, account_id: int, start_ms: int, end_ms: int, key_id: int | None = None
) -> list[UsageRow]:
    """The account's usage by hour, key (or of one key) and kind, in the hours that begin from `start_ms` on
    and before `end_ms`, oldest first. Raises CommandError for more than HOURS_MAX_DAYS."""
    if end_ms - start_ms > HOURS_MAX_DAYS * DAY_MS:
        raise CommandError(
            "A report by the hour has at most {hours_max_days} days.", hours_max_days=HOURS_MAX_DAYS
        )
    unfolded = await store.waiting(db, account_id)
    hours = await store.hours(db, account_id, start_ms, end_ms, unfolded, key_id)
    return _summed(hours, lambda hour: hour)


async def usage_by_day(db: Queries, account_id: int, first: int, last: int) -> list[UsageRow]:
    """The account's usage by day, key and kind, from the day `first` to `last`, oldest first. Raises
    CommandError for more than DAYS_MAX days.

    Days before yesterday come from `usage_days`, as far as these are up to date; the others from their hours
    and the outbox.
    """
    if last - first >= DAYS_MAX:
        raise CommandError("A report by the day has at most {days_max} days.", days_max=DAYS_MAX)
    state = await rollup_store.state(db)
    recent = day_of(state.zone, state.now) - 1
    stale = await store.oldest_stale(db, account_id, recent)
    waiting = await store.waiting(db, account_id)
    if stale is not None:
        recent = min(recent, stale)
    recent = min([recent, *(day_of(state.zone, hour) for hour in {row.at for row in waiting})])
    recent = max(first, min(recent, last + 1))
    days = _summed(await store.days(db, account_id, first, recent), lambda day: day)
    if recent > last:
        return days
    start, end = day_start(state.zone, recent), day_start(state.zone, last + 1)
    hours = await store.hours(db, account_id, start, end, waiting)
    return days + _summed(hours, partial(day_of, state.zone))


async def usage_by_week(
    read: ReadUsage, account_id: int, first_day: int, last_day: int
) -> AsyncGenerator[list[UsageRow]]:
    """As `usage_by_day`, a week and a snapshot at a time, so that many keys don't stop the event loop. `read`
    runs the query of each week."""
    for day in range(first_day, last_day + 1, 7):
        week = partial(usage_by_day, account_id=account_id, first=day, last=min(day + 6, last_day))
        yield await read(week)


def total(usages: Iterable[Usage | UsageRow]) -> Usage:
    """The sum of these."""
    found = Usage()
    for usage in usages:
        found = found.plus(usage)
    return found


async def sparklines(read: ReadUsage, account_id: int, today: int) -> dict[int, list[Usage]]:
    """Usage on each of the last SPARKLINE_DAYS days, the present one last, of each key of the account that
    was used in them, by its id."""
    first = today - SPARKLINE_DAYS + 1
    found: defaultdict[int, list[Usage]] = defaultdict(lambda: [Usage()] * SPARKLINE_DAYS)
    async for rows in usage_by_week(read, account_id, first, today):
        for row in rows:
            days = found[row.key_id]
            days[row.at - first] = days[row.at - first].plus(row)
    return dict(sorted(found.items()))


async def ledger_page(
    db: Queries, account_id: int, only: LedgerFilter = ALL_ENTRIES, before: str = "", limit: int = 50
) -> LedgerPage:
    """The account's newest entries, or those after the page that returned `before`. `limit` is PAGE_MAX at
    most. Raises InvalidRequest if `before` can't be read."""
    place = _place_of(before) if before else store.LAST_PLACE
    if only.end_ms:
        place = min(place, (only.end_ms, b"", 0))
    return await entries_below(db, account_id, place, min(limit, PAGE_MAX), only)


async def entries_below(
    db: Queries, account_id: int, place: Place, limit: int, only: LedgerFilter = ALL_ENTRIES
) -> LedgerPage:
    """The account's newest entries below this place."""
    kind = None if only.kind is None else int(only.kind)
    folded = await store.page(db, account_id, place, only.start_ms, kind, limit + 1)
    tail = [
        row
        for row in await _tail(db, account_id)
        if row.place < place and row.at >= only.start_ms and kind in (None, row.kind)
    ]
    found = sorted([*tail, *folded], key=attrgetter("place"), reverse=True)
    rows = found[:limit]
    details = await store.details(db, [row.call_id for row in rows])
    values = [(*structs.astuple(row), *details.get((row.call_id, row.kind), NO_DETAILS)) for row in rows]
    entries = [LedgerEntry(*each) for each in values]
    return LedgerPage(entries, _text_of(rows[-1].place) if len(found) > limit else "")


async def month(db: Queries, account_id: int, year: int, number: int) -> Month:
    """The account's month: `number` is 1 to 12, in the reporting zone."""
    zone = (await rollup_store.state(db)).zone
    start, end = month_start(zone, year, number), month_start(zone, year, number + 1)
    tail = await _tail(db, account_id)
    first = await _sums_before(db, account_id, start, tail)
    last = await _sums_before(db, account_id, end, tail)
    return Month(
        start_ms=start,
        end_ms=end,
        start_balance=first.balance,
        granted=_granted(last) - _granted(first),
        redeemed=last.redeemed - first.redeemed,
        charged=last.charged - first.charged,
        refunded=last.refunded - first.refunded,
        end_balance=last.balance,
        entries=last.number - first.number,
    )


async def balance_proof(db: Queries, account_id: int) -> BalanceProof:
    """The account's balance as the sum of its entries, and when the audit last checked it."""
    tail = await _tail(db, account_id)
    last = await _sums_before(db, account_id, store.LAST_PLACE[0], tail)
    state = await audit_state.state(db)
    account = await accounts.by_id(db, account_id)
    return BalanceProof(
        balance=account.balance if account else 0,
        units=last.balance,
        entries=last.number,
        checked_at=state.audited_at,
        breaches=state.breaches,
    )


def _summed(rows: Iterable[UsageRow], at: Callable[[int], int]) -> list[UsageRow]:
    """The rows, those of one key, rate and `at` of their time in one."""
    found: dict[tuple[int, int, int], Usage] = {}
    for row in rows:
        place = at(row.at), row.key_id, row.kind
        found[place] = found.get(place, Usage()).plus(row)
    return [UsageRow(*place, *structs.astuple(usage)) for place, usage in sorted(found.items())]


# ---- the ledger


async def _tail(db: Queries, account_id: int) -> list[EntryRow]:
    """The account's entries that are not folded yet, oldest first, with the sums up to each."""
    pending = await outbox.pending(db)
    mine = [one for one in pending.entries if one.account_id == account_id]
    if not mine:
        return []
    last = await rollup_store.last_before(db, account_id, store.LAST_PLACE[0])
    return [EntryRow(*row) for row in rollup_store.summed(last, mine)]


async def _sums_before(db: Queries, account_id: int, at: int, tail: list[EntryRow]) -> EntryRow:
    """The account's last entry before this time, of the tail or the folded ones."""
    of_tail = [row for row in tail if row.at < at]
    return of_tail[-1] if of_tail else await rollup_store.last_before(db, account_id, at)


def _granted(row: EntryRow) -> int:
    return row.balance + row.charged - row.refunded - row.redeemed


def _text_of(place: Place) -> str:
    """A place as it stands in an address."""
    return f"{place[0]}-{place[1].hex()}-{place[2]}"


def _place_of(text: str) -> Place:
    try:
        at, call_id, kind = text.split("-")
        place = int(at), bytes.fromhex(call_id), int(kind)
    except ValueError:
        place = -1, b"", 0
    if not 0 <= place[0] <= store.LAST_PLACE[0] or not 0 <= place[2] <= store.LAST_PLACE[2]:
        raise InvalidRequest("this isn't an entry of the ledger: {text!r}", field="before", text=text[:80])
    return place
