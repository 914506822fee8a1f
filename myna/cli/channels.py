"""myna channel add|list|test|set|order|key|enable|disable|remove|rekey, myna route add|list|set|remove"""

import getpass
import os
import shlex
import sys
import tempfile
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, get_type_hints

from cyclopts import App, Parameter
from msgspec import structs

from myna.actions.channels import (
    AddChannel,
    DisableChannel,
    EnableChannel,
    OrderChannels,
    RekeyChannels,
    RemoveChannel,
    SetChannel,
    SetChannelKey,
    TryChannel,
)
from myna.actions.routes import AddRoute, RemoveRoute, SetRoute
from myna.channels import channels
from myna.channels import keys as channel_keys
from myna.channels.channels import Channel, Channels, no_channel
from myna.channels.keys import ChannelKeys
from myna.channels.routes import BUILT_IN, Route, listed
from myna.cli.commands import http_client, named, perform, register
from myna.cli.console import (
    Json,
    Row,
    listing,
    owner_of_files,
    read_settings,
    say_next,
    seconds,
    show,
    show_rows,
    with_database,
)
from myna.config import settings_of
from myna.engines.interface import Engine, EngineFailed, EngineLimits
from myna.engines.registry import site_engines
from myna.errors import CommandError, ConfigError
from myna.gateway import trial as channel_trial
from myna.gateway.failover import ChannelClient
from myna.gateway.trial import Cause, cause_in_url, likely_cause
from myna.lib.net import is_loopback, without_login
from myna.lib.sandbox import AllowedPaths
from myna.store.database import Database
from myna.store.queries import config as store
from myna.store.queries.config import ChannelRow, CircuitRow, Config

app = App(name="channel", help="Upstream channels for chat and speech.")
Name = Annotated[str, Parameter(help="The name of the channel.")]


@asynccontextmanager
async def site_channels() -> AsyncIterator[Channels]:
    """The channels with their stored voices, for changes of voices. Sends no request and starts no process.

    Without the engine of MYNA_SPEECH, prints a warning: the voices of nodes and other channels don't need it.
    """
    settings, limits = read_settings(), EngineLimits(processes=1, queue_max=1, job_deadline_s=1.0)
    try:
        local = site_engines(settings.speech, settings.data_folder, limits)
    except ConfigError as error:
        print(f"myna: warning: {error} Its voices are left out.", file=sys.stderr)
        settings, local = replace(settings, speech="none"), {}
    async with http_client() as client:
        yield Channels(settings=settings, environ=os.environ, http_client=client, local=local)


@app.command(name="list")
@listing(
    empty="There is no channel yet: myna channel add chat NAME URL",
    brief=("name", "kind", "url", "priority", "enabled", "circuit"),
)
async def list_channels(db: Database) -> list[Row]:
    """List the channels in the order in which they are tried."""
    known = _all(await store.load(db))
    circuits = await store.load_circuits(db)
    _warn(known)
    return [_as_row(channel, circuits.get(channel.name, CircuitRow())) for channel in known]


def _as_row(channel: Channel, circuit: CircuitRow) -> Row:
    priority = {"priority": "first"} if channel.source == "settings" else {}
    return {
        **_shown(channel),
        "key": bool(channel.key),
        **priority,
        "circuit": circuit.state,
        "retry_at": seconds(circuit.open_until),
        "last_error": circuit.error,
        "last_error_at": seconds(circuit.error_at),
    }


@app.command
def key(
    name: Name,
    *,
    remove: Annotated[bool, Parameter(help="Remove the stored key.")] = False,
    json: Json = False,
) -> None:
    """Store the key of a channel, read from standard input: encrypted, or in a file of this machine."""
    settings = read_settings()
    if not settings.secret_key and not settings.data_folder.is_dir():
        raise CommandError(f"There is no data folder {settings.data_folder}: use the service's settings.")
    keys = _keys(None if settings.secret_key else owner_of_files(settings))
    action = SetChannelKey(name=name, remove=remove, key="" if remove else _typed_key())
    action.check()
    with_database(lambda db: perform(db, action, keys=keys), json=json)
    show({"name": name, "key_stored": not remove}, json)
    if not json and not remove:
        say_next(_to_test(action, None))


def _typed_key() -> str:
    """The first line of standard input; a terminal shows nothing of it."""
    if sys.stdin.isatty():
        return getpass.getpass("Key: ").strip()
    key = sys.stdin.readline(channel_keys.KEY_MAX_CHARS + 2).strip()
    if not key:
        raise CommandError("Standard input has no key: type it at a terminal, or pipe it in.")
    return key


def _keys(owner: tuple[int, int] | None = None) -> ChannelKeys:
    return ChannelKeys(read_settings(), owner)


async def _put(db: Database, action: AddChannel | SetChannel) -> Row:
    """Makes the change, looks up the voices of a speech channel, and warns of what may be wrong."""
    action.check()
    row = await perform(db, action)
    voices = {"voices": await _record_voices(db, row)} if row.kind == "speech" else {}
    _warn([channels.resolved(row, os.environ, _keys().read)])
    if cause := await _cause(row):
        print(f"myna: warning: the channel {row.name!r} may not work. {cause}", file=sys.stderr)
    return {**_shown(row), **voices}


def _shown(row: ChannelRow) -> Row:
    """What is shown of a channel, without a secret."""
    shown = {**structs.asdict(row), "url": without_login(row.url)}
    del shown["stored_key"]
    flags = [name for name, kind in get_type_hints(ChannelRow).items() if kind is bool]
    return {**shown, **{name: bool(shown[name]) for name in flags}}


def _to_test(action: AddChannel | SetChannel | SetChannelKey, _: object) -> str:
    return f"Next: myna channel test {shlex.quote(action.name)}"


def _after_adding(action: AddChannel, shown: Row) -> str:
    to_test = _to_test(action, shown)
    if action.key_env or action.url == channels.PARROT or is_loopback(action.url):
        return to_test
    return f"If its server needs a key: myna channel key {shlex.quote(action.name)}\n{to_test}"


register(app, AddChannel, run=_put, then=_after_adding)
register(app, SetChannel, run=_put, then=_to_test)
register(app, OrderChannels, lambda action, _: {"names": list(action.names)})
register(app, EnableChannel, named(enabled=True))
register(app, DisableChannel, named(enabled=False))
register(app, RemoveChannel, named(removed=True))
register(
    app,
    RekeyChannels,
    lambda _, found: [{"name": name, "key": where} for name, where in found.items()],
    printed=lambda rows, json: show_rows(rows, json, empty="No channel has a stored key."),
)


def _warn(rows: Iterable[Channel]) -> None:
    """Warns on stderr of keys that this command doesn't have; the serving process may."""
    for row in rows:
        if why := channels.missing_key(row):
            print(f"myna: warning: channel {row.name!r} has no key in this command: {why}.", file=sys.stderr)


async def _cause(row: ChannelRow) -> Cause | None:
    """Why the channel may not work. Its server is not asked if this command lacks the channel's key."""
    channel = channels.resolved(row, os.environ, _keys().read)
    if channels.missing_key(channel):
        return cause_in_url(channel.url)
    async with http_client() as client:
        return await likely_cause(client, channel)


def _all(config: Config) -> list[Channel]:
    keys = _keys()
    stored = [channels.resolved(row, os.environ, keys.read) for row in config.channels]
    return [*channels.from_settings(read_settings()), *stored]


async def _record_voices(db: Database, row: ChannelRow) -> str:
    """Requests the voices of a speech channel and stores them. If that fails, the server tries again."""
    async with http_client() as client:
        known = Channels(settings=read_settings(), environ=os.environ, http_client=client, local={})
        try:
            channel = channels.resolved(row, os.environ, _keys().read)
            return str(await channels.record_voices(db, known, channel))
        except EngineFailed as failure:
            return f"not known yet ({failure})"


async def _try(db: Database, action: TryChannel) -> Row:
    """Sends the channel a test request. Returns the result. Raises CommandError."""
    known, settings = _all(await store.load(db)), read_settings()
    channel = next((one for one in known if one.name == action.name), None)
    if channel is None:
        raise no_channel(action.name, [one.name for one in known])
    _warn([channel])
    deadline_s = settings.call_deadline_s
    limits = EngineLimits(processes=1, queue_max=1, job_deadline_s=deadline_s)
    await perform(db, action)
    channel = structs.replace(channel, model=action.model or channel.model)
    is_ours = channel.kind == "speech" and channels.is_local(channel)
    local = site_engines(settings.speech, settings.data_folder, limits) if is_ours else {}
    async with http_client() as client:
        ways = Channels(settings=settings, environ=os.environ, http_client=client, local=local)
        channel_client = ChannelClient(settings, ways, client)
        if channel.kind == "speech" and (engine := ways.engine(channel)):
            trial = await _speak(channel_client, channel, engine, deadline_s)
            result = f"{trial.voice!r}, of {trial.voices} voices, spoke for {trial.sound_s:.1f} s"
        else:
            trial = await channel_trial.chat(channel_client, channel, deadline_s)
            result = trial.answer
    return {"name": action.name, "ok": True, "ms": trial.ms, "result": result}


async def _speak(
    channel_client: ChannelClient, channel: Channel, engine: Engine, deadline_s: float
) -> channel_trial.Trial:
    with tempfile.TemporaryDirectory() as folder:
        try:
            if channels.is_local(channel):
                await engine.start(AllowedPaths.of(writes=(Path(folder),)))
            path = Path(folder, "test.mp3")
            return await channel_trial.speech(channel_client, channel, engine, path, deadline_s)
        except EngineFailed as failure:
            raise CommandError(f"The channel {channel.name!r} failed: {str(failure).rstrip('.')}.") from None
        finally:
            await engine.close()


register(app, TryChannel, run=_try)


route_app = App(name="route", help="Routes: what callers name as model, what serves it, and its price.")


@route_app.command(name="list")
@listing(empty="", brief=("name", "kind", "units", "channels", "upstream_model"))
async def list_routes(db: Database) -> list[Row]:
    """List the routes: the built-in ones, exact names, and wildcards."""
    config = await store.load(db)
    routes = listed(config, settings_of(config))
    return [{**_shown_route(route), "built_in": route.name in BUILT_IN} for route in routes]


def _shown_route(route: Route) -> Row:
    return {**structs.asdict(route), "channels": list(route.channels)}


register(
    route_app,
    AddRoute,
    lambda _, route: _shown_route(route),
    then=lambda action, _: (
        f"Next: callers send {action.name} as model. All names and prices: myna route list"
    ),
)
register(route_app, SetRoute, lambda _, route: _shown_route(route))
register(route_app, RemoveRoute, named(removed=True))
