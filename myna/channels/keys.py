"""Keys of channels that the operator entered: with MYNA_SECRET_KEY encrypted in the channel's row, without in
one file each, `DATA/secrets/CHANNEL.key`, mode 0600, and the row says that there is one.

No page, command, log or metric shows a stored key, and no backup has it in plain text. It belongs to the
channel and the server for which it was entered: a channel whose URL is changed, or another one, doesn't send
it elsewhere.
"""

import asyncio
import contextlib
import logging
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from myna.errors import CommandError, ConfigError
from myna.lib.files import write_atomically
from myna.lib.setting_kinds import IN_FOLDER, listed
from myna.settings import Settings
from myna.store.queries.config import ChannelRow

if TYPE_CHECKING:
    from cryptography.fernet import MultiFernet

log = logging.getLogger(__name__)

FOLDER = "secrets"
IN_FILE = "file"
"""The `stored_key` of a channel whose key is in a file of the machine where it was entered."""
KEY_MAX_CHARS = 4096
LOAD_MAX_S = 1.0
"""How long a new configuration waits for the keys of its channels."""
_NAME_MAX_BYTES = 250


class _StoredKey(Struct, frozen=True):
    """The content of a file, or what is encrypted, with the channel's name."""

    server: str
    key: str
    channel: str = ""


class ChannelKeys:
    """The stored keys, as a process with these settings can read them. `owner` is the user and group id for
    new files, if the process is root."""

    def __init__(self, settings: Settings, owner: tuple[int, int] | None = None) -> None:
        self._folder = settings.data_folder / FOLDER
        self._owner = owner
        self._fernet = _fernet(listed(settings.secret_key))
        self._in_bucket = settings.storage != IN_FOLDER

    @property
    def encrypting(self) -> bool:
        return self._fernet is not None

    def read(self, row: ChannelRow) -> str:
        """The key of the channel at its URL; "" without one, with one for another server, or with one that
        this process can't read."""
        try:
            if row.stored_key in ("", IN_FILE):
                found = msgspec.json.decode(self._path(row.name).read_bytes(), type=_StoredKey)
            elif (found := self._decrypted(row.stored_key)).channel != row.name:
                return ""
        except FileNotFoundError:
            return ""
        except (OSError, msgspec.DecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            log.error("the stored key of channel %r can't be read: %s", row.name, reason)
            return ""
        return found.key if found.server == server_of(row.url) else ""

    def stored(self, row: ChannelRow, key: str) -> str:
        """What the channel's row has as `stored_key` for this key. Raises CommandError."""
        check(row.name, key)
        if self._fernet is None:
            if self._in_bucket:  # which is there for several machines, and a file is on one
                raise CommandError(
                    "A key can't be stored in a file of one machine where audio is in a bucket: set"
                    " MYNA_SECRET_KEY on each machine, which encrypts it in the database, or use an"
                    " environment variable (--key-env)."
                )
            return IN_FILE
        plain = msgspec.json.encode(_StoredKey(server_of(row.url), key, row.name))
        return self._fernet.encrypt(plain).decode()

    def store(self, row: ChannelRow, key: str) -> None:
        """Stores the key durably in a file if that is where the row says it is; otherwise removes the file.
        Raises CommandError."""
        if row.stored_key != IN_FILE:
            self.remove(row.name)
            return
        content = msgspec.json.encode(_StoredKey(server_of(row.url), key))
        try:
            write_atomically(self._path(row.name), content, private=True, owner=self._owner)
        except OSError as error:
            raise CommandError(
                "The key can't be stored in {folder}: {strerror}.",
                folder=self._folder,
                strerror=error.strerror,
            ) from None

    def remove(self, channel: str) -> bool:
        """Removes the file of the channel's key; False if there is none. Raises CommandError."""
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

    def _decrypted(self, token: str) -> _StoredKey:
        """Without a key if no part of MYNA_SECRET_KEY encrypted it: `missing_key` says so, once."""
        if self._fernet is not None:
            from cryptography.fernet import InvalidToken

            with contextlib.suppress(InvalidToken):
                return msgspec.json.decode(self._fernet.decrypt(token), type=_StoredKey)
        return _StoredKey("", "")

    def _path(self, channel: str) -> Path:
        return self._folder / _file_name(channel)


class LoadedKeys:
    """The stored keys in memory of a process that serves, so that no call waits for a disk. Before the first
    `load`, as in a command, `read` reads the file. `loads` counts what was read."""

    def __init__(self, keys: ChannelKeys) -> None:
        self._keys = keys
        self._loaded: dict[tuple[str, str, str], str] = {}
        self._reading: asyncio.Task[None] | None = None
        self.loads = 0

    def read(self, row: ChannelRow) -> str:
        """The key of the channel at its URL, as it was loaded; "" without one."""
        if self._reading is None:
            return self._keys.read(row)
        return self._loaded.get(_place(row), "")

    async def load(self, rows: Sequence[ChannelRow]) -> None:
        """Reads the keys of channels in a thread. While a disk is stalled the keys that were read before
        stay, and no further thread waits for it."""
        if self._reading is None or await self._is_read(self._reading):
            self._reading = asyncio.create_task(self._load(rows))
            await self._is_read(self._reading)

    async def _is_read(self, reading: asyncio.Task[None]) -> bool:
        """Waits for the thread that reads, for LOAD_MAX_S at most."""
        await asyncio.wait({reading}, timeout=LOAD_MAX_S)
        if not reading.done():
            log.error("the stored keys of channels can't be read: the disk does not answer")
        return reading.done()

    async def _load(self, rows: Sequence[ChannelRow]) -> None:
        def read() -> dict[tuple[str, str, str], str]:
            return {_place(row): self._keys.read(row) for row in rows}

        self._loaded = await asyncio.to_thread(read)
        self.loads += 1


def check(channel: str, key: str) -> None:
    """Raises CommandError for what can't be stored as the channel's key. The message doesn't have the key."""
    if not key or len(key) > KEY_MAX_CHARS or not key.isascii() or not key.isprintable() or " " in key:
        raise CommandError(
            "A key has 1 to {key_max_chars} printable ASCII characters and no space: it is sent in a header.",
            "key",
            key_max_chars=KEY_MAX_CHARS,
        )
    if len(_file_name(channel)) > _NAME_MAX_BYTES:
        raise CommandError(
            "The name of the channel {channel!r} is too long for a file: give the channel a"
            " shorter one, or set its key in an environment variable (--key-env).",
            channel=channel,
        )


def _place(row: ChannelRow) -> tuple[str, str, str]:
    return row.name, row.url, row.stored_key


def _fernet(secrets: Sequence[str]) -> "MultiFernet | None":
    """Encrypts with the first secret, and decrypts with each."""
    if not secrets:
        return None
    try:
        from cryptography.fernet import Fernet, MultiFernet
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError:
        raise ConfigError("MYNA_SECRET_KEY: needs Myna's extra 'keys', which isn't installed.") from None

    def key_of(secret: str) -> bytes:
        derived = HKDF(SHA256(), length=32, salt=None, info=b"keys of channels").derive(secret.encode())
        return urlsafe_b64encode(derived)

    return MultiFernet([Fernet(key_of(secret)) for secret in secrets])


def server_of(url: str) -> str:
    """The scheme, host and port of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


def _file_name(channel: str) -> str:
    """Names may contain slashes, and may be `..`."""
    return f"{quote(channel, safe='')}.key"
