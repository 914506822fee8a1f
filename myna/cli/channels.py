"""myna channel add|list|test|set|enable|disable|remove"""

import os
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import App, Parameter

from myna import channel_changes, channels
from myna.activity import command_line
from myna.channel_changes import Edit, no_channel
from myna.channels import Channel, Channels
from myna.chat import upstream
from myna.cli.console import Json, Whole, read_settings, seconds, show, show_rows, with_database
from myna.engines.interface import Engine, EngineFailed, EngineLimits, Utterance
from myna.engines.registry import site_engines
from myna.errors import CommandError, UpstreamFailed
from myna.http_client import HttpClient, RequestFailed
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

PROBE = "Say hello."
PROBE_TEXT = "Hello."


@app.command
def add(
    kind: Annotated[Literal["chat", "speech"], Parameter(help="What the channel does.")],
    name: Name,
    url: Url,
    *,
    model: Model = "",
    key_env: KeyEnv = "",
    priority: Priority = 100,
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
    )
    channels.check(row)

    async def work(db: Database) -> str:
        await channel_changes.add(db, row, by=command_line())
        return await _record_voices(db, row) if kind == "speech" else ""

    note = with_database(work, json=json)
    _warn([row])
    show({"kind": kind, "name": name, "url": without_login(url), **({"voices": note} if note else {})}, json)


@app.command(name="list")
def list_all(*, json: Json = False) -> None:
    """List the channels in the order in which they are tried."""

    async def work(db: Database) -> tuple[Config, dict[str, CircuitRow]]:
        return await store.load(db), await circuits.load(db)

    config, known = with_database(work, json=json)
    _warn(config.channels)
    rows = [_as_row(channel, known.get(channel.name, CircuitRow())) for channel in _all(config)]
    show_rows(rows, json, empty="There is no channel yet: myna channel add chat NAME URL")


def _as_row(channel: Channel, circuit: CircuitRow) -> dict[str, object]:
    return {
        "kind": channel.kind,
        "name": channel.name,
        "url": without_login(channel.url),
        "model": channel.model,
        "priority": "first" if channel.priority is None else channel.priority,
        "key_env": channel.key_env,
        "key": bool(channel.key),
        "enabled": channel.enabled,
        "source": channel.source,
        "circuit": circuit.state,
        "last_error": circuit.error,
        "last_error_at": seconds(circuit.error_at),
    }


@app.command
def test(name: Name, *, json: Json = False) -> None:
    """Send a channel a test request and print the result."""

    async def work(db: Database) -> dict[str, object]:
        config = await store.load(db)
        known = _all(config)
        channel = next((channel for channel in known if channel.name == name), None)
        if channel is None:
            raise no_channel(name, [one.name for one in known])
        _warn(row for row in config.channels if row.name == name)
        started = time.monotonic()
        result = await _probe(channel)
        return {"name": name, "ok": True, "ms": round((time.monotonic() - started) * 1000), "result": result}

    show(with_database(work, json=json), json)


@app.command(name="set")
def change(
    name: Name,
    *,
    url: Url | None = None,
    model: Model | None = None,
    key_env: KeyEnv | None = None,
    priority: Priority | None = None,
    json: Json = False,
) -> None:
    """Change a channel; options that are not given stay as they are."""
    edit = Edit(url=url, model=model, key_env=key_env, priority=priority)

    async def work(db: Database) -> tuple[ChannelRow, str]:
        row = await channel_changes.change(db, read_settings(), name, edit, by=command_line())
        return row, await _record_voices(db, row) if row.kind == "speech" else ""

    row, note = with_database(work, json=json)
    _warn([row])
    now = {
        "name": name,
        "url": without_login(row.url),
        "model": row.model,
        "key_env": row.key_env,
        "priority": row.priority,
    }
    show({**now, **({"voices": note} if note else {})}, json)


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
    with_database(lambda db: channel_changes.remove(db, read_settings(), name, by=by), json=json)
    show({"name": name, "removed": True}, json)


def _switch(name: str, enabled: bool, json: bool) -> None:
    settings, by = read_settings(), command_line()
    with_database(lambda db: channel_changes.set_enabled(db, settings, name, enabled, by=by), json=json)
    show({"name": name, "enabled": enabled}, json)


def _warn(rows: Iterable[ChannelRow]) -> None:
    """Warns on stderr of keys that are not set for this command; the serving process may have them."""
    for row in channels.without_key(rows, os.environ):
        print(
            f"myna: warning: {row.key_env}, which should contain the key of channel {row.name!r}, is not set"
            " for this command, or empty; the serving process reads its own environment.",
            file=sys.stderr,
        )


def _all(config: Config) -> list[Channel]:
    stored = [channels.resolved(row, os.environ) for row in config.channels]
    return [*channels.from_settings(read_settings()), *stored]


async def _record_voices(db: Database, row: ChannelRow) -> str:
    """Requests the voices of a speech channel and stores them. If that fails, the server tries again."""
    http_client = HttpClient(connections_max=1)
    try:
        known = Channels(settings=read_settings(), environ=os.environ, http_client=http_client, local={})
        count = await channels.record_voices(db, known, channels.resolved(row, os.environ))
    except EngineFailed as failure:
        return f"not known yet ({failure})"
    finally:
        await http_client.close()
    return str(count)


async def _probe(channel: Channel) -> str:
    """Sends a channel a test request. Returns the answer. Raises CommandError."""
    settings = read_settings()
    http_client = HttpClient(connections_max=1)
    deadline_s = settings.call_deadline_s
    limits = EngineLimits(processes=1, queue_max=1, job_deadline_s=deadline_s)
    try:
        is_ours = channel.kind == "speech" and channels.is_local(channel)
        local = site_engines(settings.speech, settings.data_folder, limits) if is_ours else {}
        known = Channels(settings=settings, environ=os.environ, http_client=http_client, local=local)
        if channel.kind == "speech" and (engine := known.engine(channel)):
            with tempfile.TemporaryDirectory() as folder:
                return await _probe_speech(engine, Path(folder), deadline_s)
        answer = await upstream.ask(
            http_client,
            known,
            [channel],
            channel.model,
            msgspec.json.encode({"messages": [{"role": "user", "content": PROBE}]}),
            PROBE,
            seconds=deadline_s,
            fair_try_s=settings.fair_try_s,
            answer_max_bytes=settings.answer_max_bytes,
        )
        return answer.content[:200]
    except (EngineFailed, UpstreamFailed) as failure:
        raise CommandError(f"The channel {channel.name!r} failed: {_reason(failure)}.") from None
    finally:
        await http_client.close()


async def _probe_speech(engine: Engine, folder: Path, deadline_s: float) -> str:
    """Speaks with the first voice. Raises EngineFailed."""
    try:
        await engine.start(AllowedPaths.of(writes=(folder,)))
        if not engine.voices:
            raise EngineFailed("The speech server lists no voice.")
        voice = engine.voices[0]
        utterance = Utterance(text=PROBE_TEXT, voice_id=voice.voice_id, speed=1.0)
        spoken = await engine.speak(utterance, folder / "test.mp3", deadline_s)
        return f"{voice.voice_id!r}, of {len(engine.voices)} voices, spoke for {spoken.seconds:.1f} s"
    finally:
        await engine.close()


def _reason(failure: Exception) -> str:
    """The message of the deepest cause whose text never contains a secret."""
    deepest: BaseException = failure
    message = str(failure)
    while deepest.__cause__ is not None:
        deepest = deepest.__cause__
        if isinstance(deepest, RequestFailed | upstream.FailedAttempt):
            message = str(deepest)
    if isinstance(deepest, OSError) and deepest.errno:
        known = os.strerror(deepest.errno) if deepest.errno > 0 else deepest.strerror
        message = f"it can't be reached: {known}"
    return message.rstrip(".")
