"""One connection of a client: uvicorn's HTTP/1.1 with limits on everything a client may do to it, and with
refusals in our envelope.
"""

import asyncio
import re
import time
from collections import deque
from typing import Any

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from myna.deadlines import Deadlines
from myna.edge import ABORT, STOPPING, WHOLE, envelope
from myna.errors import InvalidRequest, MynaError, Overloaded
from myna.ids import new_name
from myna.sending import Outlet, Turn

HEADERS_MAX_BYTES = 64 * 1024
HEADERS_TIMEOUT_S = 20.0
PIPELINED_MAX = 32
"""Requests that may wait on one connection behind the one being answered."""
NOWHERE: Any = deque(maxlen=0)
"""A list that keeps nothing."""
KNOWN_METHOD = b"PATCH"
"""One that the parser knows and nothing is offered under: it stands for those that it doesn't know."""
STALLED_S = 60.0
"""How long a client may take nothing of an answer that waits for it."""
REFUSAL_WAIT_S = 1.0
"""How long one connection too many may take to ask before it is told that it is one too many."""
_METHOD = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,40}(?= /)")


class Protocol(HttpToolsProtocol):
    """HTTP/1.1 with limits: how large a head may be and how long it may take, how many requests may wait,
    how long a client may leave its answer lying."""

    config: "Config"
    _read_bytes = 0
    _at_head = False  # this read begins with a head
    _head_bytes = 0  # at most: of all reads that the present head is part of
    _barren_bytes = 0  # of reads since the last one that brought a head, a body or the end of either
    _offered = False
    _between = True
    _strange_method = ""
    _one_too_many = False
    _resting = False
    _impatience: asyncio.TimerHandle | None = None
    _stall: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(Outlet(transport, self.config.turn))
        if len(self.connections) - self.config.refused > self.config.connections_max:
            self._turn_away()
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._be_patient()
        self._moving()
        self.config.refused -= self._one_too_many
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def eof_received(self) -> None:
        self.transport.close()  # behind what this turn has written

    def data_received(self, data: bytes) -> None:
        if self._one_too_many:
            self._refuse(Overloaded())
            return
        self._unset_keepalive_if_required()
        self._read_bytes, self._at_head = len(data), self._between
        self._barren_bytes += self._read_bytes
        self._head_bytes += self._read_bytes
        self._feed(data)
        if self._barren_bytes > HEADERS_MAX_BYTES and not self.transport.is_closing():
            self.send_400_response("")
            return
        # What arrives with no answer on its way is the next head, blank lines before it, or the rest of a
        # body that nobody wanted: each stopped the clock of idle connections, so another one must run.
        if self._idle and self._impatience is None and not self._resting:
            self._expect_head()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= PIPELINED_MAX:
            raise ValueError("too many requests at once")  # the parser turns it into a 400
        super().on_message_begin()
        self._between = False
        self._head_bytes, self._offered = self._read_bytes, False
        self._barren_bytes = self._read_bytes if self._at_head else 0
        self._at_head = False
        self.scope[ABORT] = self.transport.abort  # type: ignore[literal-required]  # ours
        self.scope[STOPPING] = self.config.is_stopping  # type: ignore[literal-required]  # ours

    def on_headers_complete(self) -> None:
        self._barren_bytes = 0
        if self._head_bytes > HEADERS_MAX_BYTES and self._too_large():
            raise ValueError("headers too large")  # the parser turns it into a 400
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                raise ValueError("this is no proxy")  # the parser turns it into a 400
            self._offered = True
            return
        self._be_patient()
        super().on_headers_complete()
        self.headers = NOWHERE  # trailers come behind a chunked body, and none means anything here
        if self._strange_method:
            self.scope["method"], self._strange_method = self._strange_method, ""

    def on_body(self, body: bytes) -> None:
        self._barren_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._between, self._barren_bytes = True, 0
        self.scope[WHOLE] = True  # type: ignore[literal-required]  # ours
        if not self._offered:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """As uvicorn does it, but without a timer of its own for each pause between two requests."""
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._watch_leaving()
            return
        self.flow.resume_reading()
        if self.pipeline:
            self._start_asgi_task(*self.pipeline.pop())
            return
        self._resting = True
        until = time.monotonic() + self.timeout_keep_alive
        self.config.pauses.add(self, until, self.timeout_keep_alive_handler)

    def _unset_keepalive_if_required(self) -> None:
        if self._resting:
            self._resting = False
            self.config.pauses.remove(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_leaving()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._moving()

    def send_400_response(self, msg: str) -> None:
        """Bytes that are no HTTP, or too many. Answers owed to earlier requests come first."""
        cycle = self.cycle
        if not self._idle and not cycle.more_body:
            cycle.keep_alive = False  # closes behind the last answer that is owed
            self.flow.pause_reading()
            return
        if not self._idle and (self.pipeline or cycle.response_started):
            self.transport.abort()
            return
        if not self._idle:
            cycle.disconnected = True  # its body never comes whole; the refusal is its answer
            cycle.message_event.set()
        self._refuse(InvalidRequest("The request is no valid HTTP, or its headers are too large."))

    def _feed(self, data: bytes) -> None:
        """An offer to speak another protocol is passed over in silence (RFC 9110, 7.8). The parser stops at
        one and takes the body for the other protocol's, so another parser reads the request without it. It
        also stops at a method it doesn't know, so another one reads the request with one that it does."""
        while True:
            begins = self._between
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as offer:
                data = self._head_without_offer() + data[offer.args[0] :]
            except httptools.HttpParserError:
                strange = _strange_method(data) if begins else b""
                if not strange:
                    self.send_400_response("")
                    return
                self._strange_method = strange.decode()
                data = KNOWN_METHOD + data[len(strange) :]
            else:
                return
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it

    def _head_without_offer(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [name + b": " + value for name, value in self.headers if name != b"upgrade"]
        return b"\r\n".join([*lines, b"", b""])

    @property
    def _idle(self) -> bool:
        """No request of this connection waits for its answer."""
        return self.cycle is None or self.cycle.response_complete

    def _too_large(self) -> bool:
        """What reads of this size may hold, the head may not."""
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEADERS_MAX_BYTES

    def _expect_head(self) -> None:
        self._impatience = self.loop.call_later(HEADERS_TIMEOUT_S, self.transport.abort)

    def _be_patient(self) -> None:
        if self._impatience is not None:
            self._impatience.cancel()
            self._impatience = None

    def _watch_leaving(self) -> None:
        """Ends the connection unless what was written leaves it in time."""
        self._moving()
        self._stall = self.loop.call_later(STALLED_S, self.transport.abort)

    def _moving(self) -> None:
        if self._stall is not None:
            self._stall.cancel()
            self._stall = None

    def _turn_away(self) -> None:
        """Tells one connection too many so when it has asked: told before, it may see only a reset. Where as
        many wait to be told as may be open, there is no time for that either."""
        if self.config.refused >= self.config.connections_max:
            self.transport.abort()
            return
        self._one_too_many = True
        self.config.refused += 1
        self._impatience = self.loop.call_later(REFUSAL_WAIT_S, self._refuse, Overloaded())

    def _refuse(self, error: MynaError) -> None:
        """An answer before any application was asked; the connection ends behind it."""
        if self.transport.is_closing():
            return
        response = envelope(error)
        headers = {
            "content-type": "application/json",
            "content-length": str(len(response.body)),
            "x-request-id": new_name(),
            "connection": "close",
            **(response.headers or {}),
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode()
        self.transport.write(STATUS_LINE[response.status] + lines + b"\r\n" + response.body)
        self.transport.close()
        self._watch_leaving()


def _strange_method(data: bytes) -> bytes:
    """The method of the request that begins here, if the parser doesn't know it; empty if it does, or if this
    is no request."""
    method = _METHOD.match(data)
    if method is None:
        return b""
    try:
        httptools.HttpRequestParser(object()).feed_data(method[0] + b" / HTTP/1.1\r\n")
    except httptools.HttpParserError:  # none at all, or one of RTSP
        return method[0]
    return b""


class Config(uvicorn.Config):
    """uvicorn's configuration; how many connections there may be at once, how long calls may go on at the
    end, how callers reach the service; and what the connections of one process share: how many are being
    turned away, whether it ends, the turn in which they send, and their pauses between two requests.
    """

    connections_max: int
    grace_s: float
    base_url: str
    turn: Turn
    pauses: Deadlines
    refused = 0
    stopping = False

    def is_stopping(self) -> bool:
        return self.stopping
