"""Keys of channels that the operator entered: one file each, `DATA/secrets/CHANNEL.key`, mode 0600.

No page, command, log or metric shows a stored key, and no backup has it. It belongs to the server for which
it was entered: a channel whose URL is changed, or another one of the same name, doesn't send it elsewhere.
"""

import logging
import os
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec
from msgspec import Struct

from myna.errors import CommandError
from myna.files.atomic_file import AtomicFile

log = logging.getLogger(__name__)

FOLDER = "secrets"
KEY_MAX_CHARS = 4096
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
