"""One request of a client connection and its response: whole, by ASGI's messages, or sent while it is made.

A handler starts a `ResponseStream` once nothing can be refused any more, writes its parts, ends it, and
returns it in place of a `Response`. An exception after the start closes the connection without the
terminating chunk, by which a client knows that the response is incomplete (RFC 9112, 8).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Self
from urllib.parse import unquote

import httptools

from myna.errors import MynaError
from myna.http.request_head import End, Header, Headers, Message, Scope, request_id_of
from myna.http.responses import JSON, Response, envelope
from myna.lib.telemetry.requests import RequestDetails

if TYPE_CHECKING:
    from myna.http.connection import Protocol

log = logging.getLogger(__name__)

EXCHANGE: Final = "myna.exchange"
"""The `Exchange` of a request, in its scope."""
_STATUS_LINE: Final = {
    status.value: f"HTTP/1.1 {status.value} {status.phrase}".encode() for status in HTTPStatus
}
_WITHOUT_BODY: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)
_FAILED: Final = Response(b"Internal Server Error", 500, media_type=b"text/plain")
_CONTROL: Final = bytes({*range(32), 127} - {ord("\t")})
"""What no response header may contain."""
LINGER_S = 2.0
LINGER_MAX_BYTES = 16 * 2**20


def refusal(error: MynaError, path: str, request_id: str) -> bytes:
    """The whole response to a request that does not reach the application."""
    response = envelope(error, path)
    headers = {
        "content-type": JSON.decode(),
        "content-length": str(len(response.body)),
        "x-request-id": request_id,
        "connection": "close",
        **response.headers,
    }
    lines = (f"{name}: {value}".encode() for name, value in headers.items())
    return b"\r\n".join([_STATUS_LINE[response.status], *lines, b"", response.body])


def _lines(media_type: bytes, headers: Mapping[str, str]) -> list[bytes]:
    """The lines of a head for these headers."""
    lines = [f"{name.lower()}: {value}".encode() for name, value in headers.items()]
    return [b"content-type: " + media_type, *lines]


class Exchange:
    """A request and its response. Names in `fields`, the headers as they were sent, are in lower case;
    `headers` has the last one of each name. `address` is that of the `client`, "" if the server has none.
    `news` is set when a part of the body arrives, when the client leaves, and when the response is complete.
    A response without a length is sent in chunks, or to a client of HTTP/1.0 until the end of the connection.
    `status` is the response's, 0 before it. `added` are headers of the response in addition to those of the
    handler. `streamed` is the response that is sent while it is made."""

    __slots__ = (
        "_counted_bytes", "_counted_for", "_is_chunked", "_left", "_url", "added", "address", "client",
        "complete", "connection", "details", "fields", "headers", "keeps_alive", "lost", "method",
        "more_body", "news", "path", "received", "request_id", "started", "status", "streamed", "version",
        "waits_to_continue",
    )  # fmt: skip

    def __init__(
        self,
        connection: "Protocol",
        method: str,
        url: bytes,
        fields: Headers,
        client: End = None,
        default_headers: Sequence[Header] = (),
        *,
        version: str = "1.1",
        keeps_alive: bool = True,
    ) -> None:
        self.connection = connection
        self.method = method
        self._url = httptools.parse_url(url)
        path = self._url.path.decode("ascii")
        self.path = unquote(path) if "%" in path else path
        self.version = version
        self.fields = fields
        self.headers: dict[bytes, bytes] = dict(fields)
        self.request_id = request_id_of(self.headers)
        self.client = client
        self.address = client[0] if client else ""
        self.details = RequestDetails()
        self.added = [*default_headers, (b"x-request-id", self.request_id.encode())]
        self.keeps_alive = keeps_alive
        self.waits_to_continue = False
        self.received = bytearray()
        self.more_body = True
        self.news = asyncio.Event()
        self.lost = self.started = self.complete = False
        self.status = 0
        self.streamed: ResponseStream | None = None
        self._is_chunked = False
        self._left: int | None = None  # of the declared length
        self._counted_bytes = self._counted_for = 0

    def scope(self) -> Scope:
        """The request, for an ASGI application."""
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": self.version,
            "server": self.connection.ends[0],
            "client": self.client,
            "scheme": "http",
            "root_path": "",
            "method": self.method,
            "path": self.path,
            "raw_path": self._url.path,
            "query_string": self._url.query or b"",
            "headers": self.fields,
            "state": dict(self.connection.app_state),
            EXCHANGE: self,
        }

    async def run(self, serve: Callable[[Self], Awaitable[None]]) -> None:
        """Has the request served. A response that is not completed ends the connection."""
        try:
            await serve(self)
            if not self.complete and not self.lost:
                log.error("the application sent no complete response")
                await self._fail()
        except BaseException as error:
            log.error("the application failed", exc_info=error)
            await self._fail()
        finally:
            self.streamed = None  # it refers to this exchange, a reference cycle
            self.connection.server_state.tasks.discard(asyncio.current_task())

    async def _fail(self) -> None:
        if self.started:
            self.connection.transport.close()
            return
        self.keeps_alive = False
        await self.respond(_FAILED)

    # The request:

    async def next_message(self) -> Message:
        """The next part of the body, or the disconnect, for an ASGI application."""
        if (found := await self.read()) is None:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": found[0], "more_body": found[1]}

    async def read(self) -> tuple[bytes, bool] | None:
        """The next part of the body, and whether more follow; None if the client has disconnected, or the
        response is complete."""
        if self.waits_to_continue and not self.connection.transport.is_closing():
            self.connection.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.waits_to_continue = False
        if not self.lost and not self.complete:
            self.connection.resume_reading()
            if not self.news.is_set():
                await self.news.wait()
        return self.take()

    def take(self) -> tuple[bytes, bool] | None:
        """What has arrived of the body, as `read` returns it."""
        self.news.clear()
        if self.lost or self.complete:
            return None
        self.connection.resume_reading()
        part, self.received = bytes(self.received), bytearray()
        return part, self.more_body

    async def disconnected(self) -> None:
        """Returns when the client has closed the connection or its sending side. The two can't be told apart
        before something is written. Call it after the body has been read."""
        while not self.connection.half_closed and await self.read() is not None:
            pass

    @property
    def stopping(self) -> bool:
        """Whether the process is shutting down: it finishes the calls in flight and starts no new ones."""
        return self.connection.config.stopping

    @property
    def draining(self) -> bool:
        """Whether the process drains: it is to get no new calls, and ends."""
        return self.connection.config.draining

    def lose(self) -> None:
        """The client has disconnected, or gets nothing more."""
        self.lost = True
        self.news.set()
        if self.streamed is not None:
            self.streamed.lose()

    # The response:

    async def respond(self, response: Response) -> None:
        """Sends a whole response in one write, to HEAD without its body."""
        self.status = response.status
        if self.connection.is_paused and not self.lost:
            await self.connection.drained()
        if self.lost:
            return
        self.keeps_alive = self.keeps_alive and not response.close
        headers = _lines(response.media_type, response.headers)
        headers.append(b"content-length: %d" % len(response.body))
        self.write_head(response.status, headers, b"" if self.method == "HEAD" else response.body)
        if response.close:
            await self._linger()
        if not self.lost:
            self.finish()

    async def _linger(self) -> None:
        """Discards the rest of the body for a short time: a client that still sends would otherwise get a
        reset instead of the response."""
        discarded_bytes = 0
        try:
            async with asyncio.timeout(LINGER_S):
                while discarded_bytes < LINGER_MAX_BYTES and (found := await self.read()) and found[1]:
                    discarded_bytes += len(found[0])
        except TimeoutError:
            return

    async def abort(self) -> None:
        """Closes the connection without a response. Returns when the server has noticed, since it would send
        a 500 if the application returned before."""
        self.connection.transport.abort()
        while await self.read() is not None:
            pass

    async def send(self, message: Message) -> None:
        """Sends the head, or a part of the body, of an ASGI application."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
        if self.connection.is_paused and not self.lost:
            await self.connection.drained()
        if self.lost:
            return
        if self.complete or self.started != (message["type"] == "http.response.body"):
            raise RuntimeError(f"the application sent {message['type']} at the wrong time")
        if not self.started:
            self._send_head(message["status"], list(message.get("headers", ())))
            return
        self._send_part(message.get("body", b""))
        if not message.get("more_body", False):
            if self._is_chunked:
                self.connection.transport.write(b"0\r\n\r\n")
            if self._left:
                raise RuntimeError("the response is shorter than its Content-Length")
            self.finish()

    def _send_head(self, status: int, headers: list[Header]) -> None:
        named = {name.lower(): value for name, value in headers}
        if named.pop(b"connection", b"").lower() == b"close":
            self.keeps_alive = False
        if b"content-length" in named:
            self._left, self._is_chunked = int(named[b"content-length"]), False
        elif self.method != "HEAD" and status not in _WITHOUT_BODY:
            self._is_chunked = self.version == "1.1"
            self.keeps_alive = self.keeps_alive and self._is_chunked
            if self._is_chunked:
                headers.append((b"transfer-encoding", b"chunked"))
        self.write_head(status, [b": ".join(one) for one in headers if one[0].lower() != b"connection"])

    def _send_part(self, part: bytes) -> None:
        if self.method == "HEAD":
            self._left = None
        elif self._is_chunked:
            if part:
                self.connection.transport.write(b"%x\r\n%b\r\n" % (len(part), part))
        else:
            if self._left is not None:
                self._left -= len(part)
                if self._left < 0:
                    raise RuntimeError("the response is longer than its Content-Length")
            self.connection.transport.write(part)

    def write_head(self, status: int, headers: list[bytes], body: bytes = b"") -> None:
        """Writes the head, with the `added` headers and these lines of a handler's, and `body`."""
        lines = [b": ".join(header) for header in self.added] + headers
        if len(text := b"".join(headers)) != len(text.translate(None, _CONTROL)):
            raise RuntimeError("a response header contains a control character")
        if not self.keeps_alive:
            lines.append(b"connection: close")
        self.started = True
        self.waits_to_continue = False
        self.connection.transport.write(b"\r\n".join([_STATUS_LINE[status], *lines, b"", body]))

    def finish(self) -> None:
        """The response is complete."""
        self.complete = True
        self.news.set()
        if not self.keeps_alive:
            self.connection.transport.close()
        self.connection.on_response_complete()

    def stream(self) -> "ResponseStream":
        """The response as a stream, of which nothing is sent yet. Call it once, after the body was read."""
        chunked = self.version == "1.1"
        if not chunked:
            self.keeps_alive = False  # the end of the connection is the end of the body
        self.streamed = ResponseStream(self, chunked=chunked)
        if self.lost or self.connection.half_closed:
            self.streamed.lose()
        return self.streamed

    @property
    def has_streamed(self) -> bool:
        """Whether the response was started as a stream."""
        return self.streamed is not None and self.streamed.started

    def abort_stream(self) -> bool:
        """Whether the response was started as a stream, which ends here unless it is complete."""
        if self.streamed is None or not self.streamed.started:
            return False
        self.streamed.abort()
        return True

    def give_up_stream(self) -> None:
        """Closes the connection after what was written."""
        self.lost = True
        self.connection.close_soon()


class ResponseStream:
    """The response of one request, with status 200. All methods but `drained` return at once.

    The connection buffers what the client has not read: `on_pause` is called when that is over 64 KiB, and
    `on_resume` when the client has read most of it. A client that reads nothing for 60 s is disconnected.
    `on_disconnect` is called once, when the client closes the connection or its sending side: the two can't
    be told apart before something is written. `sent` is true once a part of the body was written.
    """

    def __init__(self, exchange: Exchange, *, chunked: bool) -> None:
        self._exchange = exchange
        self._chunked = chunked
        self._write = exchange.connection.transport.write
        self.started = self.sent = self.complete = self.disconnected = False
        self.on_pause: Callable[[], None] | None = None
        self.on_resume: Callable[[], None] | None = None
        self.on_disconnect: Callable[[], None] | None = None

    @property
    def is_paused(self) -> bool:
        """Whether the client has not read what was written, perhaps of an earlier response."""
        return self._exchange.connection.is_paused

    def start(self, headers: Mapping[str, str], media_type: bytes) -> None:
        """Sends the head. Must be called once, before `write`."""
        lines = _lines(media_type, headers)
        if self._chunked:
            lines.append(b"transfer-encoding: chunked")
        if not self.disconnected:
            self._exchange.write_head(200, lines)
        self.started = True
        self._exchange.status = 200

    def write(self, part: bytes) -> None:
        """Sends a part of the body. Does nothing after a disconnect."""
        if part and not self.disconnected:
            self.sent = True
            self._write(b"%x\r\n%b\r\n" % (len(part), part) if self._chunked else part)

    async def drained(self) -> None:
        """Returns when at most 64 KiB wait for the client, or when it has disconnected."""
        if not self.disconnected:
            await self._exchange.connection.drained()

    def end(self) -> None:
        """Sends the terminating chunk."""
        if self.disconnected:
            self.abort()
            return
        self.complete = True
        if self._chunked:
            self._write(b"0\r\n\r\n")
        self._exchange.finish()

    def abort(self) -> None:
        """Closes the connection after what was written, without the terminating chunk."""
        if not self.complete:
            self.complete = True
            self._exchange.give_up_stream()

    def lose(self) -> None:
        """Called by the connection when the client has disconnected."""
        if not self.disconnected and not self.complete:
            self.disconnected = True
            if self.on_disconnect is not None:
                self.on_disconnect()
