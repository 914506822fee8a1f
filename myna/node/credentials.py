"""The address of the service and the node's credential, in one file of the data folder.

Only the owner can read the file: the command sets the process's umask.
"""

from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from myna.errors import CommandError
from myna.lib.files import AtomicFile
from myna.lib.net import is_base_url, is_loopback

FILE: Final = "node.json"


class Credentials(msgspec.Struct, frozen=True):
    """The service's address, the node's name there, and its credential."""

    url: str
    name: str
    credential: str


def load(folder: Path) -> Credentials:
    """Reads the credentials in the folder. Raises CommandError."""
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Credentials)
    except FileNotFoundError:
        raise CommandError(f"There is no {path}: run 'myna node join URL TOKEN' first.") from None
    except OSError as error:
        raise CommandError(f"{path} can't be read: {error.strerror}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise CommandError(f"{path} isn't whole: join again, with --again and a new token.") from None


def store(folder: Path, credentials: Credentials) -> None:
    """Writes the file atomically. Raises OSError."""
    path = folder / FILE
    file = AtomicFile(path)
    try:
        file.begin()
        file.write(msgspec.json.format(msgspec.json.encode(credentials), indent=2) + b"\n")
        file.commit()
    finally:
        file.abort()


def site_url(given: str) -> str:
    """The service's address without a trailing slash. Raises CommandError if it is not valid."""
    url = given.rstrip("/")
    if not is_base_url(url) or "@" in url or urlsplit(url).path:
        raise CommandError(
            "URL must be the service's own address, with a port or without, and no path: https://HOST."
        )
    return url


def is_unencrypted(url: str) -> bool:
    """Whether requests to this address cross a network without TLS."""
    return urlsplit(url).scheme == "http" and not is_loopback(url)
