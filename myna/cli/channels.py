"""myna channel add|list|test|set|order|key|enable|disable|remove"""

import getpass
import os
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from msgspec import structs

from myna import channel_changes, channel_keys, channel_trial, channels
from myna.activity import command_line
from myna.channel_causes import Cause, cause_in_url, likely_cause
from myna.channel_changes import Edit, no_channel
from myna.channel_keys import ChannelKeys
from myna.channels import Channel, Channels
from myna.cli.console import (
    Json,
    Whole,
    Wide,
    owner_of_files,
    read_settings,
    seconds,
    show,
    show_rows,
    with_database,
)
from myna.engines.interface import Engine, EngineFailed, EngineLimits
from myna.engines.registry import site_engines
from myna.errors import CommandError
from myna.http_client import HttpClient
from myna.sandbox.confinement import AllowedPaths
from myna.store.database import Database
from myna.store.queries import circuits
from myna.store.queries import config as store
from myna.store.queries.circuits import CircuitRow
from myna.store.queries.config import ChannelRow, Config
from myna.urls import without_login

app = App(name="channel", help="Upstream channels for chat and speech.")
Name = Annotated[str, Parameter(help="The name of the channel.")]
Url = Annotated[str, Parameter(help="An OpenAI-compatible base URL, or parrot: for chat.")]
Model = Annotated[str, Parameter(help="The model to request.")]
KeyEnv = Annotated[str, Parameter(help="The environment variable that contains the key.")]
Priority = Annotated[Whole, Parameter(help="Channels with a lower number are tried first.")]
Weight = Annotated[Whole, Parameter(help="Its share among the channels of its priority; 0 for none.")]
Responses = Annotated[
    Literal["yes", "no"], Parameter(help="Whether the server offers POST /responses: yes or no.")
]

Concurrent = Annotated[
    Whole, Parameter(help="How many requests of a process to it may be open; 0 for its share of all.")
]


@app.command
def add(
    kind: Annotated[Literal["chat", "speech"], Parameter(help="What the channel does.")],
    name: Name,
    url: Url,
    *,
    model: Model = "",
    key_env: KeyEnv = "",
    priority: Priority = 100,
    weight: Weight = 0,
    responses: Responses = "no",
    concurrent: Concurrent = 0,
    json: Json = False,
) -> None:
    """Add a channel; those with a lower priority number are tried first."""
    row = ChannelRow(
        kind=kind,
        name=name,
        url=url,
        model=model or ("tts-1" if kind == "speech" else ""),
        key_env=key_env,
        priority=priority,
        enabled=1,
        weight=weight,
        responses=int(responses == "yes"),
        concurrent=concurrent,
    )
    channel_changes.check(row)

    async def work(db: Database) -> tuple[str, Cause | None]:
        await channel_changes.add(db, _keys(), row, by=command_line())
        return await _record_voices(db, row) if kind == "speech" else "", await _cause(row)

    note, cause = with_database(work, json=json)
    _warn([channels.resolved(row, os.environ, _keys().read)])
    _warn_of(name, cause)
    show({"kind": kind, "name": name, "url": without_login(url), **({"voices": note} if note else {})}, json)


@app.command(name="list")
def list_all(*, wide: Wide = False, json: Json = False) -> None:
    """List the channels in the order in which they are tried."""

    async def work(db: Database) -> tuple[Config, dict[str, CircuitRow]]:
        return await store.load(db), await circuits.load(db)

    config, known = with_database(work, json=json)
    _warn(_all(config))
    rows = [_as_row(channel, known.get(channel.name, CircuitRow())) for channel in _all(config)]
    empty = "There is no channel yet: myna channel add chat NAME URL"
    brief = ("name", "kind", "url", "priority", "enabled", "circuit")
    show_rows(rows, json, empty=empty, brief=brief, wide=wide)


def _as_row(channel: Channel, circuit: CircuitRow) -> dict[str, object]:
    return {
        "kind": channel.kind,
        "name": channel.name,
        "url": without_login(channel.url),
        "model": channel.model,
        "priority": "first" if channel.priority is None else channel.priority,
        "weight": channel.weight,
        "responses": channel.responses,
        "concurrent": channel.concurrent,
        "key_env": channel.key_env,
        "key": bool(channel.key),
        "key_stored": channel.key_stored,
        "enabled": channel.enabled,
        "source": channel.source,
        "circuit": circuit.state,
        "retry_at": seconds(circuit.open_until),
        "last_error": circuit.error,
        "last_error_at": seconds(circuit.error_at),
    }


@app.command
def test(
    name: Name,
    *,
    model: Annotated[str, Parameter(help="The model to request in place of the channel's.")] = "",
    json: Json = False,
) -> None:
    """Send a channel a test request and print the result."""

    async def work(db: Database) -> dict[str, object]:
        config = await store.load(db)
        known = _all(config)
        channel = next((channel for channel in known if channel.name == name), None)
        if channel is None:
            raise no_channel(name, [one.name for one in known])
        _warn([channel])
        return {"name": name, "ok": True, **await _try(db, channel, model)}

    show(with_database(work, json=json), json)


@app.command(name="set")
def change(
    name: Name,
    *,
    url: Url | None = None,
    model: Model | None = None,
    key_env: KeyEnv | None = None,
    priority: Priority | None = None,
    weight: Weight | None = None,
    responses: Responses | None = None,
    concurrent: Concurrent | None = None,
    json: Json = False,
) -> None:
    """Change a channel; options that are not given stay as they are."""
    edit = Edit(
        url=url,
        model=model,
        key_env=key_env,
        priority=priority,
        weight=weight,
        responses=None if responses is None else responses == "yes",
        concurrent=concurrent,
    )

    async def work(db: Database) -> tuple[ChannelRow, str, Cause | None]:
        row = await channel_changes.change(db, read_settings(), _keys(), name, edit, by=command_line())
        return row, await _record_voices(db, row) if row.kind == "speech" else "", await _cause(row)

    row, note, cause = with_database(work, json=json)
    _warn([channels.resolved(row, os.environ, _keys().read)])
    _warn_of(name, cause)
    now = {
        "name": name,
        "url": without_login(row.url),
        "model": row.model,
        "key_env": row.key_env,
        "priority": row.priority,
        "weight": row.weight,
        "responses": bool(row.responses),
        "concurrent": row.concurrent,
    }
    show({**now, **({"voices": note} if note else {})}, json)


@app.command
def order(
    names: Annotated[list[str], Parameter(name="NAME", help="The names of channels.")],
    /,
    *,
    json: Json = False,
) -> None:
    """Try these channels first, in this order, and then the others."""
    settings, by = read_settings(), command_line()
    with_database(lambda db: channel_changes.order(db, settings, names, by=by), json=json)
    show({"names": names}, json)


@app.command
def key(
    name: Name,
    *,
    remove: Annotated[bool, Parameter(help="Remove the stored key.")] = False,
    json: Json = False,
) -> None:
    """Store the key of a channel, read from standard input, in a file of this machine."""
    settings, by = read_settings(), command_line()
    if not settings.data_folder.is_dir():
        raise CommandError(f"There is no data folder {settings.data_folder}: use the service's settings.")
    keys = _keys(owner_of_files(settings))
    if remove:
        with_database(lambda db: channel_changes.remove_key(db, settings, keys, name, by=by), json=json)
    else:
        plain = _typed_key()
        channel_keys.check(name, plain)
        with_database(lambda db: channel_changes.store_key(db, settings, keys, name, plain, by=by), json=json)
    show({"name": name, "key_stored": not remove}, json)


def _typed_key() -> str:
    """The first line of standard input; a terminal shows nothing of it."""
    if sys.stdin.isatty():
        return getpass.getpass("Key: ").strip()
    return sys.stdin.readline(channel_keys.KEY_MAX_CHARS + 2).strip()


def _keys(owner: tuple[int, int] | None = None) -> ChannelKeys:
    return ChannelKeys(read_settings().data_folder, owner)


@app.command
def enable(name: Name, *, json: Json = False) -> None:
    """Enable a channel."""
    _switch(name, True, json)


@app.command
def disable(name: Name, *, json: Json = False) -> None:
    """Disable a channel until it is enabled."""
    _switch(name, False, json)


@app.command
def remove(name: Name, *, json: Json = False) -> None:
    """Delete a channel."""
    by = command_line()
    with_database(lambda db: channel_changes.remove(db, read_settings(), _keys(), name, by=by), json=json)
    show({"name": name, "removed": True}, json)


def _switch(name: str, enabled: bool, json: bool) -> None:
    settings, by = read_settings(), command_line()
    with_database(lambda db: channel_changes.set_enabled(db, settings, name, enabled, by=by), json=json)
    show({"name": name, "enabled": enabled}, json)


def _warn(rows: Iterable[Channel]) -> None:
    """Warns on stderr of keys that are not set for this command; the serving process may have them."""
    for row in channels.without_key(rows):
        print(
            f"myna: warning: {row.key_env}, which should contain the key of channel {row.name!r}, is not set"
            " for this command, or empty; the serving process reads its own environment.",
            file=sys.stderr,
        )


def _warn_of(name: str, cause: Cause | None) -> None:
    if cause:
        print(f"myna: warning: the channel {name!r} may not work. {cause}", file=sys.stderr)


async def _cause(row: ChannelRow) -> Cause | None:
    """Why the channel may not work. Its server is not asked if this command lacks the channel's key."""
    channel = channels.resolved(row, os.environ, _keys().read)
    if channel.key_env and not channel.key:
        return cause_in_url(channel.url)
    http_client = HttpClient(connections_max=1)
    try:
        return await likely_cause(http_client, channel)
    finally:
        await http_client.close()


def _all(config: Config) -> list[Channel]:
    keys = _keys()
    stored = [channels.resolved(row, os.environ, keys.read) for row in config.channels]
    return [*channels.from_settings(read_settings()), *stored]


async def _record_voices(db: Database, row: ChannelRow) -> str:
    """Requests the voices of a speech channel and stores them. If that fails, the server tries again."""
    http_client = HttpClient(connections_max=1)
    try:
        known = Channels(settings=read_settings(), environ=os.environ, http_client=http_client, local={})
        count = await channels.record_voices(db, known, channels.resolved(row, os.environ, _keys().read))
    except EngineFailed as failure:
        return f"not known yet ({failure})"
    finally:
        await http_client.close()
    return str(count)


async def _try(db: Database, channel: Channel, model: str) -> dict[str, object]:
    """Sends a channel a test request, with this model unless it is "". Returns the result. Raises
    CommandError."""
    settings = read_settings()
    http_client = HttpClient(connections_max=1)
    deadline_s = settings.call_deadline_s
    limits = EngineLimits(processes=1, queue_max=1, job_deadline_s=deadline_s)
    await channel_trial.record(db, channel.name, model, by=command_line())
    channel = structs.replace(channel, model=model or channel.model)
    try:
        is_ours = channel.kind == "speech" and channels.is_local(channel)
        local = site_engines(settings.speech, settings.data_folder, limits) if is_ours else {}
        known = Channels(settings=settings, environ=os.environ, http_client=http_client, local=local)
        if channel.kind == "speech" and (engine := known.engine(channel)):
            with tempfile.TemporaryDirectory() as folder:
                trial = await _speak(http_client, known, channel, engine, Path(folder), deadline_s)
            sound = f"{trial.voice!r}, of {trial.voices} voices, spoke for {trial.sound_s:.1f} s"
            return {"ms": trial.ms, "result": sound}
        trial = await channel_trial.chat(http_client, known, settings, channel, deadline_s)
        return {"ms": trial.ms, "result": trial.answer}
    finally:
        await http_client.close()


async def _speak(
    http_client: HttpClient,
    known: Channels,
    channel: Channel,
    engine: Engine,
    folder: Path,
    deadline_s: float,
) -> channel_trial.Trial:
    try:
        if channels.is_local(channel):
            await engine.start(AllowedPaths.of(writes=(folder,)))
        path = folder / "test.mp3"
        return await channel_trial.speech(http_client, known, channel, engine, path, deadline_s)
    except EngineFailed as failure:
        raise CommandError(f"The channel {channel.name!r} failed: {str(failure).rstrip('.')}.") from None
    finally:
        await engine.close()
