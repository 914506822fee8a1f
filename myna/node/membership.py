"""Who this node is: the site's address and the credential, in one file of the data folder.

What a node writes is for its owner alone: the command sets the process's umask so.
"""

import ipaddress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from myna.errors import CommandError
from myna.settings import is_base_url
from myna.sound.landing import Landing

FILE: Final = "node.json"


class Membership(msgspec.Struct, frozen=True):
    """Where the node works, under which name, and what it shows for it."""

    url: str
    name: str
    credential: str


def load(folder: Path) -> Membership:
    """The membership kept in the folder. Raises CommandError."""
    path = folder / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Membership)
    except FileNotFoundError:
        raise CommandError(f"There is no {path}: run 'myna node join URL TOKEN' first.") from None
    except OSError as error:
        raise CommandError(f"{path} can't be read: {error.strerror}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise CommandError(f"{path} isn't whole: join again, with --again and a new token.") from None


def store(folder: Path, membership: Membership) -> Path:
    """Keeps it, whole or not at all. Raises OSError."""
    path = folder / FILE
    file = Landing(path)
    try:
        file.begin()
        file.write(msgspec.json.format(msgspec.json.encode(membership), indent=2) + b"\n")
        file.commit()
    finally:
        file.abort()
    return path


def site_url(given: str) -> str:
    """The site's address without a slash at its end. Raises CommandError for what can't be one."""
    url = given.rstrip("/")
    if not is_base_url(url) or "@" in url or urlsplit(url).path:
        raise CommandError(
            "URL must be the service's own address, with a port or without, and no path: https://HOST."
        )
    return url


def in_the_clear(url: str) -> bool:
    """Whether what is said to this address can be read on its way: no TLS, and not this machine."""
    return urlsplit(url).scheme == "http" and not leads_here(url)


def leads_here(url: str) -> bool:
    """Whether the address is good on this machine alone."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
