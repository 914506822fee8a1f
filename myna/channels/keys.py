"""Keys of channels that the operator entered: one file each, `DATA/secrets/CHANNEL.key`, mode 0600.

No page, command, log or metric shows a stored key, and no backup has it. It belongs to the server for which
it was entered: a channel whose URL is changed, or another one of the same name, doesn't send it elsewhere.
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from myna.errors import CommandError
from myna.lib.files import AtomicFile

log = logging.getLogger(__name__)

FOLDER = "secrets"
KEY_MAX_CHARS = 4096
LOAD_MAX_S = 1.0
"""How long a new configuration waits for the keys of its channels."""
_NAME_MAX_BYTES = 250
_FOLDER_MODE = 0o700
_FILE_MODE = 0o600


class _StoredKey(Struct, frozen=True):
    """The content of a file."""

    server: str
    key: str


class ChannelKeys:
    """The files of one machine. `owner` is the user and group id for new files, if the process is root."""

    def __init__(self, data_folder: Path, owner: tuple[int, int] | None = None) -> None:
        self._folder = data_folder / FOLDER
        self._owner = owner

    def read(self, channel: str, url: str) -> str:
        """The key of the channel at this URL; "" without one, or with one for another server."""
        try:
            found = msgspec.json.decode(self._path(channel).read_bytes(), type=_StoredKey)
        except FileNotFoundError:
            return ""
        except (OSError, msgspec.DecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            log.error("the stored key of channel %r can't be read: %s", channel, reason)
            return ""
        return found.key if found.server == server_of(url) else ""

    def store(self, channel: str, url: str, key: str) -> None:
        """Stores the key of the channel at this URL, durably. Raises CommandError."""
        check(channel, key)
        content = msgspec.json.encode(_StoredKey(server_of(url), key))
        file = AtomicFile(self._path(channel))
        try:
            self._folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            file.begin()
            file.part.chmod(_FILE_MODE)
            file.write(content)
            if self._owner:
                for path in (self._folder, file.part):
                    os.chown(path, *self._owner)
            file.commit()
        except OSError as error:
            file.abort()
            raise CommandError(
                "The key can't be stored in {folder}: {strerror}.",
                folder=self._folder,
                strerror=error.strerror,
            ) from None

    def remove(self, channel: str) -> bool:
        """Removes the channel's key; False if there is none. Raises CommandError."""
        try:
            self._path(channel).unlink()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise CommandError(
                "The stored key of the channel {channel!r} can't be removed: {strerror}.",
                channel=channel,
                strerror=error.strerror,
            ) from None
        return True

    def _path(self, channel: str) -> Path:
        return self._folder / _file_name(channel)


class LoadedKeys:
    """The stored keys in memory of a process that serves, so that no call waits for a disk. Before the first
    `load`, as in a command, `read` reads the file. `loads` counts what was read."""

    def __init__(self, keys: ChannelKeys) -> None:
        self._keys = keys
        self._loaded: dict[tuple[str, str], str] = {}
        self._reading: asyncio.Task[None] | None = None
        self.loads = 0

    def read(self, channel: str, url: str) -> str:
        """The key of the channel at this URL, as it was loaded; "" without one."""
        if self._reading is None:
            return self._keys.read(channel, url)
        return self._loaded.get((channel, url), "")

    async def load(self, channels: Sequence[tuple[str, str]]) -> None:
        """Reads the keys of channels, names with URLs, in a thread. While a disk is stalled the keys that
        were read before stay, and no further thread waits for it."""
        if self._reading is None or await self._is_read(self._reading):
            self._reading = asyncio.create_task(self._load(channels))
            await self._is_read(self._reading)

    async def _is_read(self, reading: asyncio.Task[None]) -> bool:
        """Waits for the thread that reads, for LOAD_MAX_S at most."""
        await asyncio.wait({reading}, timeout=LOAD_MAX_S)
        if not reading.done():
            log.error("the stored keys of channels can't be read: the disk does not answer")
        return reading.done()

    async def _load(self, channels: Sequence[tuple[str, str]]) -> None:
        def read() -> dict[tuple[str, str], str]:
            return {(channel, url): self._keys.read(channel, url) for channel, url in channels}

        self._loaded = await asyncio.to_thread(read)
        self.loads += 1


def check(channel: str, key: str) -> None:
    """Raises CommandError for what can't be stored as the channel's key. The message doesn't have the key."""
    if not key or len(key) > KEY_MAX_CHARS or not key.isascii() or not key.isprintable() or " " in key:
        raise CommandError(
            "A key has 1 to {key_max_chars} printable ASCII characters and no space: it is sent in a header.",
            key_max_chars=KEY_MAX_CHARS,
        )
    if len(_file_name(channel)) > _NAME_MAX_BYTES:
        raise CommandError(
            "The name of the channel {channel!r} is too long for a file: give the channel a"
            " shorter one, or set its key in an environment variable (--key-env).",
            channel=channel,
        )


def server_of(url: str) -> str:
    """The scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _file_name(channel: str) -> str:
    """Names may contain slashes, and may be `..`."""
    return f"{quote(channel, safe='')}.key"
