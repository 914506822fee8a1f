"""Upstream channels of both kinds: which there are, in which order, and which ones rest.

A channel that failed `FAILURES_MAX` times in a row rests for a while. For chat a rest only prefers the other
channels: where all of them rest they are tried all the same, since a try can but help. For speech a resting
channel counts as down: its voices leave the list and the next channel or a 503 takes its place. When
the rest is over, one try decides whether it rests again.
"""

import re
import time
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from myna.disk_threads import Disk
from myna.engines.espeak import VOICES as ESPEAK_VOICES
from myna.engines.espeak import Espeak
from myna.engines.openai import OpenAISpeech
from myna.engines.spoken import Voice
from myna.errors import CommandError
from myna.outbound import Outbound
from myna.settings import Settings, is_base_url
from myna.store import site as store
from myna.store.database import Connection, Database
from myna.store.site import ChannelRow, ChannelVoiceRow, Config

FAILURES_MAX = 5
VOICES_WAIT_S = 10.0
FROM_SETTINGS = "default"
"""The name of the channel that the settings bring; it goes before all others."""
PARROT = "parrot:"
_ENVIRONMENT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


class Channel(Struct, frozen=True):
    """A channel ready for use. `key` is the plain upstream key: never logged, never shown."""

    kind: str
    name: str
    url: str
    model: str
    key: str
    enabled: bool = True
    source: str = "database"


class SpeechChannel(Struct, frozen=True):
    """A speech channel, what speaks for it, and the voices it is known to have."""

    name: str
    engine: Espeak | OpenAISpeech
    voices: tuple[Voice, ...]
    up: bool
    full: bool = False


class Rests:
    """Which channels failed too often. In this process's memory: each process finds out by itself."""

    def __init__(self, rest_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rest_s, self._clock = rest_s, clock
        self._failures: dict[str, int] = {}
        self._until: dict[str, float] = {}

    def resting(self, name: str) -> bool:
        return self._clock() < self._until.get(name, 0.0)

    def failed(self, name: str) -> None:
        count = self._failures[name] = self._failures.get(name, 0) + 1
        if count >= FAILURES_MAX:
            self._until[name] = self._clock() + self._rest_s

    def succeeded(self, name: str) -> None:
        self._failures.pop(name, None)
        self._until.pop(name, None)


class Channels:
    """The channels of this process: those of the settings before those of the database."""

    def __init__(
        self, settings: Settings, environ: Mapping[str, str], outbound: Outbound, espeak: Espeak | None
    ) -> None:
        self._settings, self._environ = settings, environ
        self._outbound, self._espeak = outbound, espeak
        self._disk = Disk()
        self._first = from_settings(settings)
        self.rests = Rests(settings.channel_rest_s)
        self._seen: Config | None = None
        self._chat: list[Channel] = []

    def chat(self, config: Config) -> list[Channel]:
        """Those to try, in order; resting ones last."""
        if config is not self._seen:
            self._seen = config
            self._chat = [found for found in self.all(config) if found.kind == "chat" and found.enabled]
        return sorted(self._chat, key=lambda channel: self.rests.resting(channel.name))

    def speech(self, config: Config) -> list[SpeechChannel]:
        """All that are switched on, in order, up or not."""
        found: list[SpeechChannel] = []
        for channel in self.all(config):
            if channel.kind == "speech" and channel.enabled:
                found += self._speaking(channel, config)
        return found

    def all(self, config: Config) -> list[Channel]:
        """Every channel of both kinds, switched off ones too, by priority."""
        rows = [resolved(row, self._environ) for row in config.channels]
        return [*self._first, *rows]

    def engine(self, channel: Channel) -> OpenAISpeech:
        """What speaks for a channel behind a URL."""
        limit = self._settings.speech_answer_max_bytes
        return OpenAISpeech(
            self._outbound,
            self._disk,
            url=channel.url,
            key=channel.key or None,
            model=channel.model,
            answer_max_bytes=limit,
        )

    def _speaking(self, channel: Channel, config: Config) -> list[SpeechChannel]:
        if channel.url == "espeak:":
            if self._espeak is None:
                return []
            return [
                SpeechChannel(
                    channel.name, self._espeak, ESPEAK_VOICES, self._espeak.up(), self._espeak.full()
                )
            ]
        voices = tuple(
            Voice(row.voice_id, row.name, row.gender, row.language)
            for row in config.voices
            if row.channel == channel.name
        )
        up = not self.rests.resting(channel.name)
        return [SpeechChannel(channel.name, self.engine(channel), voices, up)]


def resolved(row: ChannelRow, environ: Mapping[str, str]) -> Channel:
    """The stored channel with its key from the environment of this process."""
    key = environ.get(row.key_env, "") if row.key_env else ""
    return Channel(row.kind, row.name, row.url, row.model, key, bool(row.enabled))


def from_settings(settings: Settings) -> list[Channel]:
    """The channels that need no command."""
    found = []
    if settings.chat_url:
        url = settings.chat_url
        found.append(
            Channel("chat", FROM_SETTINGS, url, settings.chat_model, settings.chat_key, source="settings")
        )
    if settings.speech != "none":
        url = "espeak:" if settings.speech == "espeak" else settings.speech
        name = "espeak" if settings.speech == "espeak" else f"{FROM_SETTINGS}-speech"
        found.append(
            Channel("speech", name, url, settings.speech_model, settings.speech_key, source="settings")
        )
    return found


def check(row: ChannelRow) -> None:
    """Raises CommandError for a channel that can't be."""
    taken = {FROM_SETTINGS, f"{FROM_SETTINGS}-speech", "espeak"}
    if not row.name.strip() or len(row.name) > 100 or not row.name.isprintable() or row.name in taken:
        raise CommandError(
            f"A channel needs a name of 1 to 100 printable characters, none of {sorted(taken)}."
        )
    if "@" in urlsplit(row.url).netloc:
        raise CommandError("The URL must hold no login: it would be stored; name a variable with --key-env.")
    own = row.url == PARROT and row.kind == "chat"
    if not own and not is_base_url(row.url):
        raise CommandError("The URL must be http://… or https://… without a query (or be parrot: for chat).")
    if row.key_env and not _ENVIRONMENT_NAME.fullmatch(row.key_env):
        raise CommandError("The key's place must be the name of an environment variable, not the key itself.")


async def record_voices(db: Database, channels: Channels, channel: Channel) -> int:
    """Asks a speech channel for its voices and records them; how many. A channel that can't be asked keeps
    those it had. Raises EngineFailed."""
    voices = await channels.engine(channel).voices(VOICES_WAIT_S)
    rows = [
        ChannelVoiceRow(channel.name, voice.voice_id, voice.name, voice.gender, voice.language)
        for voice in voices
    ]

    async def work(connection: Connection) -> None:
        await store.record_voices(connection, channel.name, rows)

    await db.transaction(work)
    return len(rows)
