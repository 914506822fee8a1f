"""The operator's configuration: settings, channels and voices, stored in the database and cached per process.

A change applies in every process from its next call on, without a restart. To add a site setting, add a field
to SiteSettings and a row to docs/configuration.md.
"""

import logging
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, get_type_hints

from msgspec import Struct, structs

from myna import settings
from myna.errors import CommandError, DatabaseUnavailable
from myna.errors.sentences import WrongValue
from myna.lib.names import is_name
from myna.lib.times import zone_of
from myna.store.database import Database
from myna.store.queries import config as store
from myna.store.queries.config import Config
from myna.wire import openai_voices

log = logging.getLogger(__name__)

DAY_MS = 86_400_000
MIB = 2**20
_SHOWN_CHARS = 40
_TOKENS = re.compile(r"[1-9][0-9]{0,8}")


class SiteSetting(Struct, frozen=True):
    """What a setting means, and how its text is parsed. `parse` raises ValueError with what it must be."""

    meaning: str
    parse: Callable[[str], object]


def _whole(least: int, most: int, meaning: str) -> SiteSetting:
    def parse(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise WrongValue("must be a whole number from {least} to {most}", least=least, most=most)
        return int(text)

    return SiteSetting(meaning, parse)


def _either(meaning: str, one: str, other: str) -> SiteSetting:
    """A word that is one of two, which the meaning is followed by."""

    def parse(text: str) -> str:
        if text not in (one, other):
            raise WrongValue("must be {one} or {other}", one=one, other=other)
        return text

    return SiteSetting(f"{meaning}: {one} or {other}", parse)


def _owner(text: str) -> str:
    if not is_name(text, 100):
        raise WrongValue("must be 1 to 100 printable characters")
    return text


def _zone(text: str) -> str:
    zone_of(text)
    return text


def _openai_voices(text: str) -> str:
    openai_voices.read(text)
    return text


def context_lengths(text: str) -> dict[str, int]:
    """The tokens by model of a text such as `svc-chat=8192,gpt-4o=128000`. Raises ValueError."""
    found = [pair.strip().rpartition("=") for pair in text.split(",") if pair.strip()]
    lengths = {name: tokens for name, _, tokens in found if name and not re.search(r"\s", name)}
    if len(lengths) < len(found) or not all(map(_TOKENS.fullmatch, lengths.values())):
        raise WrongValue("must be MODEL=TOKENS, several separated by commas, each model once")
    return {name: int(tokens) for name, tokens in lengths.items()}


def _context_lengths(text: str) -> str:
    context_lengths(text)
    return text


class SiteSettings(Struct, frozen=True):
    """The site settings: name with unit, type, accepted values, meaning and default."""

    tts_max_chars: Annotated[int, _whole(1, 100_000, "characters of the longest text of a request")] = 1000
    openai_speech_max_chars: Annotated[
        int, _whole(1, 100_000, "characters of the longest text of /openai/v1/audio/speech, if that is more")
    ] = 4096
    tts_max_sound_s: Annotated[int, _whole(1, 36_000, "seconds of sound that one text may make")] = 1800
    owner: Annotated[str, SiteSetting("the owner label of GET /models", _owner)] = "myna"
    language: Annotated[str, _either("the language of status texts", "zh", "en")] = "zh"
    chat_units: Annotated[int, _whole(0, 1_000_000, "units a chat call costs")] = 1
    tts_units: Annotated[int, _whole(0, 1_000_000, "units a speech call costs")] = 1
    transcription_units: Annotated[int, _whole(0, 1_000_000, "units a transcription costs")] = 1
    stream_begin_s: Annotated[
        int, _whole(0, 600, "seconds until a stream that has no event yet begins with a comment; 0: never")
    ] = 10
    broken_stream: Annotated[str, _either("a stream that its channel breaks off", "refund", "keep")] = (
        "refund"
    )
    hosted_tools: Annotated[
        str, _either("tools of a response that nothing here can run, such as web_search", "ignore", "refuse")
    ] = "ignore"
    context_lengths: Annotated[
        str, SiteSetting("tokens that models take, in GET /models: MODEL=TOKENS, …", _context_lengths)
    ] = ""
    key_rpm: Annotated[int, _whole(0, 10**12, "calls of a key in a minute; 0: no limit")] = 0
    key_concurrent: Annotated[int, _whole(0, 10**12, "open calls of a key; 0: no limit")] = 0
    key_units_per_day: Annotated[int, _whole(0, 10**12, "units of a key in 24 h; 0: no limit")] = 0
    account_rpm: Annotated[int, _whole(0, 10**12, "calls of an account in a minute; 0: no limit")] = 0
    account_concurrent: Annotated[int, _whole(0, 10**12, "open calls of an account; 0: no limit")] = 0
    account_units_per_day: Annotated[int, _whole(0, 10**12, "units of an account in 24 h; 0: no limit")] = 0
    voice_recipes: Annotated[
        str, _either("a recipe of voices as the voice of a request", "refuse", "accept")
    ] = "refuse"
    task_deadline_s: Annotated[int, _whole(1, 86_400, "seconds from the order to a task's deadline")] = 120
    audio_keep_days: Annotated[int, _whole(0, 36_500, "days until audio is removed; 0 keeps it")] = 90
    responses_keep_days: Annotated[
        int, _whole(0, 36_500, "days until a stored response is removed; 0 stores none")
    ] = 0
    account_storage_mib: Annotated[int, _whole(0, 2**30, "MiB an account may store; 0: no quota")] = 1024
    openai_voices: Annotated[
        str, SiteSetting("the voices that OpenAI's names mean: NAME=VOICE_ID, …", _openai_voices)
    ] = openai_voices.DEFAULT
    time_zone: Annotated[str, SiteSetting("the zone of days and months in reports", _zone)] = "UTC"


OF_PROCESS = "{name} is a setting of the process, not of the site: set {variable}, or {name} in myna.toml."
SETTINGS: dict[str, SiteSetting] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(SiteSettings, include_extras=True).items()
}


class UnreadableSetting(Struct, frozen=True):
    """A stored site setting that this build can't parse. Its default applies."""

    name: str
    value: str
    why: ValueError

    def __str__(self) -> str:
        return f"{self.name} {self.why}, it is {self.value[:_SHOWN_CHARS]!r}"


class ConfigCache:
    """This process's copy of the configuration: `current`, and its site settings parsed as `settings`."""

    current: Config

    def __init__(self, db: Database, config: Config) -> None:
        self._db = db
        self.on_load: Callable[[Config], Awaitable[None]] | None = None
        """Called with a configuration before it replaces the copy."""
        self._reported: tuple[int, list[str]] = (0, [])
        self._replace(config)

    @classmethod
    async def read(cls, db: Database) -> "ConfigCache":
        return cls(db, await store.load(db))

    async def refresh(self) -> None:
        """Reads the configuration. It replaces the copy even if it is older: the database may have been
        restored. If another refresh has replaced the copy concurrently, only a newer version does."""
        before = self.current
        config = await store.load(self._db)
        if self.on_load:
            await self.on_load(config)
        if self.current is before or config.version > self.current.version:
            self._replace(config)

    async def at(self, version: int) -> None:
        """Refreshes the copy unless it has this version, which a key check returned."""
        if self.current.version != version:
            await self.refresh()

    async def with_nodes(self) -> Config:
        """The configuration with the current voices of the compute nodes. Raises DatabaseUnavailable."""
        known = self.current.nodes_version
        try:
            if known and known != await store.nodes_version(self._db):
                nodes = await store.load_nodes(self._db)
                self.current = structs.replace(self.current, **structs.asdict(nodes))
        except self._db.unavailable:
            raise DatabaseUnavailable from None
        return self.current

    def _replace(self, config: Config) -> None:
        self.current = config
        self.settings = settings_of(config)
        self._report(unreadable(config))

    def _report(self, found: list[UnreadableSetting]) -> None:
        """Logs the settings that can't be parsed, once per version of the configuration."""
        texts = [str(one) for one in found]
        if self._reported != (self.current.version, texts):
            self._reported = self.current.version, texts
            for one in found:
                default = getattr(self.settings, one.name)
                log.error("the stored site setting %s; its default applies: %r", one, default)


def settings_of(config: Config) -> SiteSettings:
    """The stored values over the defaults. A value that can't be parsed counts as not stored."""
    return SiteSettings(**_parsed(config)[0])


def unreadable(config: Config) -> list[UnreadableSetting]:
    """The stored values that this build can't parse, by name."""
    return _parsed(config)[1]


def _parsed(config: Config) -> tuple[dict[str, Any], list[UnreadableSetting]]:
    values: dict[str, Any] = {}
    failed: list[UnreadableSetting] = []
    for name, text in sorted(config.settings.items()):
        if name not in SETTINGS:
            continue
        try:
            values[name] = SETTINGS[name].parse(text)
        except ValueError as error:
            failed.append(UnreadableSetting(name, text, error))
    return values, failed


def check_name(name: str) -> None:
    """Raises CommandError if there is no site setting of this name."""
    of_process = name.removeprefix(settings.PREFIX).lower()
    if of_process in settings.SETTINGS:
        variable = f"{settings.PREFIX}{of_process.upper()}"
        raise CommandError(OF_PROCESS, name=of_process, variable=variable)
    if name not in SETTINGS:
        raise CommandError(
            "There is no site setting {name!r}; there are {settings}.",
            name=name,
            settings=", ".join(SETTINGS),
        )


def check(name: str, value: str) -> None:
    """Raises CommandError if there is no site setting of this name, or not with this value."""
    check_name(name)
    try:
        SETTINGS[name].parse(value)
    except ValueError as error:
        raise CommandError(
            "{name}: {error}; it is {value!r}.", name=name, error=error, value=value[:_SHOWN_CHARS]
        ) from None


def applied(config: Config) -> list[tuple[str, object, str]]:
    """Every site setting: name, value, and source: `database`, `default`, or `unreadable` for the default in
    place of a stored value that can't be parsed."""
    stored, failed = _parsed(config)
    sources = dict.fromkeys(stored, "database") | {one.name: "unreadable" for one in failed}
    values = structs.asdict(SiteSettings(**stored))
    return [(name, value, sources.get(name, "default")) for name, value in values.items()]
