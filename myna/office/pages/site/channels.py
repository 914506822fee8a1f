"""Channels: listed in the order in which they are tried, tested, added, changed and removed. And the last 24
hours of channels and nodes: latency by channel, calls by hour.
"""

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup
from msgspec import Struct, structs
from starlette.responses import Response

from myna.actions import YES_OR_NO, fields_of
from myna.actions.channels import (
    PRIORITY_DEFAULT,
    PRIORITY_MAX,
    PRIORITY_STEP,
    AddChannel,
    DisableChannel,
    EnableChannel,
    OrderChannels,
    RemoveChannel,
    SetChannel,
    SetChannelKey,
    TryChannel,
)
from myna.channels.channels import Channel, is_local, no_channel, record_voices
from myna.engines.interface import EngineFailed
from myna.errors import CommandError, NotFound
from myna.gateway import trial as channel_trial
from myna.gateway.models import KNOWN
from myna.gateway.trial import Trial, likely_cause
from myna.lib.net import without_login
from myna.lib.times import HOUR_MS, hour_of, hour_offset
from myna.office.charts import small_bars
from myna.office.page import Page, performs
from myna.office.render import N_, duration
from myna.office.visit import Visit
from myna.store.queries import config as config_store
from myna.store.queries import reports as reports_store
from myna.store.queries.config import CircuitRow
from myna.store.queries.reports import SiteHourRow

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
        fields=fields_of(SetChannel),
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
        return Result(channel.name, trial=await channel_trial.chat(parts.channel_client, channel, deadline_s))
    engine = parts.channels.engine(channel)
    if engine is None:
        raise CommandError(
            "The channel {name!r} has no engine in this process; see the log.", name=channel.name
        )
    if parts.space.low:
        raise CommandError("The disk has less free space than MYNA_DISK_RESERVE_BYTES.")
    # No row names the file, so the service removes it within two hours.
    audio, path = parts.audio.new()
    trial = await channel_trial.speech(parts.channel_client, channel, engine, path, deadline_s)
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
    by_channel: defaultdict[str, list[SiteHourRow]] = defaultdict(list)
    for row in (await _hours(visit))[1]:
        if row.channel:
            by_channel[row.channel].append(row)
    found = [_latency(visit, name, hours) for name, hours in by_channel.items()]
    return sorted(found, key=lambda one: (-one.calls, one.name))


def _latency(visit: Visit, name: str, hours: Sequence[SiteHourRow]) -> Latency:
    counts = [0] * (max(hour.bucket for hour in hours) + 1)
    for hour in hours:
        counts[hour.bucket] += hour.ok_calls
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


async def _hours(visit: Visit) -> tuple[int, list[SiteHourRow]]:
    """The start of the first of the last 24 hours, the present one included, and what ended in them."""
    start = hour_of(visit.now_ms, hour_offset(visit.time_zone, visit.now_ms)) - (HOURS - 1) * HOUR_MS
    return start, await visit.read(reports_store.site_hours, start=start, end=start + HOURS * HOUR_MS)


VENDORS = (
    *((server.title, server.url) for server in KNOWN),
    ("OpenAI", "https://api.openai.com/v1"),
    ("DeepSeek", "https://api.deepseek.com/v1"),
    ("OpenRouter", "https://openrouter.ai/api/v1"),
)
"""Addresses that the form suggests."""


async def show_new(visit: Visit) -> Response:
    """Asks for a new channel."""
    return visit.page(
        "site/channel_new.html",
        fields=fields_of(AddChannel),
        form=AddChannel(kind="chat", name="", url=""),
        kinds=KINDS,
        vendors=VENDORS,
        keys_in_files=visit.parts.settings.keys_in_files,
    )


async def add(visit: Visit) -> Response:
    """Adds the channel, with its key; behind the others, unless the form says otherwise."""
    given = {} if visit.typed("priority") else {"priority": await _last_priority(visit)}
    row = await visit.perform(visit.fields(AddChannel, **given))
    channel = await _look_up_voices(visit, row.name)
    notice = visit.text("{name} is added. Test it: it answers in a moment.").format(name=row.name)
    return visit.redirect(PATH, notice + await _warning(visit, channel))


async def _last_priority(visit: Visit) -> int:
    """The priority of a channel that is tried after all others."""
    last = max((one.priority for one in await known(visit)), default=0)
    return min(PRIORITY_MAX, max(PRIORITY_DEFAULT, last + PRIORITY_STEP))


async def show_change(visit: Visit) -> Response:
    """The forms about one channel of the database."""
    channel = await _stored(visit, visit.parameter("name"))
    fields = fields_of(SetChannel)
    if channel.kind != "chat":
        del fields["responses"]
    return visit.page(
        "site/channel.html",
        channel=channel,
        fields=fields,
        form=SetChannel(name=channel.name, **{**_present(channel), "url": without_login(channel.url)}),
        routes=[
            row.name for row in await visit.read(config_store.load_routes) if channel.name in row.channels
        ],
        keys_in_files=visit.parts.settings.keys_in_files,
    )


async def _stored(visit: Visit, name: str) -> Channel:
    """The channel of the database of this name. Raises NotFound."""
    try:
        channel = await found(visit, name)
    except CommandError as missing:
        raise NotFound(missing.sentence, **missing.values) from None
    if channel.source != "database":
        raise NotFound("This channel comes from the settings, and is changed there.")
    return channel


def _present(channel: Channel) -> dict[str, Any]:
    """The values that `SetChannel` can change."""
    return {name: getattr(channel, name) for name in SetChannel.__struct_fields__ if name != "name"}


async def change(visit: Visit) -> Response:
    """Changes the channel. What the form has no field for stays as it is; a field that was emptied is as in
    the form of a new channel."""
    before = await _stored(visit, visit.typed("name"))
    present = _present(before)
    empty = {one.name: one.default for one in structs.fields(AddChannel)}
    empty |= {"url": None, "priority": await _last_priority(visit)}
    given = {name: visit.typed(name) or empty[name] for name in present if name in visit.form}
    flags = [name for name, about in fields_of(SetChannel).items() if about.value == YES_OR_NO]
    given |= {name: bool(visit.typed(name)) for name in flags}  # a browser sends nothing of an unchecked box
    row = await visit.perform(visit.fields(SetChannel, **given))
    if all(getattr(row, name) == value for name, value in present.items()):
        return visit.redirect(PATH)
    after = await _look_up_voices(visit, before.name)
    notice = visit.text("{name} is changed.")
    if before.key_stored and not after.key_stored:
        notice = visit.text("{name} is changed. Its key was for another server and is removed.")
    return visit.redirect(PATH, notice.format(name=before.name) + await _warning(visit, after))


async def _look_up_voices(visit: Visit, name: str) -> Channel:
    """The channel. Looks up the voices of one for speech; where that fails, the service tries again later."""
    channel = await found(visit, name)
    if channel.kind == "speech":
        with contextlib.suppress(EngineFailed):  # the channel's test says why
            await record_voices(visit.db, visit.parts.channels, channel)
    return channel


async def _warning(visit: Visit, channel: Channel) -> str:
    """What may be wrong with a channel that was added or changed; empty if nothing."""
    cause = await likely_cause(visit.parts.channel_client.http_client, channel)
    return " " + visit.text("It may not work.") + " " + visit.said(cause) if cause else ""


PAGES = [
    Page(PATH, show=show),
    Page(f"{PATH}/test", submit=test),
    Page(f"{PATH}/move", submit=move, recent=True),
    Page(f"{PATH}/enable", submit=performs(EnableChannel, PATH, N_("{name} is enabled.")), recent=True),
    Page(f"{PATH}/disable", submit=performs(DisableChannel, PATH, N_("{name} is disabled.")), recent=True),
    Page(f"{PATH}/new", show=show_new, submit=add, recent=True, secrets=("key",)),
    Page(f"{PATH}/change", show=show_change, submit=change, recent=True),
    Page(
        f"{PATH}/key",
        submit=performs(SetChannelKey, PATH, N_("The key of {name} is stored.")),
        recent=True,
        secrets=("key",),
    ),
    Page(
        f"{PATH}/key/remove",
        submit=performs(
            SetChannelKey, f"{PATH}/change?name={{name}}", N_("The key of {name} is removed."), remove=True
        ),
        recent=True,
    ),
    Page(
        f"{PATH}/remove",
        submit=performs(RemoveChannel, PATH, N_("{name} is removed."), confirmed=True),
        recent=True,
    ),
]
