"""The origin and the head of a request. Pure, so results can be cached."""

import base64
import re
from collections.abc import Mapping
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit

from myna.http.client.errors import Unreachable

_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_RESERVED: Final = frozenset({"connection", "content-length", "transfer-encoding"})
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_VISIBLE: Final = re.compile(r"[\x21-\x7e]+")


class Origin(NamedTuple):
    """A scheme, host and port. Calls to one origin may share connections."""

    secure: bool
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Target(NamedTuple):
    """The origin of a request, and its head without Content-Length."""

    origin: Origin
    head: bytes


def target_of(method: str, url: str, headers: tuple[tuple[str, str], ...]) -> Target:
    """Raises ValueError for an unknown method, Unreachable for an invalid address or header."""
    if method not in _METHODS:
        raise ValueError(f"{method!r} isn't one of {', '.join(sorted(_METHODS))}")
    origin, host, resource, login = _parts(url)
    fields = {"Host": host, "User-Agent": "myna", "Accept": "*/*", "Accept-Encoding": "identity", **login}
    lines = {name.lower(): (name, value) for name, value in (*fields.items(), *headers)}
    for name, (_, value) in lines.items():
        if name in _RESERVED or not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise Unreachable(f"The header {name!r} can't be sent.")
    text = "".join(f"{name}: {value}\r\n" for name, value in lines.values())
    return Target(origin, f"{method} {resource} HTTP/1.1\r\n{text}".encode("latin-1"))


def _parts(url: str) -> tuple[Origin, str, str, Mapping[str, str]]:
    """The origin, the Host header, the request target, and the Authorization header of a `user:password@`."""
    try:
        split = urlsplit(url)
        secure = {"http": False, "https": True}[split.scheme]
        default_port = 443 if secure else 80
        origin = Origin(secure, split.hostname or "", split.port or default_port)
    except (KeyError, ValueError):
        raise Unreachable("The address isn't an http or https URL.") from None
    if not origin.host or not _VISIBLE.fullmatch(url):
        raise Unreachable("The address isn't an http or https URL in visible ASCII.")
    resource = (split.path or "/") + (f"?{split.query}" if split.query else "")
    host = str(origin) if origin.port != default_port else str(origin).rpartition(":")[0]
    if split.username is None:
        return origin, host, resource, {}
    login = f"{unquote(split.username)}:{unquote(split.password or '')}".encode()
    return origin, host, resource, {"Authorization": f"Basic {base64.b64encode(login).decode()}"}
