"""The channels in the order in which they are tried: their states, a test of each, and the last 24 hours of
channels and nodes: latency by channel, calls by hour.
"""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial

from markupsafe import Markup
from msgspec import Struct, structs
from starlette.responses import Response

from myna.actions.channels import DisableChannel, EnableChannel, OrderChannels, TryChannel
from myna.billing import reports
from myna.billing.reports import SiteHour
from myna.channels.channels import Channel, is_local, no_channel
from myna.errors import CommandError
from myna.gateway import trial as channel_trial
from myna.gateway.trial import Trial
from myna.lib.net import without_login
from myna.lib.times import HOUR_MS, hour_of, hour_offset
from myna.office.charts import small_bars
from myna.office.messages import N_
from myna.office.page import Page, performs
from myna.office.render import duration
from myna.office.visit import Visit
from myna.store.queries import config as config_store
from myna.store.queries.config import CircuitRow

PATH = "/site/channels"
TRIAL_MAX_S = 60.0
KINDS = (N_("chat"), N_("speech"))

FAILURES = (
    N_("status {status}"),
    N_("{server} can't be reached: {why}."),
    N_("{server} didn't connect within {seconds} s."),
    N_("{server} closed the connection without an answer."),
    N_("{server} closed the connection within its answer."),
    N_("{server} sent nothing for {seconds} s."),
    N_("{server} sent no whole response before the deadline."),
    N_("{server} sent an answer that is not HTTP/1.1."),
    N_("the answer has no {list_name}"),
    N_("the answer is no chat completion"),
    N_("the answer is not what was asked for"),
    N_("the answer reports an error"),
    N_("the channel sent an error"),
    N_("the channel sent an event that is no JSON"),
    N_("the channel's response failed"),
    N_("the stream ended before the answer was complete"),
    N_("the stream had no event"),
)
"""What opens most circuits, as it is stored."""


class Row(Struct, frozen=True):
    """A line of the table. `address` is the URL without a login, empty for an engine of this machine."""

    channel: Channel
    address: str
    circuit: CircuitRow
    first: bool
    last: bool


class Result(Struct, frozen=True):
    """The result of a test: `trial`, with the name of its `audio`, or `error`. `model` is the form's."""

    name: str
    model: str = ""
    trial: Trial | None = None
    audio: str = ""
    error: str = ""


async def show(visit: Visit, result: Result | None = None) -> Response:
    """All channels, by kind."""
    channels = await known(visit)
    circuits = await visit.read(config_store.load_circuits)
    tables = {kind: _rows([one for one in channels if one.kind == kind], circuits) for kind in KINDS}
    return visit.page(
        "site/channels.html",
        latencies=await latencies(visit),
        tables={kind: rows for kind, rows in tables.items() if rows},
        result=result,
        keys_in_files=visit.parts.settings.keys_in_files,
    )


async def known(visit: Visit) -> list[Channel]:
    """All channels as the service has them, in their order."""
    return visit.parts.channels.all(await visit.config())


async def found(visit: Visit, name: str) -> Channel:
    """The channel of this name. Raises CommandError."""
    channels = await known(visit)
    for channel in channels:
        if channel.name == name:
            return channel
    raise no_channel(name, [one.name for one in channels])


def _rows(channels: list[Channel], circuits: dict[str, CircuitRow]) -> list[Row]:
    movable = [channel.name for channel in channels if channel.source == "database"]
    return [
        Row(
            channel=channel,
            address="" if is_local(channel) else without_login(channel.url),
            circuit=circuits.get(channel.name, CircuitRow()),
            first=channel.name not in movable or channel.name == movable[0],
            last=channel.name not in movable or channel.name == movable[-1],
        )
        for channel in channels
    ]


async def test(visit: Visit) -> Response:
    """Sends the channel a request, and shows its answer."""
    action = visit.fields(TryChannel)
    try:
        channel = await found(visit, action.name)
        await visit.perform(action)
        result = await _try(visit, structs.replace(channel, model=action.model or channel.model))
    except CommandError as error:
        result = Result(action.name, error=visit.said(error))
    return visit.result(PATH, await show(visit, structs.replace(result, model=action.model)))


async def _try(visit: Visit, channel: Channel) -> Result:
    """Raises CommandError."""
    parts = visit.parts
    deadline_s = min(parts.settings.call_deadline_s, TRIAL_MAX_S)
    if channel.kind == "chat":
        chat = partial(channel_trial.chat, parts.http_client, parts.channels, parts.settings)
        return Result(channel.name, trial=await chat(channel, deadline_s))
    engine = parts.channels.engine(channel)
    if engine is None:
        raise CommandError(
            "The channel {name!r} has no engine in this process; see the log.", name=channel.name
        )
    if parts.space.low:
        raise CommandError("The disk has less free space than MYNA_DISK_RESERVE_BYTES.")
    # No row names the file, so the service removes it within two hours.
    audio, path = parts.audio.new()
    speech = partial(channel_trial.speech, parts.http_client, parts.channels)
    trial = await speech(channel, engine, path, deadline_s)
    await parts.audio.keep(audio)
    return Result(channel.name, trial=trial, audio=audio)


async def move(visit: Visit) -> Response:
    """Moves a channel by one place among those of its kind."""
    moved = await found(visit, visit.typed("name"))
    names = [one.name for one in await known(visit) if one.source == "database" and one.kind == moved.kind]
    if moved.name in names:
        place = names.index(moved.name)
        other = max(0, place - 1) if visit.typed("up") == "true" else min(len(names) - 1, place + 1)
        names[place], names[other] = names[other], names[place]
    await visit.perform(OrderChannels(names=tuple(names)))
    return visit.redirect(PATH)


HOURS = 24


class Latency(Struct, frozen=True):
    """The calls of a channel. A bucket is a duration within a power of two, such as `64 ms – 127 ms`, with
    its calls. `half` and `most` are those by whose end half and 95 % of the delivered ones had ended."""

    name: str
    calls: int
    ok_calls: int
    half: str
    most: str
    buckets: list[tuple[str, int]]
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
    labels = [_label(bucket) for bucket in range(first, len(counts))]
    title = visit.text(N_("Calls of {name} by their time")).format(name=name)
    return Latency(
        name=name,
        calls=sum(hour.calls for hour in hours),
        ok_calls=sum(hour.ok_calls for hour in hours),
        half=_within(counts, 0.5),
        most=_within(counts, 0.95),
        buckets=list(zip(labels, counts[first:], strict=True)),
        chart=small_bars(counts[first:], title, labels=labels),
    )


def _within(counts: Sequence[int], share: float) -> str:
    """The bucket by whose end this share of the calls had ended; "–" without calls."""
    left = sum(counts) * share
    for bucket, calls in enumerate(counts):
        left -= calls
        if calls and left <= 0:
            return _label(bucket)
    return "–"


def _label(bucket: int) -> str:
    if bucket == 0:
        return "< 1 ms"
    start, end = 1 << bucket - 1, (1 << bucket) - 1
    return duration(start) if start == end else f"{duration(start)} – {duration(end)}"


async def strips(visit: Visit) -> dict[str, tuple[int, Markup]]:
    """The calls of each channel and node in all, and by hour. All have one scale."""
    start, hours = await _hours(visit)
    calls: defaultdict[str, list[int]] = defaultdict(lambda: [0] * HOURS)
    for hour in hours:
        place = (hour.hour - start) // HOUR_MS
        calls[hour.channel][place] += hour.calls
    top = max((max(values) for values in calls.values()), default=0)
    labels = [visit.date(start + place * HOUR_MS) for place in range(HOURS)]
    title = visit.text(N_("Calls of {name} by hour"))
    return {
        name: (sum(values), small_bars(values, title.format(name=name), top, labels))
        for name, values in calls.items()
    }


async def _hours(visit: Visit) -> tuple[int, list[SiteHour]]:
    """The start of the first of the last 24 hours, the present one included, and what ended in them."""
    start = hour_of(visit.now_ms, hour_offset(visit.time_zone, visit.now_ms)) - (HOURS - 1) * HOUR_MS
    return start, await reports.site_hours(visit.db, start, start + HOURS * HOUR_MS)


PAGES = [
    Page(PATH, show=show),
    Page(f"{PATH}/test", submit=test),
    Page(f"{PATH}/move", submit=move, recent=True),
    Page(f"{PATH}/enable", submit=performs(EnableChannel, PATH, N_("{name} is enabled.")), recent=True),
    Page(f"{PATH}/disable", submit=performs(DisableChannel, PATH, N_("{name} is disabled.")), recent=True),
]
