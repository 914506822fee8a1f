"""Usage by key over time, and the ledger: a month as a waterfall, its entries, and codes to redeem. Both are
also CSV files, as spreadsheets open them.
"""

import csv
import io
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing
from datetime import UTC, date, datetime, timedelta
from functools import partial

from msgspec import Struct, structs
from starlette.responses import Response, StreamingResponse

from myna.accounts.keys import Scope
from myna.actions.codes import RedeemCode
from myna.billing import reports
from myna.billing.reports import LedgerFilter, LedgerPage, Month, Usage
from myna.lib.times import EPOCH, HOUR_MS, day_of, hour_offset
from myna.office import charts
from myna.office.page import Page
from myna.office.render import N_
from myna.office.visit import Visit
from myna.store.batch import EntryKind
from myna.store.queries import keys as keys_store
from myna.store.queries.reports import UsageRow

CsvRow = Sequence[object]
FORMULA = re.compile(r"(^|[;\t\r\n])(?=[^\S;\t\r\n]*[=+\-@＝＋－＠]|[\t\r])")
"""Where a cell begins with a formula, also for a spreadsheet that separates cells by `;` or a tab."""
PERIODS = {
    "24h": N_("24 hours"),
    "7d": N_("7 days"),
    "30d": N_("30 days"),
    "90d": N_("90 days"),
    "365d": N_("a year"),
}
MEASURES = {"units": N_("units"), "calls": N_("calls")}


class Report(Struct, frozen=True):
    """Usage in a period: the places of the chart, their labels, shorter ones for its axis, the names of keys,
    and the rows, a week at a time, since an account may have many."""

    places: list[int]
    labels: list[str]
    ticks: list[str]
    names: dict[int, str]
    rows: AsyncGenerator[list[UsageRow]]


async def show_usage(visit: Visit) -> Response:
    """The chart and the sums by key."""
    period, measure = _choice(visit, "period", PERIODS, "30d"), _choice(visit, "measure", MEASURES, "units")
    report = await _report(visit, period)
    series, lines, by_rate = await _summed(report, measure)
    series = charts.limited(series)
    title = visit.text(N_("Usage by key"))
    return visit.page(
        "usage.html",
        period=period,
        periods=PERIODS,
        measure=measure,
        measures=MEASURES,
        chart=charts.stacked_bars(report.labels, series, title, ticks=report.ticks),
        series=series,
        lines=lines,
        total=reports.total(usage for _, _, usage in lines),
        chat=by_rate[Scope.CHAT],
        speech=by_rate[Scope.TTS],
    )


async def download_usage(visit: Visit) -> Response:
    """The rows of the period."""
    period = _choice(visit, "period", PERIODS, "30d")
    report = await _report(visit, period)
    head = "hour" if period == "24h" else "day", "key", "key_id", "rate", "calls", "delivered", "units", "ms"
    return await csv_response(f"usage-{period}.csv", head, _cells(report))


async def _cells(report: Report) -> AsyncGenerator[list[CsvRow]]:
    labels = dict(zip(report.places, report.labels, strict=True))
    async for rows in report.rows:
        yield [
            (
                labels[row.at], report.names.get(row.key_id, ""), row.key_id, Scope(row.kind).names[0],
                row.calls, row.ok_calls, row.units, row.ms,
            )
            for row in rows
        ]  # fmt: skip


def _choice(visit: Visit, name: str, choices: dict[str, str], default: str) -> str:
    found = visit.parameter(name, default)
    return found if found in choices else default


async def _report(visit: Visit, period: str) -> Report:
    keys = await visit.read(keys_store.of_account, account_id=visit.account.id)
    names = {key.id: visit.key_name(key) for key in keys}
    if period == "24h":
        offset = hour_offset(visit.time_zone, visit.now_ms)
        end = (visit.now_ms + offset) // HOUR_MS * HOUR_MS - offset + HOUR_MS
        begin = end - 24 * HOUR_MS
        places = list(range(begin, end, HOUR_MS))
        labels = [visit.date(place) for place in places]
        return Report(places, labels, [label[-5:] for label in labels], names, _by_hour(visit, begin, end))
    days = int(period.removesuffix("d"))
    today = day_of(visit.time_zone, visit.now_ms)
    places = list(range(today - days + 1, today + 1))
    weeks = reports.usage_by_week(visit.read, visit.account.id, places[0], today)
    labels = [_day(place).isoformat() for place in places]
    ticks = [label[:7] if days > 90 else label[5:] for label in labels]
    return Report(places, labels, ticks, names, weeks)


async def _by_hour(visit: Visit, begin: int, end: int) -> AsyncGenerator[list[UsageRow]]:
    account_id = visit.account.id
    rows = await visit.read(reports.usage_by_hour, account_id=account_id, start_ms=begin, end_ms=end)
    # Hours of before a change of the zone may begin at other minutes.
    yield [structs.replace(row, at=row.at - (row.at - begin) % HOUR_MS) for row in rows]


def _day(number: int) -> date:
    return EPOCH + timedelta(days=number)


Line = tuple[str, int, Usage]
"""The name and the id of a key, and its sum in the period."""


async def _summed(
    report: Report, measure: str
) -> tuple[list[charts.Series], list[Line], defaultdict[int, Usage]]:
    """The series of the chart, the lines of the table, and the sum of each rate."""
    index = {place: number for number, place in enumerate(report.places)}
    values: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(report.places))
    by_key: defaultdict[int, Usage] = defaultdict(Usage)
    by_rate: defaultdict[int, Usage] = defaultdict(Usage)
    async for rows in report.rows:
        for row in rows:
            values[row.key_id][index[row.at]] += getattr(row, measure)
            by_key[row.key_id] = by_key[row.key_id].plus(row)
            by_rate[row.kind] = by_rate[row.kind].plus(row)
    ranked = sorted(by_key.items(), key=lambda item: (-item[1].units, -item[1].calls, item[0]))
    lines = [(report.names.get(key_id, f"#{key_id}"), key_id, usage) for key_id, usage in ranked]
    return [charts.Series(name, values[key_id]) for name, key_id, _ in lines], lines, by_rate


ROWS = 50
_MONTH = re.compile(r"(20[0-9]{2})-(0[1-9]|1[0-2])")
KINDS = {
    "charge": (EntryKind.CHARGE, N_("charge")),
    "refund": (EntryKind.REFUND, N_("refund")),
    "grant": (EntryKind.GRANT, N_("grant")),
    "redeem": (EntryKind.REDEEM, N_("code")),
}
LABELS = dict(KINDS.values())


MEMOS = (N_("opening grant"), N_("first units"))
"""Memos of the service's own. They are stored in English."""
_OF_CODE = re.compile(r"code of batch ([0-9]+)(: .*)?", re.DOTALL)


def memo_of(visit: Visit, memo: str) -> str:
    """A memo in the language of the page, if it is the service's own."""
    if of_code := _OF_CODE.fullmatch(memo):
        return visit.text(N_("code of batch {id}")).format(id=of_code[1]) + (of_code[2] or "")
    return visit.text(memo) if memo in MEMOS else memo


class Period(Struct, frozen=True):
    """A month of the address."""

    year: int
    month: int

    @property
    def text(self) -> str:
        return f"{self.year}-{self.month:02}"

    def moved(self, months: int) -> "Period":
        """The month so many months later."""
        number = self.year * 12 + self.month - 1 + months
        return Period(number // 12, number % 12 + 1)


async def show_ledger(visit: Visit) -> Response:
    """A month, and a page of its entries."""
    period = _period(visit)
    month = await _month(visit, period)
    kind = visit.parameter("kind")
    page = await _page(visit, _filter(visit, month), visit.parameter("before"), ROWS)
    keys = await visit.read(keys_store.of_account, account_id=visit.account.id)
    return visit.page(
        "ledger.html",
        month=month,
        period=period,
        first_month=_month_of(visit, visit.account.created_at),
        present=_month_of(visit, visit.now_ms),
        chart=_chart(visit, month) if month.entries else None,
        page=page,
        kind=kind,
        kinds=[(name, label) for name, (_, label) in KINDS.items()],
        labels=LABELS,
        memo_of=partial(memo_of, visit),
        names={key.id: visit.key_name(key) for key in keys},
        proof=await visit.read(reports.balance_proof, account_id=visit.account.id),
        redeem_words=RedeemCode(account=visit.account.name, code="CODE").words,
    )


async def redeem(visit: Visit) -> Response:
    """Redeems a code."""
    redeemed = await visit.perform(visit.fields(RedeemCode, account=visit.account.name), own=True)
    balance = f"{redeemed.account.balance:,}"
    one, many = "{count} unit added. Balance: {balance}.", N_("{count} units added. Balance: {balance}.")
    return visit.redirect("/ledger", visit.counted(one, many, redeemed.units, balance=balance))


async def download_ledger(visit: Visit) -> Response:
    """The entries of the month as CSV."""
    period = _period(visit)
    month = await _month(visit, period)
    head = ("time", "kind", "units", "balance", "key_id", "call", "request_id", "memo", "model")
    return await csv_response(f"ledger-{period.text}.csv", head, _rows(visit, _filter(visit, month)))


async def _rows(visit: Visit, only: LedgerFilter) -> AsyncGenerator[list[CsvRow]]:
    before, more = "", True
    while more:
        page = await _page(visit, only, before, reports.PAGE_MAX)
        yield [
            (
                visit.date(entry.at, seconds=True), EntryKind(entry.kind).name.lower(), entry.units,
                entry.balance, entry.key_id or "", entry.call_id.hex(), entry.request_id, entry.memo,
                entry.route,
            )
            for entry in page.entries
        ]  # fmt: skip
        before, more = page.before, bool(page.before)


async def _page(visit: Visit, only: LedgerFilter, before: str, limit: int) -> LedgerPage:
    page = partial(reports.ledger_page, account_id=visit.account.id, only=only, before=before, limit=limit)
    return await visit.read(page)


async def _month(visit: Visit, period: "Period") -> Month:
    month = partial(reports.month, account_id=visit.account.id, year=period.year, number=period.month)
    return await visit.read(month)


def _month_of(visit: Visit, at_ms: int) -> Period:
    at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(visit.zone)
    return Period(at.year, at.month)


def _period(visit: Visit) -> Period:
    match = _MONTH.fullmatch(visit.parameter("month"))
    return Period(int(match[1]), int(match[2])) if match else _month_of(visit, visit.now_ms)


def _filter(visit: Visit, month: Month) -> LedgerFilter:
    kind = KINDS.get(visit.parameter("kind"))
    return LedgerFilter(kind=kind[0] if kind else None, start_ms=month.start_ms, end_ms=month.end_ms)


def _chart(visit: Visit, month: Month) -> object:
    steps = [
        charts.Step(visit.text(N_("start"))),
        charts.Step(visit.text(N_("granted")), month.granted),
        charts.Step(visit.text(N_("redeemed")), month.redeemed),
        charts.Step(visit.text(N_("charged")), -month.charged),
        charts.Step(visit.text(N_("refunded")), month.refunded),
        charts.Step(visit.text(N_("end"))),
    ]
    return charts.waterfall(steps, visit.text(N_("The month in units")), start=month.start_balance)


async def csv_response(name: str, head: CsvRow, pages: AsyncGenerator[Iterable[CsvRow]]) -> Response:
    """A CSV file to download, in UTF-8 with a byte order mark, which Excel needs. It is sent page by page;
    the first one is read before the response begins, so that its errors are answered."""
    first = await anext(pages, ())

    async def parts() -> AsyncIterator[str]:
        async with aclosing(pages):
            yield "\ufeff" + _csv_text([head, *first])
            async for rows in pages:
                yield _csv_text(rows)

    file = StreamingResponse(parts(), media_type="text/csv; charset=utf-8")
    file.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return file


def _csv_text(rows: Iterable[CsvRow]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([cell(value) for value in row] for row in rows)
    return text.getvalue()


def cell(value: object) -> object:
    """Text that a spreadsheet would run as a formula gets an apostrophe before it (ASVS 1.2.10)."""
    return FORMULA.sub(r"\1'", value) if isinstance(value, str) else value


PAGES = [
    Page("/usage", show=show_usage),
    Page("/usage.csv", show=download_usage),
    Page("/ledger", show=show_ledger, submit=redeem),
    Page("/ledger.csv", show=download_ledger),
]
