"""Upstream channels for chat and speech: their order, their keys, and their circuits.

For chat, channels with an open circuit are tried last. For speech, such a channel is unavailable: its voices
are not listed, and the next channel speaks, or the answer is a 503.
"""

import logging
import math
import random
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any

from msgspec import Struct, structs

from myna.channels.circuits import CircuitChange, Circuits, Outbound
from myna.channels.keys import ChannelKeys, LoadedKeys
from myna.channels.routes import Route, RouteKind
from myna.engines import registry
from myna.engines.interface import Engine, EngineVoice
from myna.engines.openai.api import request_headers
from myna.engines.openai.engine import OpenAISpeech
from myna.engines.voices import can_make
from myna.errors import CommandError
from myna.http.client import HttpClient
from myna.lib.files import DiskExecutor
from myna.lib.net import is_base_url
from myna.settings import Settings
from myna.store.database import Database, Transaction
from myna.store.queries import config as store
from myna.store.queries.config import BlendRow, ChannelRow, ChannelVoiceRow, Config

log = logging.getLogger(__name__)

FROM_SETTINGS = "default"
"""The name of the channel from the process settings, which precedes all others."""
PARROT = "parrot:"
OF_NODE = "node:"
"""The prefix of a compute node's name in reports by channel."""


class Channel(ChannelRow, frozen=True, kw_only=True):
    """A channel with its plain upstream key, which is never logged or shown. Those of the `source` `settings`
    come first. `key_stored`: the operator entered a key; see `keys.py`."""

    key: str
    key_stored: bool = False
    source: str = "database"

    def headers(self, accept: str = "application/json") -> dict[str, str]:
        """The headers of a request in JSON to the channel, with its key."""
        return request_headers(self.key, accept)


class SpeechChannel(Struct, frozen=True):
    """A speech channel, its engine and its voices. `recipes` are those of the voices that are blends, by the
    voice's id. `place` is for one text of an account."""

    name: str
    engine: Engine
    voices: tuple[EngineVoice, ...]
    up: bool
    full: bool = False
    recipes: dict[str, str] = {}
    place: Callable[[int], AbstractAsyncContextManager[None]] = lambda account_id: nullcontext()

    def engine_voice_id(self, voice_id: str) -> str:
        """What the engine is asked for, to speak in this voice of the channel."""
        return self.recipes.get(voice_id, voice_id)


class Channels:
    """The channels of one process: those of the settings, then those of the database. `local` are the engines
    of MYNA_SPEECH that run here, by the name of their channel."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        http_client: HttpClient,
        local: Mapping[str, Engine],
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._http_client = http_client
        self._local = local
        self._disk = DiskExecutor()
        self._first = from_settings(settings)
        self._outbound = Outbound(settings.outbound_connections_max)
        self.changed: dict[str, CircuitChange] = {}
        """Circuits that opened or closed and are not stored yet."""
        self.circuits = Circuits(settings.channel_cooldown_s, on_change=self._record_change)
        self._without_key: set[tuple[str, str]] = set()
        self._keys = LoadedKeys(ChannelKeys(settings))
        self._loads = 0
        self._seen: Config | None = None
        self._all: list[Channel] = []
        self._enabled: dict[RouteKind, list[Channel]] = {}
        self._known: dict[Hashable, Any] = {}

    def chat(self, config: Config) -> list[Channel]:
        """The enabled chat channels in the order to try; those with an open circuit last."""
        self._read(config)
        return self.to_try(self._enabled[RouteKind.CHAT])

    def of_route(self, config: Config, route: Route) -> list[Channel]:
        """The enabled channels that serve the route, in the order to try."""
        return self.to_try(self.serving(config, route))

    def serving(self, config: Config, route: Route) -> list[Channel]:
        """The enabled channels that serve the route, by priority."""
        self._read(config)
        found = self._enabled[route.kind]
        if route.channels:
            found = [channel for channel in found if channel.name in route.channels]
        return found

    def to_try(self, found: list[Channel]) -> list[Channel]:
        """These channels in the order to try; those with an open circuit last."""
        if len(found) < 2:
            return found
        if any(channel.weight for channel in found):
            found = in_order(found)
        return sorted(found, key=lambda channel: self.circuits.open(channel.name))

    def speech(self, config: Config, route: Route | None = None) -> list[SpeechChannel]:
        """The enabled speech channels in order, available or not; of a route those that serve it, with its
        model."""
        if route is None:
            candidates = [one for one in self.all(config) if one.kind == "speech" and one.enabled]
        else:
            model = route.upstream_model
            of_route = self.of_route(config, route)
            candidates = [structs.replace(one, model=model or one.model) for one in of_route]
        return [speaking for channel in candidates for speaking in self._speaks(channel, config)]

    def all(self, config: Config) -> list[Channel]:
        """All channels by priority, disabled ones included."""
        self._read(config)
        return self._all

    def known(self, config: Config) -> dict[Hashable, Any]:
        """What callers have worked out of this configuration and its keys; emptied when there are others."""
        self._read(config)
        return self._known

    async def load_keys(self, config: Config) -> None:
        """Reads the stored keys of a configuration: storing a key makes a new version of it. A command does
        without: they are read when they are needed."""
        await self._keys.load(config.channels)

    def _read(self, config: Config) -> None:
        if config is not self._seen or self._keys.loads != self._loads:
            self._loads = self._keys.loads
            rows = [resolved(row, self._environ, self._keys.read) for row in config.channels]
            self._all = [*self._first, *rows]
            enabled = [channel for channel in self._all if channel.enabled]
            self._enabled = {
                kind: [one for one in enabled if one.kind == kind.channel_kind] for kind in RouteKind
            }
            self._known = {}
            self._seen = config

    def place(self, channel: Channel, account_id: int) -> AbstractAsyncContextManager[None]:
        """A place for a request of the account to the channel, if that has a server. Raises Overloaded for
        the account, ChannelFull for the channel."""
        if channel.url == PARROT or is_local(channel):
            return nullcontext()
        return self._outbound.place(channel.name, channel.concurrent, account_id)

    def warn_of_missing_keys(self, config: Config) -> None:
        """Logs each enabled channel whose key this process doesn't have, once."""
        found = {(one.name, missing_key(one)) for one in self.all(config) if one.enabled}
        found = {one for one in found if one[1]}
        for each in sorted(found - self._without_key):
            log.warning("channel %r has no key in this process: %s", *each)
        self._without_key = found

    def _record_change(self, change: CircuitChange) -> None:
        self.changed[change.channel] = change

    def engine(self, channel: Channel) -> Engine | None:
        """The local engine of the channel, or one for its URL, which shares the HTTP client. None for a
        local engine that isn't in this process."""
        if is_local(channel):
            return self._local.get(channel.name)
        return OpenAISpeech(
            self._http_client,
            self._disk,
            url=channel.url,
            key=channel.key,
            headers=channel.headers,
            model=channel.model,
            answer_max_bytes=self._settings.speech_answer_max_bytes,
        )

    def _speaks(self, channel: Channel, config: Config) -> list[SpeechChannel]:
        found: SpeechChannel | None = self._known.get((channel.name, channel.model))
        if found is None:
            engine = self.engine(channel)
            if engine is None:
                return []
            own = engine.voices or tuple(row for row in config.voices if row.channel == channel.name)
            blends = _blends(engine, own, config)
            found = SpeechChannel(
                name=channel.name,
                engine=engine,
                voices=(*own, *blends),
                up=True,
                recipes={blend.voice_id: blend.recipe for blend in blends},
                place=partial(self.place, channel),
            )
            self._known[channel.name, channel.model] = found
        up = found.engine.up() if is_local(channel) else not self.circuits.open(channel.name)
        return [structs.replace(found, up=up, full=found.engine.full())]


def _blends(engine: Engine, own: tuple[EngineVoice, ...], config: Config) -> list[BlendRow]:
    """The operator's blends of voices that the engine has."""
    if not engine.blends:
        return []
    ids = {voice.voice_id for voice in own}
    return [row for row in config.blends if row.voice_id not in ids and can_make(row.recipe, ids)]


def in_order(found: Sequence[Channel], draw: Callable[[], float] = random.random) -> list[Channel]:
    """Channels by priority. Those of one priority that have a weight come first, in a random order in which a
    channel precedes another one with a probability of its weight among both; then the others as they are.
    `draw` returns a number from 0 to 1, without 1."""

    def place(channel: Channel) -> tuple[bool, int, float]:
        drawn = -math.log(1.0 - draw()) / channel.weight if channel.weight else math.inf
        return channel.source == "database", channel.priority, drawn

    return sorted(found, key=place)


def is_local(channel: Channel) -> bool:
    """Whether processes of this service speak, and not a server."""
    return channel.source == "settings" and not is_base_url(channel.url)


def resolved(row: ChannelRow, environ: Mapping[str, str], key_of: Callable[[ChannelRow], str]) -> Channel:
    """The channel of the database with its key: the one that is stored for its name and URL, else that in the
    environment of this process."""
    stored = key_of(row)
    key = stored or (environ.get(row.key_env, "").strip() if row.key_env else "")
    return Channel(**structs.asdict(row), key=key, key_stored=bool(stored or row.stored_key))


def missing_key(channel: Channel) -> str:
    """Why this process doesn't have the key of a channel that has one; empty if it does."""
    if channel.key:
        return ""
    if channel.key_stored:
        return "it was entered on another machine, or is encrypted with another MYNA_SECRET_KEY"
    return f"{channel.key_env} is not set in this process, or empty" if channel.key_env else ""


def from_settings(settings: Settings) -> list[Channel]:
    """The channels that the process settings define."""
    found = []
    if settings.chat_url:
        url = settings.chat_url
        found.append(
            Channel(
                kind="chat",
                name=FROM_SETTINGS,
                url=url,
                model=settings.chat_model,
                key=settings.chat_key.strip(),
                source="settings",
            )
        )
    if is_base_url(settings.speech):
        found.append(
            Channel(
                kind="speech",
                name=registry.DEFAULT_SPEECH,
                url=settings.speech,
                model=settings.speech_model,
                key=settings.speech_key.strip(),
                source="settings",
            )
        )
    found += (
        Channel(kind="speech", name=name, url=f"{name}:", model="", key="", source="settings")
        for name in registry.site_configs(settings.speech, settings.data_folder)
    )
    return found


async def record_voices(db: Database, channels: Channels, channel: Channel) -> int:
    """Stores the voices of a speech channel, for processes that do not look them up. Returns how many. Raises
    EngineFailed; then the stored voices stay."""
    engine = channels.engine(channel)
    if engine is None:
        return 0
    if not is_local(channel):
        await engine.start()
    rows = [ChannelVoiceRow(channel=channel.name, **structs.asdict(voice)) for voice in engine.voices]
    await db.transaction(lambda connection: store.record_voices(connection, channel.name, rows))
    return len(rows)


async def record_circuits(db: Database, channels: Channels) -> None:
    """Stores the circuits of this process that opened or closed since the last call."""
    changes = dict(channels.changed)
    if not changes:
        return

    async def work(connection: Transaction) -> None:
        for name, change in sorted(changes.items()):
            if change.open_s:
                open_ms = int(channels.circuits.open_s(name) * 1000)
                await store.record_open(connection, name, open_ms, change.error)
            else:
                await store.record_closed(connection, name)

    await db.transaction(work)
    for name, change in changes.items():
        if channels.changed[name] is change:
            del channels.changed[name]


async def restore_circuits(db: Database, channels: Channels) -> None:
    """Restores the circuits that were stored as open."""
    for name, row in (await store.load_circuits(db)).items():
        if row.state != "closed":
            channels.circuits.half_open(name)


def no_channel(name: str, known: list[str]) -> CommandError:
    """The error for a channel that is not among the `known` names."""
    if not known:
        return CommandError("There is no channel {name!r}; there are none.", name=name)
    one = len(known) == 1
    return CommandError(
        "There is no channel {name!r}; there is {known}."
        if one
        else "There is no channel {name!r}; there are {known}.",
        name=name,
        known=", ".join(map(repr, known)),
    )
