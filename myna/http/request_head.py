"""A request head: what of it the parser does not check."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from operator import itemgetter
from typing import Any

import httptools

from myna.lib.ids import new_id

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

Header = tuple[bytes, bytes]
Headers = list[Header]
End = tuple[str, int] | None
Ends = tuple[End, End]
"""Host and port of the server and of the client, if they have them."""


def header_error(headers: Headers, version: str) -> str:
    """Why RFC 9112 (3.2, 6.1) requires a refusal of a head that the parser accepts; "" for a valid head."""
    names = list(map(itemgetter(0), headers))
    if version not in ("1.0", "1.1"):
        return "send HTTP/1.1"
    hosts = names.count(b"host")
    if hosts != 1 and (hosts or version == "1.1"):
        return "duplicate header Host" if hosts else "the header Host is missing"
    if b"transfer-encoding" not in names:
        return ""
    if version == "1.0" or b"content-length" in names or names.count(b"transfer-encoding") > 1:
        return "send either Content-Length or, in HTTP/1.1, one Transfer-Encoding"
    coding = headers[names.index(b"transfer-encoding")][1]
    return "" if coding.strip().lower() == b"chunked" else "the only supported Transfer-Encoding is chunked"


def size_of(url: bytes, headers: Headers) -> int:
    """The bytes of a head, without separators."""
    return len(url) + sum(len(name) + len(value) for name, value in headers)


def ends_of(transport: asyncio.Transport) -> Ends:
    """The two ends of a connection."""
    server, client = (transport.get_extra_info(name) for name in ("sockname", "peername"))
    return _address(server), _address(client)


def _address(found: object) -> End:
    return (str(found[0]), int(found[1])) if isinstance(found, tuple | list) else None


def head_without_upgrade(parser: httptools.HttpRequestParser, url: bytes, headers: Headers) -> bytes:
    """The head of a request whose Upgrade header is ignored (RFC 9110, 7.8)."""
    lines = [b"%b %b HTTP/%b" % (parser.get_method(), url, parser.get_http_version().encode())]
    lines += [name + b": " + value for name, value in headers if name != b"upgrade"]
    return b"\r\n".join([*lines, b"", b""])


_VALID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_SECRET = re.compile(rb"myna(?:node|join)?_|\bsk-|[0-9a-f]{40}", re.IGNORECASE)
"""Possibly an API key of Myna or a vendor, a node's credential or a join token. None may reach the log."""


_TRACE = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")


def traceparent_of(headers: Mapping[bytes, bytes]) -> str:
    """The client's traceparent, which goes to the channel as it is; empty without a valid one."""
    value = headers.get(b"traceparent")
    return value.decode() if value and _TRACE.fullmatch(value) else ""


def request_id_of(headers: Mapping[bytes, bytes]) -> str:
    """The client's X-Request-Id if it is valid and can't be a secret, else a new one.

    A new id contains its time, so that the calls of a request are found among those of some minutes: an index
    of request ids would cost every call a write.
    """
    value = headers.get(b"x-request-id")
    if value and _VALID.fullmatch(value) and not _SECRET.search(value):
        return value.decode()
    return new_id().hex()
