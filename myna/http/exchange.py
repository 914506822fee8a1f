"""One request of a client connection and its response: what the application receives and sends."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final, Protocol

from myna.errors import MynaError
from myna.http.asgi_types import OPENED, App, Message, Scope
from myna.http.responses import JSON, envelope
from myna.http.stream import CONTROL, Header, ResponseStream

log = logging.getLogger(__name__)

STATUS_LINE: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in HTTPStatus
}
_WITHOUT_BODY: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_FAILED: Final = b"Internal Server Error"


def refusal(error: MynaError, path: str, request_id: str) -> bytes:
    """The whole response to a request that does not reach the application."""
    response = envelope(error, path)
    headers = {
        "content-type": JSON.decode(),
        "content-length": str(len(response.body)),
        "x-request-id": request_id,
        "connection": "close",
        **(response.headers or {}),
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
    return STATUS_LINE[response.status] + lines + b"\r\n" + response.body


class Connection(Protocol):
    """What an exchange needs of its client connection."""

    @property
    def transport(self) -> asyncio.Transport: ...

    @property
    def is_paused(self) -> bool:
        """Whether over 64 KiB wait for the client."""

    async def drained(self) -> None:
        """Returns when the client has read enough, or has disconnected."""

    def resume_reading(self) -> None: ...

    def on_response_complete(self) -> None: ...

    def is_ended(self) -> bool:
        """Whether the client has closed its sending side."""

    def close_soon(self) -> None:
        """Closes the connection after what was written, or aborts it if the client does not read that."""


class Exchange:
    """A request and its response. `news` is set when a part of the body arrives, when the client leaves, and
    when the response is complete. A response without a length is sent in chunks, or to a client of HTTP/1.0
    until the end of the connection."""

    def __init__(
        self,
        connection: Connection,
        scope: Scope,
        default_headers: Sequence[Header],
        *,
        continues: bool,
        keeps_alive: bool,
    ) -> None:
        self.scope = scope
        self.keeps_alive = keeps_alive
        self.waits_to_continue = continues
        self.body = bytearray()
        self.more_body = True
        self.news = asyncio.Event()
        self.disconnected = self.started = self.complete = False
        self.stream: ResponseStream | None = None
        self._connection = connection
        self._default_headers = default_headers
        self._is_chunked = False
        self._left: int | None = None  # of the declared length

    async def run(self, app: App) -> None:
        """Runs the application. A response that it does not complete ends the connection."""
        try:
            await app(self.scope, self.receive, self.send)
            if not self.complete and not self.disconnected:
                log.error("the application sent no complete response")
                await self._fail()
        except BaseException as error:
            log.error("the application failed", exc_info=error)
            await self._fail()
        finally:
            self.scope = {}  # it refers to this exchange, a reference cycle

    async def _fail(self) -> None:
        if self.started:
            self._connection.transport.close()
            return
        self.keeps_alive = False
        headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(_FAILED))]
        await self.send({"type": "http.response.start", "status": 500, "headers": headers})
        await self.send({"type": "http.response.body", "body": _FAILED})

    async def receive(self) -> Message:
        """The next part of the body, or the disconnect."""
        if self.waits_to_continue and not self._connection.transport.is_closing():
            self._connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waits_to_continue = False
        if not self.disconnected and not self.complete:
            self._connection.resume_reading()
            if not self.news.is_set():
                await self.news.wait()
            self.news.clear()
        if self.disconnected or self.complete:
            return {"type": "http.disconnect"}
        part, self.body = bytes(self.body), bytearray()
        return {"type": "http.request", "body": part, "more_body": self.more_body}

    async def send(self, message: Message) -> None:
        """Sends the head, or a part of the body."""
        if self._connection.is_paused and not self.disconnected:
            await self._connection.drained()
        if self.disconnected:
            return
        if self.complete or self.started != (message["type"] == "http.response.body"):
            raise RuntimeError(f"the application sent {message['type']} at the wrong time")
        if not self.started:
            self._send_head(message["status"], list(message.get("headers", ())))
            return
        self._send_part(message.get("body", b""))
        if not message.get("more_body", False):
            if self._is_chunked:
                self._connection.transport.write(b"0\r\n\r\n")
            if self._left:
                raise RuntimeError("the response is shorter than its Content-Length")
            self.finish()

    def lines_of(self, headers: list[Header]) -> list[bytes]:
        """The lines of the headers, and those that each response has."""
        if CONTROL.search(b"".join(map(b"".join, headers))):
            raise RuntimeError("a response header contains a control character")
        lines = [b"%b: %b\r\n" % header for header in (*self._default_headers, *headers)]
        return lines if self.keeps_alive else [*lines, b"connection: close\r\n"]

    def respond(self, status: int, headers: list[Header], body: bytes) -> bool:
        """Sends a complete response, with its Content-Length in `headers`, in one write. Returns False if it
        must be sent through `send`, which waits until the client reads, and omits the body for HEAD."""
        if self._connection.is_paused or self.scope["method"] == "HEAD":
            return False
        if not self.disconnected:
            lines = self.lines_of(headers)
            self.started = True
            self.waits_to_continue = False
            self._connection.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", body]))
            self.finish()
        return True

    def finish(self) -> None:
        """The response is complete."""
        self.complete = True
        self.stream = None
        self.news.set()
        if not self.keeps_alive:
            self._connection.transport.close()
        self._connection.on_response_complete()

    def lose(self) -> None:
        """The client is gone, or gets nothing more."""
        self.disconnected = True
        self.news.set()
        if self.stream is not None:
            self.stream.lose()

    # The response that is sent while it is made: see `stream.py`.

    def open_stream(self, headers: list[Header]) -> ResponseStream:
        if self.scope["http_version"] != "1.1":
            self.keeps_alive = False  # the end of the connection is the end of the body
        every = [*self._default_headers, *headers]
        self.stream = ResponseStream(self, every, chunked=self.scope["http_version"] == "1.1")
        self.scope[OPENED] = self.stream
        if self.disconnected or self._connection.is_ended():
            self.stream.lose()
        return self.stream

    @property
    def is_paused(self) -> bool:
        return self._connection.is_paused

    def start_stream(self, head: bytes) -> Callable[[bytes], None]:
        self.started = True
        self._connection.transport.write(head)
        return self._connection.transport.write

    def finish_stream(self) -> None:
        self.finish()

    def give_up_stream(self) -> None:
        self.stream = None
        self.disconnected = True
        self._connection.close_soon()

    async def drained(self) -> None:
        await self._connection.drained()

    def _send_head(self, status: int, headers: list[Header]) -> None:
        self.started = True
        self.waits_to_continue = False
        named = {name.lower(): value for name, value in headers}
        if named.pop(b"connection", b"").lower() == b"close":
            self.keeps_alive = False
        if b"content-length" in named:
            self._left = int(named[b"content-length"])
        elif self.scope["method"] != "HEAD" and status not in _WITHOUT_BODY:
            self._is_chunked = self.scope["http_version"] == "1.1"
            self.keeps_alive = self.keeps_alive and self._is_chunked
            if self._is_chunked:
                headers.append((b"transfer-encoding", b"chunked"))
        shown = [header for header in headers if header[0].lower() != b"connection"]
        self._connection.transport.write(b"".join([STATUS_LINE[status], *self.lines_of(shown), b"\r\n"]))

    def _send_part(self, part: bytes) -> None:
        if self.scope["method"] == "HEAD":
            self._left = None
        elif self._is_chunked:
            if part:
                self._connection.transport.write(b"%x\r\n%b\r\n" % (len(part), part))
        else:
            if self._left is not None:
                self._left -= len(part)
                if self._left < 0:
                    raise RuntimeError("the response is longer than its Content-Length")
            self._connection.transport.write(part)
