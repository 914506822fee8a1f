"""The channels in the order in which they are tried: their states, and a test of each."""

from functools import partial

from msgspec import Struct, structs
from starlette.responses import Response

from myna.actions.channels import DisableChannel, EnableChannel, OrderChannels, TryChannel
from myna.channels.channels import Channel, is_local, no_channel
from myna.errors import CommandError
from myna.gateway import trial as channel_trial
from myna.gateway.trial import Trial
from myna.lib.net import without_login
from myna.office.channel_usage import latencies
from myna.office.messages import N_
from myna.office.page import Page, Who
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
    config = await visit.read(config_store.load)
    await visit.parts.config.at(config.version)  # it has the keys
    return visit.parts.channels.all(config)


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


async def enable(visit: Visit) -> Response:
    """Has the channel tried again."""
    action = visit.fields(EnableChannel)
    await visit.perform(action)
    return visit.redirect(PATH, visit.text("{name} is enabled.").format(name=action.name))


async def disable(visit: Visit) -> Response:
    """Has the channel skipped until it is enabled."""
    action = visit.fields(DisableChannel)
    await visit.perform(action)
    return visit.redirect(PATH, visit.text("{name} is disabled.").format(name=action.name))


PAGES = [
    Page(path=PATH, show=show, who=Who.OPERATOR),
    Page(path=f"{PATH}/test", submit=test, who=Who.OPERATOR),
    Page(path=f"{PATH}/move", submit=move, who=Who.OPERATOR, recent=True),
    Page(path=f"{PATH}/enable", submit=enable, who=Who.OPERATOR, recent=True),
    Page(path=f"{PATH}/disable", submit=disable, who=Who.OPERATOR, recent=True),
]
