"""The last 24 hours of channels and nodes, from the site's hours: latency by channel, calls by hour."""

from collections import defaultdict
from collections.abc import Sequence

from markupsafe import Markup
from msgspec import Struct

from myna.billing import reports
from myna.billing.reports import SiteHour
from myna.lib.times import HOUR_MS, hour_of, hour_offset
from myna.office.charts import small_bars
from myna.office.messages import N_
from myna.office.render import duration
from myna.office.visit import Visit

HOURS = 24


class Bucket(Struct, frozen=True):
    """Calls whose duration is within a power of two, such as `64 ms – 127 ms`."""

    label: str
    calls: int


class Latency(Struct, frozen=True):
    """The calls of a channel. `half` and `most` are the buckets by whose end half and 95 % of the delivered
    ones had ended."""

    name: str
    calls: int
    ok_calls: int
    half: str
    most: str
    buckets: list[Bucket]
    chart: Markup


class Strip(Struct, frozen=True):
    """A channel's calls, hour by hour."""

    calls: int
    chart: Markup


async def latencies(visit: Visit) -> list[Latency]:
    """Every channel and node that ended a call in the last 24 hours, the most used one first."""
    by_channel: defaultdict[str, list[SiteHour]] = defaultdict(list)
    for hour in (await _hours(visit))[1]:
        if hour.channel:
            by_channel[hour.channel].append(hour)
    found = [_latency(visit, name, hours) for name, hours in by_channel.items()]
    return sorted(found, key=lambda one: (-one.calls, one.name))


def _latency(visit: Visit, name: str, hours: Sequence[SiteHour]) -> Latency:
    counts = [0] * max(len(hour.latency) for hour in hours)
    for hour in hours:
        for bucket, calls in enumerate(hour.latency):
            counts[bucket] += calls
    first = next((bucket for bucket, calls in enumerate(counts) if calls), 0)
    buckets = [Bucket(_label(bucket), counts[bucket]) for bucket in range(first, len(counts))]
    title = visit.text(N_("Calls of {name} by their time")).format(name=name)
    return Latency(
        name=name,
        calls=sum(hour.calls for hour in hours),
        ok_calls=sum(hour.ok_calls for hour in hours),
        half=_within(counts, 0.5),
        most=_within(counts, 0.95),
        buckets=buckets,
        chart=small_bars([one.label for one in buckets], [one.calls for one in buckets], title),
    )


def _within(counts: Sequence[int], share: float) -> str:
    """The bucket by whose end this share of the calls had ended; "–" without calls."""
    left = sum(counts) * share
    for bucket, calls in enumerate(counts):
        left -= calls
        if calls and left <= 0:
            return _label(bucket)
    return "–"


def _end(bucket: int) -> int:
    return (1 << bucket) - 1


def _label(bucket: int) -> str:
    if bucket == 0:
        return "< 1 ms"
    start, end = _end(bucket - 1) + 1, _end(bucket)
    return duration(start) if start == end else f"{duration(start)} – {duration(end)}"


async def strips(visit: Visit) -> dict[str, Strip]:
    """The calls of each channel and node by hour. All have one scale."""
    start, hours = await _hours(visit)
    calls: defaultdict[str, list[int]] = defaultdict(lambda: [0] * HOURS)
    for hour in hours:
        place = (hour.hour - start) // HOUR_MS
        calls[hour.channel][place] += hour.calls
    top = max((max(values) for values in calls.values()), default=0)
    labels = [visit.date(start + place * HOUR_MS) for place in range(HOURS)]
    title = visit.text(N_("Calls of {name} by hour"))
    return {
        name: Strip(sum(values), small_bars(labels, values, title.format(name=name), top))
        for name, values in calls.items()
    }


async def _hours(visit: Visit) -> tuple[int, list[SiteHour]]:
    """The start of the first of the last 24 hours, the present one included, and what ended in them."""
    start = hour_of(visit.now_ms, hour_offset(visit.time_zone, visit.now_ms)) - (HOURS - 1) * HOUR_MS
    return start, await reports.site_hours(visit.db, start, start + HOURS * HOUR_MS)
