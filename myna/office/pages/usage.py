"""Usage by key over time, as a chart, a table and a CSV file."""

from collections import defaultdict
from datetime import date, timedelta
from functools import partial

from msgspec import Struct, structs
from starlette.responses import Response

from myna import reports
from myna.keys import Scope
from myna.office import charts, csv_file
from myna.office.messages import N_
from myna.office.page import Page
from myna.office.visit import Visit
from myna.reports import KeyUsage, Usage
from myna.store.hours import HOUR_MS
from myna.store.queries import keys as keys_store
from myna.zones import EPOCH, day_of, hour_offset

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


class Report(Struct, frozen=True):
    """Usage in a period: the places and labels of the chart, and the rows."""

    places: list[int]
    labels: list[str]
    rows: list[KeyUsage]
    names: dict[int, str]


async def show(visit: Visit) -> Response:
    """The chart and the sums by key."""
    period, measure = _choice(visit, "period", PERIODS, "30d"), _choice(visit, "measure", MEASURES, "units")
    report = await _report(visit, period)
    series, lines = _by_key(report, measure)
    title = visit.text(N_("Usage by key"))
    return visit.page(
        "usage.html",
        period=period,
        periods=PERIODS,
        measure=measure,
        measures=MEASURES,
        chart=charts.stacked_bars(report.labels, series, title),
        series=charts.limited(series),
        lines=lines,
        total=reports.total(report.rows),
        chat=reports.total(row for row in report.rows if row.kind == Scope.CHAT),
        speech=reports.total(row for row in report.rows if row.kind == Scope.TTS),
    )


async def download(visit: Visit) -> Response:
    """The rows of the period."""
    period = _choice(visit, "period", PERIODS, "30d")
    report = await _report(visit, period)
    labels = dict(zip(report.places, report.labels, strict=True))
    return csv_file.response(
        f"usage-{period}.csv",
        ("hour" if period == "24h" else "day", "key", "key_id", "rate", "calls", "delivered", "units", "ms"),
        (
            (
                labels[row.at], report.names.get(row.key_id, ""), row.key_id, Scope(row.kind).names[0],
                row.usage.calls, row.usage.ok_calls, row.usage.units, row.usage.ms,
            )
            for row in report.rows
        ),
    )  # fmt: skip


def _choice(visit: Visit, name: str, choices: dict[str, str], default: str) -> str:
    found = visit.parameter(name, default)
    return found if found in choices else default


async def _report(visit: Visit, period: str) -> Report:
    keys = await visit.read(partial(keys_store.of_account, account_id=visit.account.id))
    names = {key.id: key.name for key in keys}
    if period == "24h":
        offset = hour_offset(visit.time_zone, visit.now_ms)
        end = (visit.now_ms + offset) // HOUR_MS * HOUR_MS - offset + HOUR_MS
        begin = end - 24 * HOUR_MS
        found = await reports.usage_by_hour(visit.db, visit.account.id, begin, end)
        # Hours of before a change of the zone may begin at other minutes.
        rows = [structs.replace(row, at=row.at - (row.at - begin) % HOUR_MS) for row in found]
        places = list(range(begin, end, HOUR_MS))
        return Report(places, [visit.date(place) for place in places], rows, names)
    days = int(period.removesuffix("d"))
    today = day_of(visit.time_zone, visit.now_ms)
    rows = await reports.usage_by_day(visit.db, visit.account.id, today - days + 1, today)
    places = list(range(today - days + 1, today + 1))
    return Report(places, [_day(place).isoformat() for place in places], rows, names)


def _day(number: int) -> date:
    return EPOCH + timedelta(days=number)


def _by_key(report: Report, measure: str) -> tuple[list[charts.Series], list[Line]]:
    index = {place: number for number, place in enumerate(report.places)}
    values: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(report.places))
    sums: defaultdict[int, Usage] = defaultdict(Usage)
    for row in report.rows:
        values[row.key_id][index[row.at]] += row.usage.units if measure == "units" else row.usage.calls
        sums[row.key_id] = sums[row.key_id].plus(row.usage)
    lines = [Line(report.names.get(key_id, f"#{key_id}"), key_id, usage) for key_id, usage in sums.items()]
    lines.sort(key=lambda line: (-line.usage.units, -line.usage.calls, line.key_id))
    series = [charts.Series(line.name, values[line.key_id]) for line in lines]
    return series, lines


PAGES = [Page(path="/usage", show=show), Page(path="/usage.csv", show=download)]
