"""A client connection: uvicorn's HTTP/1.1 protocol with limits for untrusted clients. Refusals have the
error envelope.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from operator import itemgetter
from typing import Any, cast

import httptools
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import (
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from myna.aio.write_buffer import WriteBuffer
from myna.errors import InvalidRequest, MynaError, Overloaded
from myna.http.asgi import HEALTH_PATHS, UNANSWERED, Application
from myna.http.asgi_types import ABORT, BODY_COMPLETE, EOF_RECEIVED, OPEN_STREAM, OPENED, RESPOND, STOPPING
from myna.http.head_rules import header_error
from myna.http.request_ids import request_id_of
from myna.http.responses import JSON, envelope
from myna.http.server_config import ServerConfig
from myna.http.stream import Header, ResponseStream
from myna.ids import new_name

HEADERS_MAX_BYTES = 64 * 1024
HEADERS_TIMEOUT_S = 20.0
PIPELINED_MAX = 32
"""Pipelined requests that may wait on one connection."""
DISCARD: Any = deque(maxlen=0)
"""A list that discards every appended item."""
WRITE_STALL_MAX_S = 60.0
"""How long a client may leave a response unread."""
REFUSAL_WAIT_S = 1.0
"""How long a connection over the limit may take to send a request before it is refused."""
_NAME = itemgetter(0)
INVALID = InvalidRequest("The request is no valid HTTP, its method is unknown, or its headers are too large.")


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 with limits on the size and time of a request head, on pipelined requests, and on the time
    that a response stays unread."""

    config: ServerConfig
    url = b""  # of the last request head
    _read_bytes = 0
    _read_starts_head = False  # this read begins with a request head
    _head_bytes = 0  # upper bound: all reads that contain part of this head
    _overhead_bytes = 0  # bytes since the last head, body or end of message
    _upgrade_requested = False
    _between_requests = True
    _over_limit: Overloaded | None = None  # why it may only check the health
    _waits_as: str | None = None  # the holder of its place among those that wait for their client
    _eof_received = False  # the client has closed its sending side
    _active_cycle: RequestResponseCycle | None = None
    _refusal: MynaError = INVALID
    _in_keep_alive = False
    _head_timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None
    _stream: ResponseStream | None = None  # of the request in progress

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(WriteBuffer(transport, self.config.flush_queue))
        if len(self.connections) - self.config.over_limit_count > self.config.connections_max:
            self._limit_to_health(Overloaded())
        elif refusal := self._wait_for_client():
            self._limit_to_health(refusal)
        else:
            self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._stop_write_timer()
        self._stop_waiting()
        self.config.over_limit_count -= self._over_limit is not None
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        if self._stream is not None:
            self._stream.lose()

    def eof_received(self) -> bool:  # type: ignore[override]  # as asyncio has it
        """The client has closed its sending side. Complete requests are answered before the connection is
        closed (RFC 9112, 9.6), since the client may still read. Returns True to keep the connection open."""
        self._eof_received = True
        if self._idle or self.cycle.more_body:
            self.transport.close()  # after the writes of this iteration
            return False
        self.cycle.keep_alive = False
        if self._active_cycle is not None:
            self._active_cycle.message_event.set()
        if self._stream is not None:
            self._stream.lose()
        return True

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        self._read_bytes = len(data)
        self._read_starts_head = self._between_requests
        self._overhead_bytes += self._read_bytes
        self._head_bytes += self._read_bytes
        self._feed(data)
        if self._overhead_bytes > HEADERS_MAX_BYTES and not self.transport.is_closing():
            self.send_400_response("")
            return
        # With no response in progress, this is the next head, blank lines before it, or the rest of an unread
        # body. Each stopped the keep-alive timeout, so the head timer must run.
        if self._idle and self._head_timer is None and not self._in_keep_alive:
            self._start_head_timer()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= PIPELINED_MAX or (self._over_limit and self.cycle is not None):
            raise ValueError("too many requests at once")  # the parser turns it into a 400
        super().on_message_begin()
        self._between_requests = False
        self._head_bytes = self._read_bytes
        self._upgrade_requested = False
        self._overhead_bytes = self._read_bytes if self._read_starts_head else 0
        self._read_starts_head = False
        self.scope[RESPOND] = self._respond  # type: ignore[literal-required]  # ours
        self.scope[OPEN_STREAM] = self._open_stream  # type: ignore[literal-required]  # ours
        self.scope[ABORT] = self.transport.abort  # type: ignore[literal-required]  # ours
        self.scope[STOPPING] = self.config.is_stopping  # type: ignore[literal-required]  # ours
        self.scope[EOF_RECEIVED] = self._is_eof_received  # type: ignore[literal-required]  # ours

    def on_headers_complete(self) -> None:
        self._overhead_bytes = 0
        if self._head_bytes > HEADERS_MAX_BYTES and self._head_too_large():
            raise ValueError("headers too large")  # the parser turns it into a 400
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("this is no proxy")  # the parser turns it into a 400
            self._upgrade_requested = True
            return
        self._check_head()
        self._stop_head_timer()
        super().on_headers_complete()
        if self._over_limit:
            self.cycle.keep_alive = False
        self.headers = DISCARD  # trailers are ignored

    def _check_head(self) -> None:
        """Sets `_refusal` and raises ValueError, which the parser turns into its own error."""
        if self._over_limit and self.url.partition(b"?")[0] not in HEALTH_PATHS:
            self._refusal = self._over_limit
            raise ValueError("too many connections")
        names = list(map(_NAME, self.headers))
        if reason := header_error(names, self.headers, self.parser.get_http_version()):
            self._refusal = InvalidRequest(f"The request is no valid HTTP: {reason}.")
            raise ValueError(reason)

    def on_body(self, body: bytes) -> None:
        self._overhead_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._between_requests = True
        self._stop_waiting()
        self._overhead_bytes = 0
        self.scope[BODY_COMPLETE] = True  # type: ignore[literal-required]  # ours
        if not self._upgrade_requested:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Like uvicorn's, but one timer serves the keep-alive timeouts of all connections."""
        self.server_state.total_requests += 1
        self._stream = None
        if self.transport.is_closing():
            self._start_write_timer()
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._active_cycle = None
        if self._wait_for_client():
            self.transport.close()
            return
        self._in_keep_alive = True
        until = time.monotonic() + self.timeout_keep_alive
        self.config.keep_alive_timeouts.add(self, until, self.timeout_keep_alive_handler)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self._active_cycle = cycle
        super()._start_asgi_task(cycle, app)

    def _respond(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> bool:
        """Sends a complete response, with its Content-Length in `headers`, as uvicorn does in two messages.
        Returns False if uvicorn must: it waits until the client reads, and omits the body for HEAD."""
        cycle = self._active_cycle
        if cycle is None or self.flow.write_paused or cycle.scope["method"] == "HEAD":
            return False
        if cycle.disconnected:
            return True
        if HEADER_VALUE_RE.search(b"".join(map(b"".join, headers))):
            raise RuntimeError("a response header contains a control character")
        lines = [b"%b: %b\r\n" % field for field in (*cycle.default_headers, *headers)]
        if not cycle.keep_alive:
            lines.append(b"connection: close\r\n")
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        cycle.message_event.set()
        self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", body]))
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()
        return True

    # The response that is sent while it is made: see `stream.py`.

    def _open_stream(self, headers: list[Header]) -> ResponseStream:
        cycle = cast(RequestResponseCycle, self._active_cycle)
        chunked = cycle.scope["http_version"] == "1.1"
        if not chunked:
            cycle.keep_alive = False  # the end of the connection is the end of the body
        self._stream = ResponseStream(self, [*cycle.default_headers, *headers], chunked=chunked)
        cycle.scope[OPENED] = self._stream  # type: ignore[literal-required]  # ours
        if cycle.disconnected or self._eof_received:
            self._stream.lose()
        return self._stream

    @property
    def keeps_alive(self) -> bool:
        return self._active_cycle is not None and self._active_cycle.keep_alive

    @property
    def is_paused(self) -> bool:
        return self.flow.write_paused

    def start_stream(self, head: bytes) -> Callable[[bytes], None]:
        cast(RequestResponseCycle, self._active_cycle).response_started = True
        self.transport.write(head)
        return self.transport.write

    def finish_stream(self) -> None:
        cycle = cast(RequestResponseCycle, self._active_cycle)
        self._stream = None
        cycle.response_complete = True
        cycle.message_event.set()
        if not cycle.keep_alive:
            self.transport.close()
        self.on_response_complete()

    def give_up_stream(self) -> None:
        self._stream = None
        cast(RequestResponseCycle, self._active_cycle).disconnected = True  # uvicorn expects no end of it
        if not self.transport.is_closing():
            self.transport.close()
            self._start_write_timer()

    async def drained(self) -> None:
        await self.flow.drain()

    def _is_eof_received(self) -> bool:
        return self._eof_received

    def _wait_for_client(self) -> Overloaded | None:
        """The connection waits for its client. Returns why it can't: the address has too many of them."""
        if self._waits_as is None:
            try:
                self._waits_as = self.config.waiting.take(self.client[0] if self.client else "")
            except Overloaded as refusal:
                return refusal
        return None

    def _stop_waiting(self) -> None:
        if self._waits_as is not None:
            self.config.waiting.release(self._waits_as)
            self._waits_as = None

    def _unset_keepalive_if_required(self) -> None:
        if self._in_keep_alive:
            self._in_keep_alive = False
            self.config.keep_alive_timeouts.remove(self)

    def stop_reading_body(self) -> None:
        """Wakes a request that waits for its body, so that it is refused when the process stops."""
        if self._active_cycle is not None and self._active_cycle.more_body:
            self._active_cycle.message_event.set()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_write_timer()
        if self._stream is not None and self._stream.on_pause is not None:
            self._stream.on_pause()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_write_timer()
        if self._stream is not None and self._stream.on_resume is not None:
            self._stream.on_resume()

    def send_400_response(self, msg: str) -> None:
        """Refuses invalid or oversized input. Responses to earlier requests are sent first."""
        cycle = self.cycle
        if not self._idle and not cycle.more_body:
            cycle.keep_alive = False  # closes after the last pending response
            self.flow.pause_reading()
            return
        if not self._idle and (self.pipeline or cycle.response_started):
            cast(WriteBuffer, self.transport).flush_and_abort()
            return
        if not self._idle:
            cycle.disconnected = True  # its body stays incomplete; the refusal is its response
            cycle.message_event.set()
        self._refuse(self._refusal, logged_by_app=not self._idle)

    def _feed(self, data: bytes) -> None:
        """Parses `data`, ignoring Upgrade (RFC 9110, 7.8). The parser stops at an Upgrade header and takes
        the body for the other protocol, so a new parser reads the request without that header."""
        while True:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._head_without_upgrade() + data[upgrade.args[0] :]
            except httptools.HttpParserError:
                self.send_400_response("")
                return
            else:
                return
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as in uvicorn

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    @property
    def _idle(self) -> bool:
        """Whether no request of this connection is unanswered."""
        return self.cycle is None or self.cycle.response_complete

    def _head_too_large(self) -> bool:
        """Whether the head itself is over the limit that its reads exceed."""
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEADERS_MAX_BYTES

    def _start_head_timer(self) -> None:
        self._head_timer = self.loop.call_later(HEADERS_TIMEOUT_S, self.transport.abort)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _start_write_timer(self) -> None:
        """Aborts the connection if the written data isn't sent in time."""
        self._stop_write_timer()
        self._write_timer = self.loop.call_later(WRITE_STALL_MAX_S, self.transport.abort)

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

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
        self._head_timer = self.loop.call_later(REFUSAL_WAIT_S, self._refuse, refusal)

    def _refuse(self, error: MynaError, *, logged_by_app: bool = False) -> None:
        """Sends an error without calling the application, and closes the connection. `logged_by_app`: the
        application has the request and logs it, with the same id."""
        if self.transport.is_closing():
            return
        request_id = request_id_of(self.cycle.scope) if logged_by_app else new_name()  # type: ignore[arg-type]
        if not logged_by_app:
            self._log_refusal(error, request_id, int(error.status))
        response = envelope(error, self.url.decode(errors="replace"))
        headers = {
            "content-type": JSON.decode(),
            "content-length": str(len(response.body)),
            "x-request-id": request_id,
            "connection": "close",
            **(response.headers or {}),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        self.transport.write(STATUS_LINE[response.status] + lines + b"\r\n" + response.body)
        self.transport.close()
        self._start_write_timer()

    def _log_refusal(self, error: MynaError, request_id: str, status: int) -> None:
        if isinstance(self.app, Application):
            self.app.log_refusal(error, request_id, status)
