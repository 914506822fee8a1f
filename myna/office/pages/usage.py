"""Usage by key over time, as a chart, a table and a CSV file."""

from collections import defaultdict
from collections.abc import AsyncGenerator
from datetime import date, timedelta
from functools import partial

from msgspec import Struct, structs
from starlette.responses import Response

from myna.accounts.keys import Scope
from myna.billing import reports
from myna.billing.reports import KeyUsage, Usage
from myna.lib.times import EPOCH, HOUR_MS, day_of, hour_offset
from myna.office import charts, page
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.visit import Visit
from myna.store.queries import keys as keys_store

PERIODS = {
    "24h": N_("24 hours"),
    "7d": N_("7 days"),
    "30d": N_("30 days"),
    "90d": N_("90 days"),
    "365d": N_("a year"),
}
MEASURES = {"units": N_("units"), "calls": N_("calls")}


class Line(Struct, frozen=True):
    """A key's sum in the period."""

    name: str
    key_id: int
    usage: Usage


class Sums(Struct, frozen=True):
    """The series of the chart, the lines of the table, and the sum of each rate."""

    series: list[charts.Series]
    lines: list[Line]
    by_rate: dict[int, Usage]


class Report(Struct, frozen=True):
    """Usage in a period: the places of the chart, their labels, shorter ones for its axis, the names of keys,
    and the rows, a week at a time, since an account may have many."""

    places: list[int]
    labels: list[str]
    ticks: list[str]
    names: dict[int, str]
    rows: AsyncGenerator[list[KeyUsage]]


async def show(visit: Visit) -> Response:
    """The chart and the sums by key."""
    period, measure = _choice(visit, "period", PERIODS, "30d"), _choice(visit, "measure", MEASURES, "units")
    report = await _report(visit, period)
    sums = await _summed(report, measure)
    title = visit.text(N_("Usage by key"))
    series = charts.limited(sums.series)
    return visit.page(
        "usage.html",
        period=period,
        periods=PERIODS,
        measure=measure,
        measures=MEASURES,
        chart=charts.stacked_bars(report.labels, series, title, ticks=report.ticks),
        series=series,
        lines=sums.lines,
        total=reports.total(line.usage for line in sums.lines),
        chat=sums.by_rate.get(Scope.CHAT, Usage()),
        speech=sums.by_rate.get(Scope.TTS, Usage()),
    )


async def download(visit: Visit) -> Response:
    """The rows of the period."""
    period = _choice(visit, "period", PERIODS, "30d")
    report = await _report(visit, period)
    head = "hour" if period == "24h" else "day", "key", "key_id", "rate", "calls", "delivered", "units", "ms"
    return await page.csv_response(f"usage-{period}.csv", head, _cells(report))


async def _cells(report: Report) -> AsyncGenerator[list[page.Row]]:
    labels = dict(zip(report.places, report.labels, strict=True))
    async for rows in report.rows:
        yield [
            (
                labels[row.at], report.names.get(row.key_id, ""), row.key_id, Scope(row.kind).names[0],
                row.usage.calls, row.usage.ok_calls, row.usage.units, row.usage.ms,
            )
            for row in rows
        ]  # fmt: skip


def _choice(visit: Visit, name: str, choices: dict[str, str], default: str) -> str:
    found = visit.parameter(name, default)
    return found if found in choices else default


async def _report(visit: Visit, period: str) -> Report:
    keys = await visit.read(partial(keys_store.of_account, account_id=visit.account.id))
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
    weeks = reports.usage_by_week(visit.db, visit.account.id, places[0], today)
    labels = [_day(place).isoformat() for place in places]
    ticks = [label[:7] if days > 90 else label[5:] for label in labels]
    return Report(places, labels, ticks, names, weeks)


async def _by_hour(visit: Visit, begin: int, end: int) -> AsyncGenerator[list[KeyUsage]]:
    rows = await reports.usage_by_hour(visit.db, visit.account.id, begin, end)
    # Hours of before a change of the zone may begin at other minutes.
    yield [structs.replace(row, at=row.at - (row.at - begin) % HOUR_MS) for row in rows]


def _day(number: int) -> date:
    return EPOCH + timedelta(days=number)


async def _summed(report: Report, measure: str) -> Sums:
    index = {place: number for number, place in enumerate(report.places)}
    values: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(report.places))
    by_key: defaultdict[int, Usage] = defaultdict(Usage)
    by_rate: defaultdict[int, Usage] = defaultdict(Usage)
    async for rows in report.rows:
        for row in rows:
            values[row.key_id][index[row.at]] += getattr(row.usage, measure)
            by_key[row.key_id] = by_key[row.key_id].plus(row.usage)
            by_rate[row.kind] = by_rate[row.kind].plus(row.usage)
    lines = [Line(report.names.get(key_id, f"#{key_id}"), key_id, usage) for key_id, usage in by_key.items()]
    lines.sort(key=lambda line: (-line.usage.units, -line.usage.calls, line.key_id))
    return Sums([charts.Series(line.name, values[line.key_id]) for line in lines], lines, by_rate)


PAGES = [Page(path="/usage", show=show), Page(path="/usage.csv", show=download)]
