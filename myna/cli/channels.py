"""myna channel add|list|test|enable|disable|remove"""

import os
import time
from collections.abc import Sequence
from typing import Literal

from cyclopts import App

from myna import channels, site
from myna.channels import PARROT, Channel, Channels
from myna.chat import upstream
from myna.cli.desk import Json, Whole, read_settings, show, show_rows, with_database
from myna.engines.spoken import EngineFailed
from myna.errors import CommandError, UpstreamFailed
from myna.outbound import Outbound, OutboundFailed
from myna.settings import without_login
from myna.store import site as store
from myna.store.database import Connection, Database
from myna.store.site import ChannelRow, Config

app = App(name="channel", help="Upstream channels: what answers chats and what speaks.")

PROBE = "Say hello."
PROBE_WAIT_S = 30.0


@app.command
def add(
    kind: Literal["chat", "speech"],
    name: str,
    url: str,
    *,
    model: str = "",
    key_env: str = "",
    priority: Whole = 100,
    json: Json = False,
) -> None:
    """Add a channel; those with a lower priority number are tried first."""
    row = ChannelRow(kind, name, url, model or ("tts-1" if kind == "speech" else ""), key_env, priority, 1)
    channels.check(row)
    if not -1_000_000 <= priority <= 1_000_000:
        raise CommandError("The priority must be from -1000000 to 1000000.")

    async def insert(connection: Connection) -> bool:
        return await store.add_channel(connection, row)

    async def work(db: Database) -> str:
        if not await db.transaction(insert):
            raise CommandError(f"There already is a channel {name!r}.")
        return await _learn_voices(db, row) if kind == "speech" else ""

    note = with_database(work)
    show({"kind": kind, "name": name, "url": without_login(url), **({"voices": note} if note else {})}, json)


@app.command(name="list")
def list_all(*, json: Json = False) -> None:
    """List the channels in the order in which they are tried."""
    config = with_database(store.load)
    rows = [
        {
            "kind": channel.kind,
            "name": channel.name,
            "url": without_login(channel.url),
            "model": channel.model,
            "key": bool(channel.key),
            "enabled": channel.enabled,
            "source": channel.source,
        }
        for channel in _all(config)
    ]
    show_rows(rows, json, empty="There is no channel yet: myna channel add chat NAME URL")


@app.command
def test(name: str, *, json: Json = False) -> None:
    """Ask a channel something and tell how it went."""

    async def work(db: Database) -> dict[str, object]:
        config = await store.load(db)
        known = _all(config)
        channel = next((channel for channel in known if channel.name == name), None)
        if channel is None:
            raise CommandError(f"There is no channel {name!r}; {_names(known)}.")
        started = time.monotonic()
        result = await _probe(channel)
        return {"name": name, "ok": True, "ms": round((time.monotonic() - started) * 1000), "result": result}

    show(with_database(work), json)


@app.command
def enable(name: str, *, json: Json = False) -> None:
    """Use a channel again."""
    _switch(name, True, json)


@app.command
def disable(name: str, *, json: Json = False) -> None:
    """Pass a channel over until it is enabled."""
    _switch(name, False, json)


@app.command
def remove(name: str, *, json: Json = False) -> None:
    """Delete a channel."""

    async def delete(connection: Connection) -> bool:
        return await store.remove_channel(connection, name)

    _change(name, delete)
    show({"name": name, "removed": True}, json)


def _switch(name: str, enabled: bool, json: bool) -> None:
    async def change(connection: Connection) -> bool:
        return await store.enable_channel(connection, name, enabled)

    _change(name, change)
    show({"name": name, "enabled": enabled}, json)


def _change(name: str, change: site.Change) -> None:
    async def work(db: Database) -> None:
        if await db.transaction(change):
            return
        if name in {channel.name for channel in channels.from_settings(read_settings())}:
            raise CommandError(f"There is no channel {name!r} in the database; it comes from the settings.")
        stored = [channels.resolved(row, os.environ) for row in (await store.load(db)).channels]
        raise CommandError(f"There is no channel {name!r}; {_names(stored)}.")

    with_database(work)


def _names(known: Sequence[Channel]) -> str:
    names = ", ".join(repr(channel.name) for channel in known)
    return f"there is {names}" if len(known) == 1 else f"there are {names or 'none'}"


def _all(config: Config) -> list[Channel]:
    stored = [channels.resolved(row, os.environ) for row in config.channels]
    return [*channels.from_settings(read_settings()), *stored]


async def _learn_voices(db: Database, row: ChannelRow) -> str:
    """Asks a new speech channel what it can speak; where it can't be asked now, the server asks again."""
    outbound = Outbound(connections_max=1)
    try:
        known = Channels(read_settings(), os.environ, outbound, None)
        count = await channels.record_voices(db, known, channels.resolved(row, os.environ))
    except EngineFailed as failure:
        return f"not known yet ({failure})"
    finally:
        await outbound.close()
    return str(count)


async def _probe(channel: Channel) -> str:
    settings = read_settings()
    outbound = Outbound(connections_max=1)
    try:
        known = Channels(settings, os.environ, outbound, None)
        if channel.kind == "speech":
            if channel.url == "espeak:":
                return "the embedded voice needs no test"
            voices = await known.engine(channel).voices(PROBE_WAIT_S)
            return f"{len(voices)} voices"
        if channel.url == PARROT:
            return "the parrot is in"
        said = await upstream.ask(
            outbound,
            known,
            [channel],
            {"model": channel.model, "messages": [{"role": "user", "content": PROBE}]},
            PROBE,
            seconds=PROBE_WAIT_S,
            try_s=PROBE_WAIT_S,
            answer_max_bytes=settings.answer_max_bytes,
        )
        return said.content[:200]
    except (EngineFailed, UpstreamFailed) as failure:
        raise CommandError(f"The channel {channel.name!r} failed: {_reason(failure)}.") from None
    finally:
        await outbound.close()


def _reason(failure: Exception) -> str:
    """What is known of a failure: the deepest cause of those whose words never hold a secret."""
    deepest: BaseException = failure
    said = str(failure)
    while deepest.__cause__ is not None:
        deepest = deepest.__cause__
        if isinstance(deepest, OutboundFailed | upstream.Fault):
            said = str(deepest)
    if isinstance(deepest, OSError) and deepest.errno:
        known = os.strerror(deepest.errno) if deepest.errno > 0 else deepest.strerror
        said = f"it can't be reached: {known}"
    return said.rstrip(".")
