"""A client connection: HTTP/1.1, parsed by httptools, with limits for untrusted clients. Refusals have the
error envelope. uvicorn makes one for each connection, and its server state lists them.
"""

import asyncio
import time
from collections import deque
from functools import partial
from typing import Any, cast

import httptools
from uvicorn.server import ServerState

from myna.errors import InvalidRequest, MynaError, Overloaded
from myna.http import request_head
from myna.http.asgi import HEALTH_PATHS, UNANSWERED, Application
from myna.http.exchange import refusal
from myna.http.request import Request
from myna.http.request_head import Header
from myna.http.server_config import ServerConfig, Waiting
from myna.lib.aio import Timer, WriteBuffer
from myna.lib.ids import new_name

HEADERS_MAX_BYTES = 64 * 1024
HEADERS_TIMEOUT_S = 20.0
PIPELINED_MAX = 32
"""Pipelined requests that may wait on one connection."""
BODY_BUFFERED_MAX_BYTES = 64 * 1024
"""Of a body that the application does not read."""
DISCARD: Any = deque(maxlen=0)
"""A list that discards every appended item."""
WRITE_STALL_MAX_S = 60.0
"""How long a client may leave a response unread."""
REFUSAL_WAIT_S = 1.0
"""How long a connection over the limit may take to send a request before it is refused."""
INVALID = InvalidRequest(
    "The request is not valid HTTP, its method is unknown, or its headers are too large."
)


class Protocol(asyncio.Protocol):
    """HTTP/1.1 with limits on the size and time of a request head, on pipelined requests, and on the time
    that a response stays unread."""

    transport: WriteBuffer
    url = b""  # of the last request head
    is_paused = False  # over 64 KiB wait for the client
    _read_bytes = 0
    _read_starts_head = False  # this read begins with a request head
    _head_bytes = 0  # upper bound: all reads that contain part of this head
    _overhead_bytes = 0  # bytes since the last head, body or end of message
    _upgrade_requested = False
    _between_requests = True
    _reading_paused = False
    _over_limit: Overloaded | None = None  # why it may only check the health
    _waiting: Waiting  # from its address, of which it is one while it waits for its client
    _waits = False
    half_closed = False  # the client has closed its sending side
    _last: Request | None = None  # of the last request head
    _active: Request | None = None  # that is served
    _refusal: MynaError = INVALID
    _in_keep_alive = False

    def __init__(
        self,
        config: ServerConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.config = config
        self.app = cast(Application, config.loaded_app)
        self.loop = _loop or asyncio.get_running_loop()
        self.server_state = server_state
        self._connections = cast("set[asyncio.Protocol]", server_state.connections)
        self.app_state = app_state
        self._head_timer, self._write_timer = Timer(), Timer()
        self._parser = self._new_parser()
        self._pipeline: deque[Request] = deque()
        self._headers: list[Header] = []
        self._expects_continue = False
        self.ends: request_head.Ends = None, None
        self._resumed = asyncio.Event()  # set while `is_paused` is false

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = WriteBuffer(transport, self.config.flush_queue)
        self.ends = _, client = request_head.ends_of(transport)
        self._waiting = self.config.waiting.of(client[0] if client else "")
        self._connections.add(self)
        if len(self._connections) - self.config.over_limit_count > self.config.connections_max:
            self._limit_to_health(Overloaded())
        elif refusal := self._wait_for_client():
            self._limit_to_health(refusal)
        else:
            self._head_timer.start(HEADERS_TIMEOUT_S, self.transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        self._head_timer.stop()
        self._write_timer.stop()
        self._stop_waiting()
        self.config.over_limit_count -= self._over_limit is not None
        self._stop_keep_alive()
        self.is_paused = False
        self._resumed.set()
        for request in (self._active, self._last, *self._pipeline):
            if request is not None and not request.complete:
                request.lose()

    def eof_received(self) -> bool:
        """The client has closed its sending side. Complete requests are answered before the connection is
        closed (RFC 9112, 9.6), since the client may still read. Returns True to keep the connection open."""
        self.half_closed = True
        if self._last is None or self._idle or self._last.more_body:
            self.transport.close()  # after the writes of this iteration
            return False
        self._last.keeps_alive = False
        if self._active is not None:
            self._active.news.set()
            if self._active.streamed is not None:
                self._active.streamed.lose()
        return True

    def data_received(self, data: bytes) -> None:
        self._stop_keep_alive()
        self._read_bytes = len(data)
        self._read_starts_head = self._between_requests
        self._overhead_bytes += self._read_bytes
        self._head_bytes += self._read_bytes
        self._feed(data)
        if self._overhead_bytes > HEADERS_MAX_BYTES and not self.transport.is_closing():
            self._refuse_input()
            return
        # With no response in progress, this is the next head, blank lines before it, or the rest of an unread
        # body. Each stopped the keep-alive timeout, so the head timer must run.
        if self._idle and not self._head_timer.runs and not self._in_keep_alive:
            self._head_timer.start(HEADERS_TIMEOUT_S, self.transport.abort)

    # What the parser calls:

    def on_message_begin(self) -> None:
        if len(self._pipeline) >= PIPELINED_MAX or (self._over_limit and self._last is not None):
            raise ValueError("too many requests at once")  # the parser turns it into a 400
        self.url = b""
        self._headers = []
        self._expects_continue = False
        self._between_requests = False
        self._head_bytes = self._read_bytes
        self._upgrade_requested = False
        self._overhead_bytes = self._read_bytes if self._read_starts_head else 0
        self._read_starts_head = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self._expects_continue = True
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._overhead_bytes = 0
        may_be_large = self._head_bytes > HEADERS_MAX_BYTES
        if may_be_large and request_head.size_of(self.url, self._headers) > HEADERS_MAX_BYTES:
            raise ValueError("headers too large")  # the parser turns it into a 400
        if self._parser.should_upgrade():
            if self._parser.get_method() == b"CONNECT":
                raise ValueError("this is no proxy")  # the parser turns it into a 400
            self._upgrade_requested = True
            return
        if self._over_limit and self.url.partition(b"?")[0] not in HEALTH_PATHS:
            self._refusal = self._over_limit
            raise ValueError("too many connections")
        version = self._parser.get_http_version()
        if reason := request_head.header_error(self._headers, version):
            self._refusal = InvalidRequest(f"The request is not valid HTTP: {reason}.")
            raise ValueError(reason)
        self._head_timer.stop()
        before = self._last
        self._last = request = Request(
            self,
            self._parser.get_method().decode("ascii"),
            self.url,
            self._headers,
            self.ends[1],
            self.server_state.default_headers,
            version=version,
            keeps_alive=version != "1.0" and self._parser.should_keep_alive() and not self._over_limit,
        )
        request.waits_to_continue = self._expects_continue
        self._headers = DISCARD  # trailers are ignored
        if before is None or before.complete:
            self._start(request)
        else:
            self._pause_reading()
            self._pipeline.append(request)

    def on_body(self, body: bytes) -> None:
        self._overhead_bytes = 0
        request = self._last
        if request is not None and not request.complete:
            request.received += body
            if len(request.received) > BODY_BUFFERED_MAX_BYTES:
                self._pause_reading()
            request.news.set()

    def on_message_complete(self) -> None:
        self._between_requests = True
        self._stop_waiting()
        self._overhead_bytes = 0
        if self._last is not None and not self._upgrade_requested:
            self._last.more_body = False
            self._last.news.set()

    # What a request calls:

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._start_write_timer()
            return
        self.resume_reading()
        if self._pipeline:
            self._start(self._pipeline.popleft())
            return
        self._active = None
        if self._wait_for_client():
            self.transport.close()
            return
        self._in_keep_alive = True
        until = time.monotonic() + self.config.timeout_keep_alive
        self.config.keep_alive_timeouts.add(self, until, self.transport.close)

    def resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self.transport.resume_reading()

    async def drained(self) -> None:
        while self.is_paused:
            await self._resumed.wait()

    def close_soon(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()
            self._start_write_timer()

    def _start(self, request: Request) -> None:
        self._active = request
        self.server_state.tasks.add(self.loop.create_task(request.run(self.app.serve)))

    def _pause_reading(self) -> None:
        if not self._reading_paused:
            self._reading_paused = True
            self.transport.pause_reading()

    def _wait_for_client(self) -> Overloaded | None:
        """The connection waits for its client. Returns why it can't: the address has too many of them."""
        if not self._waits:
            if self._waiting.count >= self._waiting.most:
                return self.config.waiting.refusal()
            self._waiting.count += 1
            self._waits = True
        return None

    def _stop_waiting(self) -> None:
        if self._waits:
            self._waiting.count -= 1
            self._waits = False

    def _stop_keep_alive(self) -> None:
        if self._in_keep_alive:
            self._in_keep_alive = False
            self.config.keep_alive_timeouts.remove(self)

    def stop_reading_body(self) -> None:
        """Wakes a request that waits for its body, so that it is refused when the process stops."""
        if self._active is not None and self._active.more_body:
            self._active.news.set()

    def shutdown(self) -> None:
        """uvicorn calls it when the process stops: closes the connection, after the last response if one is
        in progress."""
        if self._last is None or self._last.complete:
            self.transport.close()
        else:
            self._last.keeps_alive = False

    def pause_writing(self) -> None:
        self.is_paused = True
        self._resumed.clear()
        self._start_write_timer()
        stream = self._active.streamed if self._active else None
        if stream is not None and stream.on_pause is not None:
            stream.on_pause()

    def resume_writing(self) -> None:
        self.is_paused = False
        self._resumed.set()
        self._write_timer.stop()
        stream = self._active.streamed if self._active else None
        if stream is not None and stream.on_resume is not None:
            stream.on_resume()

    def _refuse_input(self) -> None:
        """Refuses invalid or oversized input. Responses to earlier requests are sent first."""
        last = self._last
        if last is None or last.complete:
            self._refuse(self._refusal)
        elif not last.more_body:
            last.keeps_alive = False  # closes after the last pending response
            self._pause_reading()
        elif self._pipeline or last.started:
            self.transport.flush_and_abort()
        else:
            last.lose()  # its body stays incomplete; the refusal is its response
            self._refuse(self._refusal, logged_by_app=True)

    def _feed(self, data: bytes) -> None:
        """Parses `data`, ignoring Upgrade (RFC 9110, 7.8). The parser stops at an Upgrade header and takes
        the body for the other protocol, so a new parser reads the request without that header."""
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                head = request_head.head_without_upgrade(self._parser, self.url, self._headers)
                data = head + data[upgrade.args[0] :]
            except httptools.HttpParserError:
                self._refuse_input()
                return
            else:
                return
            self._parser = self._new_parser()

    def _new_parser(self) -> httptools.HttpRequestParser:
        """One that ignores what comes after a request whose client announces that it closes."""
        parser = httptools.HttpRequestParser(self)
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        return parser

    @property
    def _idle(self) -> bool:
        """Whether no request of this connection is unanswered."""
        return self._last is None or self._last.complete

    def _start_write_timer(self) -> None:
        """Aborts the connection if the written data isn't sent in time."""
        self._write_timer.start(WRITE_STALL_MAX_S, self.transport.abort)

    def _limit_to_health(self, refusal: Overloaded) -> None:
        """A connection over the limit may send one health check. Any other request is refused, and so is a
        client that sends none in time: a refusal before the request could reach the client as a reset. If as
        many connections as the limit are over it, this one is closed at once."""
        if self.config.over_limit_count >= self.config.connections_max:
            self._log_refusal(refusal, new_name(), UNANSWERED)
            self.transport.abort()
            return
        self._over_limit = refusal
        self.config.over_limit_count += 1
        self._head_timer.start(REFUSAL_WAIT_S, partial(self._refuse, refusal))

    def _refuse(self, error: MynaError, *, logged_by_app: bool = False) -> None:
        """Sends an error without calling the application, and closes the connection. `logged_by_app`: the
        application has the request and logs it, with the same id."""
        if self.transport.is_closing():
            return
        request_id = self._last.request_id if logged_by_app and self._last else new_name()
        if not logged_by_app:
            self._log_refusal(error, request_id, int(error.status))
        self.transport.write(refusal(error, self.url.decode(errors="replace"), request_id))
        self.transport.close()
        self._start_write_timer()

    def _log_refusal(self, error: MynaError, request_id: str, status: int) -> None:
        self.app.log_refusal(error, request_id, status)
