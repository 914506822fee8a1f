"""The site's settings: what the operator changes while the service runs, kept in the database."""

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import Struct, structs

from myna.errors import CommandError
from myna.store import site as store
from myna.store.database import Connection, Database
from myna.store.site import Config

DAY_MS = 86_400_000

Change = Callable[[Connection], Awaitable[bool]]
"""A change of the configuration in an open transaction; False where there was nothing to change."""


class SiteSettings(Struct, frozen=True):
    """Site settings by the names of the command line, with their defaults."""

    tts_max_chars: int = 1000
    owner: str = "myna"
    language: str = "zh"
    chat_units: int = 1
    tts_units: int = 1
    task_deadline_s: int = 120
    audio_keep_days: int = 0


MEANINGS = {
    "tts_max_chars": "the longest text of one speech request, in characters",
    "owner": "the owner label of GET /models",
    "language": "the language of status texts: zh or en",
    "chat_units": "units a chat call costs",
    "tts_units": "units a speech call costs",
    "task_deadline_s": "how long a speech task may take, from its order",
    "audio_keep_days": "days until audio files are removed; 0 keeps them",
}


def _whole(least: int, most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
            raise ValueError(f"must be a whole number from {least} to {most}")
        return int(text)

    return read


def _owner(text: str) -> str:
    if not text.strip() or len(text) > 100 or not text.isprintable():
        raise ValueError("must be 1 to 100 printable characters")
    return text


def _language(text: str) -> str:
    if text not in ("zh", "en"):
        raise ValueError("must be zh or en")
    return text


_READ: dict[str, Callable[[str], Any]] = {
    "tts_max_chars": _whole(1, 100_000),
    "owner": _owner,
    "language": _language,
    "chat_units": _whole(0, 1_000_000),
    "tts_units": _whole(0, 1_000_000),
    "task_deadline_s": _whole(1, 86_400),
    "audio_keep_days": _whole(0, 36_500),
}


class Site:
    """This process's copy of what the operator configured, and how it is made fresh."""

    def __init__(self, db: Database, config: Config) -> None:
        self._db = db
        self._take(config)

    @classmethod
    async def read(cls, db: Database) -> "Site":
        return cls(db, await store.load(db))

    async def refresh(self) -> None:
        self._take(await store.load(self._db))

    async def at(self, version: int) -> None:
        """Makes the copy as fresh as the version that came with a key check."""
        if self.config.version != version:
            await self.refresh()

    def _take(self, config: Config) -> None:
        self.config = config
        self.settings = settings_of(config)


def settings_of(config: Config) -> SiteSettings:
    """The stored values over the defaults."""
    known = {name: _READ[name](value) for name, value in config.settings.items() if name in _READ}
    return SiteSettings(**known)


def check(name: str, value: str) -> None:
    """Raises CommandError if there is no such setting, or not with this value."""
    if name not in _READ:
        raise CommandError(f"There is no site setting {name!r}; there are {', '.join(_READ)}.")
    try:
        _READ[name](value)
    except ValueError as error:
        raise CommandError(f"{name}: {error}.") from None


async def change(db: Database, name: str, value: str) -> None:
    """Sets a site setting; every process decides by it from its next call on."""
    check(name, value)

    async def work(connection: Connection) -> None:
        await store.set_setting(connection, name, value)

    await db.transaction(work)


def as_rows(config: Config) -> list[tuple[str, object, str]]:
    """Every site setting: name, value, and where the value comes from."""
    values = structs.asdict(settings_of(config))
    return [
        (name, value, "database" if name in config.settings else "default") for name, value in values.items()
    ]
