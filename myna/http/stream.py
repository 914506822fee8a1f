"""A response that is sent while it is made, in HTTP/1.1's chunked coding.

A handler starts it once nothing can be refused any more, writes its parts, ends it, and returns it in place
of a `Response`. An exception after the start closes the connection without the terminating chunk, by which a
client knows that the response is incomplete (RFC 9112, 8).
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from myna.http.asgi_types import OPENED, Scope

Header = tuple[bytes, bytes]
_STATUS_LINE = b"HTTP/1.1 200 OK\r\n"
CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
"""What no response header may contain."""


class StreamConnection(Protocol):
    """What a stream needs of its client connection."""

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection serves another request after this response."""

    @property
    def is_paused(self) -> bool:
        """Whether over 64 KiB wait for the client."""

    def start_stream(self, head: bytes) -> Callable[[bytes], None]:
        """Writes the head, and returns what writes the bytes of the body, with their framing."""

    def finish_stream(self) -> None:
        """The response is complete."""

    def give_up_stream(self) -> None:
        """Closes the connection after what was written."""

    async def drained(self) -> None:
        """Returns when the client has read enough, or has disconnected."""


class ResponseStream:
    """The response of one request, with status 200. All methods but `drained` return at once.

    The connection buffers what the client has not read: `on_pause` is called when that is over 64 KiB, and
    `on_resume` when the client has read most of it. A client that reads nothing for 60 s is disconnected.
    `on_disconnect` is called once, when the client closes the connection or its sending side: the two can't
    be told apart before something is written. `sent` is true once a part of the body was written.
    """

    def __init__(self, connection: StreamConnection, headers: Sequence[Header], *, chunked: bool) -> None:
        self._connection = connection
        self._headers = headers
        self._chunked = chunked
        self._write: Callable[[bytes], None] = _discard
        self.started = self.sent = self.complete = self.disconnected = False
        self.on_pause: Callable[[], None] | None = None
        self.on_resume: Callable[[], None] | None = None
        self.on_disconnect: Callable[[], None] | None = None

    @property
    def is_paused(self) -> bool:
        """Whether the client has not read what was written, perhaps of an earlier response."""
        return self._connection.is_paused

    def start(self, headers: Mapping[str, str], media_type: bytes) -> None:
        """Sends the head. Must be called once, before `write`."""
        lines = [(b"content-type", media_type), *self._headers]
        lines += [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        if self._chunked:
            lines.append((b"transfer-encoding", b"chunked"))
        if not self._connection.keeps_alive:
            lines.append((b"connection", b"close"))
        if CONTROL.search(b"".join(map(b"".join, lines))):
            raise RuntimeError("a response header contains a control character")
        self.started = True
        if not self.disconnected:
            head = b"".join([b"%b: %b\r\n" % line for line in lines])
            self._write = self._connection.start_stream(_STATUS_LINE + head + b"\r\n")

    def write(self, part: bytes) -> None:
        """Sends a part of the body. Does nothing after a disconnect."""
        if part and not self.disconnected:
            self.sent = True
            self._write(b"%x\r\n%b\r\n" % (len(part), part) if self._chunked else part)

    async def drained(self) -> None:
        """Returns when at most 64 KiB wait for the client, or when it has disconnected."""
        if not self.disconnected:
            await self._connection.drained()

    def end(self) -> None:
        """Sends the terminating chunk."""
        if self.disconnected:
            self.abort()
            return
        self.complete = True
        if self._chunked:
            self._write(b"0\r\n\r\n")
        self._connection.finish_stream()

    def abort(self) -> None:
        """Closes the connection after what was written, without the terminating chunk."""
        if not self.complete:
            self.complete = True
            self._connection.give_up_stream()

    def lose(self) -> None:
        """Called by the connection when the client has disconnected."""
        if not self.disconnected and not self.complete:
            self.disconnected = True
            if self.on_disconnect is not None:
                self.on_disconnect()


def has_streamed(scope: Scope) -> bool:
    """Whether the response of the request was started as a stream."""
    return OPENED in scope and scope[OPENED].started


def _discard(data: bytes) -> None:
    """Before the head, and after a disconnect."""
