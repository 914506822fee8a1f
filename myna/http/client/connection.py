"""One HTTP/1.1 connection on asyncio's transports, parsed by httptools (Node's llhttp)."""

import asyncio
import select
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

import httptools
import msgspec

from myna.http.client.errors import AnswerTooLarge, ConnectionBroken, IdleTimedOut, TimedOut, Unreachable
from myna.http.client.flow import Flow
from myna.http.client.target import Origin
from myna.lib.aio import FlushQueue, Timeouts, WriteBuffer

HEAD_MAX_BYTES: Final = 65_536
REFUSED_BODY_MAX_BYTES: Final = 65_536
# The size of a read. uvloop reads a busy connection up to 32 times in one event loop iteration.
READ_MAX_BYTES: Final = 16_384
# A chunk of 20 bytes takes 24 on the wire. A response in much smaller chunks wastes CPU time.
BODY_BYTES_PER_FRAMING_BYTE: Final = 4
# An idle check that is this late means that the process was suspended or the event loop was blocked. The
# socket may have unread data then.
STOPPED_MIN_S: Final = 1.0

# A read whose processing takes longer, such as a flood of tiny events, is the connection's last one in this
# iteration of the event loop, so that others run in between.
READ_TIME_MAX_S: Final = 0.002

Sink = Callable[[bytes], object]
"""Receives the body of an accepted response: `sink(part)` is called for each part as it arrives, in order.

A part has 1 to READ_MAX_BYTES bytes. All parts together have at most `answer_max_bytes`: at a larger body the
call raises AnswerTooLarge and passes no further part. It returns SAYS_NOTHING for a part that doesn't end the
server's silence; any other value is ignored. The function runs on the event loop and must not block. An
exception that it raises closes the connection and is raised by the call."""
SAYS_NOTHING: Final = object()
Accept = Callable[[int, Mapping[str, str]], bool]
"""Decides whether the body of a response goes to the sink. Without it every body does.

`accept(status, headers)` is called once, when the headers of the final response have arrived. `status` is at
least 200. Names in `headers` are lower-case; duplicate headers are joined by `, `. If it returns False, the
body is returned in `ClientResponse.body` instead, truncated to 64 KiB. The function runs on the event loop
and must not block. An exception that it raises closes the connection and is raised by the call."""

_ZLIB_CODINGS: Final = (b"gzip", b"x-gzip", b"deflate")
_GZIP_OR_ZLIB: Final = 47
"""The `wbits` of zlib for either format."""
# Linux reports a closed connection with POLLRDHUP, other systems with POLLHUP or not at all.
_ENDED: Final = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
# RFC 9110, 15.5.9: a server may send it on an idle connection before it closes it.
_REQUEST_TIMEOUT: Final = (b"HTTP/1.1 408", b"HTTP/1.0 408")


class ClientResponse(msgspec.Struct, frozen=True, gc=False):
    """A whole response. Names in `fields` are in lower case."""

    status: int
    fields: Sequence[tuple[bytes, bytes]]
    body: bytes

    @property
    def headers(self) -> dict[str, str]:
        """The values by name; those of duplicate headers are joined by `, `."""
        return _joined(self.fields)


class Exchange(msgspec.Struct, frozen=True, gc=False):
    """A request and the limits of its response. `deadline` is a time of `time.monotonic()`. `idle_s` is how
    long the server may send nothing, before the response and within it."""

    message: bytes
    deadline: float
    idle_s: float
    answer_max_bytes: int
    sink: Sink | None
    accept: Accept | None
    flow: Flow | None = None


class NotSent(Unreachable):
    """The connection was unusable before a byte was sent; the request may use another one."""


class ClientConnection(asyncio.BufferedProtocol):
    """One connection, one call at a time. httptools calls the `on_…` methods from `feed_data`."""

    def __init__(
        self,
        origin: Origin,
        flush_queue: FlushQueue,
        timeouts: Timeouts,
        buffer: memoryview,
        on_closed: Callable[["ClientConnection"], None],
    ) -> None:
        self.origin = origin
        self.open = True
        self.stray = False
        self.idle_since = 0.0
        self._flush_queue = flush_queue
        self._timeouts = timeouts
        self._buffer = buffer
        self._on_closed = on_closed
        self._future: asyncio.Future[ClientResponse] | None = None
        self._poller = select.poll()
        self._used = False
        self._status = 0
        self._keep_alive = False

    # The call:

    async def exchange(self, call: Exchange) -> ClientResponse:
        """Sends the request and returns its response. Raises RequestFailed; NotSent if no byte was sent."""
        if not self.open:
            raise self._not_sent()
        future: asyncio.Future[ClientResponse] = asyncio.get_running_loop().create_future()
        self._future = future
        self._call = call
        self._max_bytes = call.answer_max_bytes
        self._sink = call.sink
        self._unzip: zlib._Decompress | None = None
        self._fields: list[tuple[bytes, bytes]] = []
        self._body = bytearray()
        self._status = self._body_bytes = self._wire_bytes = 0
        self._keep_alive = self._truncate = self._complete = self._extra = False
        self._heard_at = self._received_at = time.monotonic()
        self._transport.write(call.message)
        self._set_timeout(future)
        if call.flow is not None:
            call.flow.attach(self)
        try:
            return await future
        finally:
            if call.flow is not None:
                call.flow.detach()
            self._timeouts.remove(future)
            self._future = None
            del future  # its exception refers to this frame: a reference cycle

    def reusable(self) -> bool:
        """True after a whole response, with no unsent data and no unexpected bytes."""
        transport = self._transport
        return self._keep_alive and not transport.is_closing() and not transport.get_write_buffer_size()

    def fail(self, error: Exception) -> None:
        """Ends the call with `error` and closes the connection."""
        if self._future is not None and not self._future.done():
            self._future.set_exception(error)
        self.abort()

    def abort(self) -> None:
        """Closes immediately; `on_closed` is called after that."""
        self._keep_alive = False
        self._transport.abort()

    def _not_sent(self) -> NotSent:
        return NotSent(
            f"{self.origin} closed the connection, or sent bytes on it, before the request was sent."
        )

    def _set_timeout(self, future: asyncio.Future[ClientResponse]) -> None:
        deadline = min(self._call.deadline, self._received_at + self._call.idle_s)
        self._timeouts.add(future, deadline, self._timed_out)

    def pause(self) -> None:
        """Reads nothing more for the present."""
        self._transport.pause_reading()

    def resume(self) -> None:
        """Reads again. The server's silence counts from now on."""
        self._received_at = time.monotonic()
        if self.open and not self._transport.is_closing():
            self._transport.resume_reading()

    def _timed_out(self) -> None:
        now = time.monotonic()
        was_stopped = now > self._received_at + self._call.idle_s + STOPPED_MIN_S
        if was_stopped or (self._call.flow is not None and self._call.flow.paused):
            self._received_at = now
        if now >= self._call.deadline:
            self.fail(TimedOut(f"{self.origin} sent no whole response before the deadline."))
        elif now >= self._received_at + self._call.idle_s:
            self.fail(IdleTimedOut(f"{self.origin} sent nothing for {self._call.idle_s:g} s."))
        elif self._future is not None:
            self._set_timeout(self._future)

    def _finish(self) -> None:
        if self._unzip is not None and self._body_bytes and not self._unzip.eof and not self._truncate:
            self.fail(ConnectionBroken(f"{self.origin} sent a compressed answer that ends too early."))
        if self._future is not None and not self._future.done():
            self._future.set_result(ClientResponse(self._status, self._fields, bytes(self._body)))

    # Called by asyncio:

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = WriteBuffer(cast(asyncio.Transport, transport), self._flush_queue, self._may_send)
        self._poller.register(
            transport.get_extra_info("socket").fileno(), select.POLLIN | getattr(select, "POLLRDHUP", 0)
        )
        self._parser = httptools.HttpResponseParser(self)
        # An interim response of an old server may be HTTP/1.0 or have `close`; the final one still follows.
        self._parser.set_dangerous_leniencies(lenient_keep_alive=True)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Shared by all connections of an event loop: each read is parsed before the next one."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        began = time.monotonic()
        self._parse(self._buffer[:nbytes], began)
        if time.monotonic() - began > READ_TIME_MAX_S and self.open and not self._transport.is_closing():
            self._transport.pause_reading()
            asyncio.get_running_loop().call_soon(self._read_on)

    def _read_on(self) -> None:
        is_paused = self._future is not None and self._call.flow is not None and self._call.flow.paused
        if self.open and not self._transport.is_closing() and not is_paused:
            self._transport.resume_reading()

    def _parse(self, data: memoryview, now: float) -> None:
        if self._future is None or self._future.done() or self._transport.unsent:
            return self._unexpected(data)
        self._heard_at, self._received_at = self._received_at, now
        self._wire_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            if not self._complete:
                return self.fail(ConnectionBroken(f"{self.origin} sent an answer that is not HTTP/1.1."))
            self._extra = True
        if self._complete:
            return self._complete_response()
        framing = self._wire_bytes - self._body_bytes
        if (
            framing > HEAD_MAX_BYTES + self._body_bytes // BODY_BYTES_PER_FRAMING_BYTE
            and not self._future.done()
        ):
            self.fail(AnswerTooLarge(f"{self.origin} sent more framing than content."))
        return None

    def _complete_response(self) -> None:
        """Finishes the call. On a reused connection, two responses in one read are rejected: the first may
        repeat the earlier one."""
        if self._extra:
            self.stray = True
            if self._used:
                return self.fail(ConnectionBroken(f"{self.origin} sent more than one response."))
        self._used = True
        self._finish()
        if self._extra:
            self.abort()
        return None

    def _unexpected(self, data: memoryview) -> None:
        """Bytes without a request, or before it was sent, belong to no response."""
        self.stray = self.stray or not bytes(data[:12]).startswith(_REQUEST_TIMEOUT)
        self.fail(self._not_sent())

    def _may_send(self) -> bool:
        """Polls the socket right before a request is sent on a reused connection. Returns False, and ends the
        call, if bytes or the connection's end arrived. Over TLS the bytes may be a session ticket.

        Bytes received before the request are not its response. Bytes received between the poll and the write,
        a few microseconds later, can't be told from the response; `client.py` explains why that is unlikely.
        """
        if not self._used or not (events := self._poller.poll(0)):
            return True
        self.stray = not events[0][1] & _ENDED and not self.origin.secure
        self.fail(self._not_sent())
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        if self._future is not None and not self._future.done():
            if self._transport.unsent:
                self.fail(self._not_sent())
            elif exc is None and self._status and not self._framed():
                self._finish()
            else:
                where = "within its answer" if self._wire_bytes else "without an answer"
                self.fail(ConnectionBroken(f"{self.origin} closed the connection {where}."))
        del self._parser  # refers to this connection's methods: a reference cycle
        self._transport.may_send = None  # likewise
        self._on_closed(self)

    def _framed(self) -> bool:
        """True if the head has the body's length or coding; otherwise the body ends with the connection."""
        names = dict(self._fields)
        return b"content-length" in names or b"transfer-encoding" in names

    # Called by httptools:

    def on_message_begin(self) -> None:
        self._extra = self._complete

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._status:  # otherwise it is a trailer, which is ignored
            self._fields.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._complete:
            return
        status = self._parser.get_status_code()
        if status < 200:
            self._fields = []  # an interim response; the final one follows
            return
        self._status = status
        if self._call.accept is not None and not self._accepted(self._call.accept):
            self._sink = None
            self._truncate = True
            self._max_bytes = REFUSED_BODY_MAX_BYTES
        self._room = self._max_bytes
        fields = dict(self._fields)
        if int(fields.get(b"content-length", b"0")) > self._max_bytes and not self._truncate:
            self._too_large()
        coding = fields.get(b"content-encoding", b"identity").strip().lower()
        if coding in _ZLIB_CODINGS:
            self._unzip = zlib.decompressobj(_GZIP_OR_ZLIB)
        elif coding not in (b"", b"identity"):
            self.fail(ConnectionBroken(f"{self.origin} sent a compressed answer that it was not asked for."))

    def _accepted(self, accept: Accept) -> bool:
        try:
            return accept(self._status, _joined(self._fields))
        except Exception as error:
            self.fail(error)
            return False

    def on_body(self, body: bytes) -> None:
        if self._complete or self._future is None or self._future.done():
            return
        self._body_bytes += len(body)
        if self._unzip is None:
            self._take(body)
            return
        try:
            while body and not self._future.done():
                self._take(self._unzip.decompress(body, READ_MAX_BYTES))
                body = self._unzip.unconsumed_tail
        except zlib.error:
            self.fail(ConnectionBroken(f"{self.origin} sent an answer that can't be decompressed."))

    def _take(self, part: bytes) -> None:
        room = self._room
        self._room -= len(part)
        if len(part) > room and not self._truncate:
            self._too_large()
        elif self._sink is None:
            self._body += part[:room]
            if len(part) > room:
                self._finish()
                self.abort()
        elif part:
            try:
                says_nothing = self._sink(part) is SAYS_NOTHING
                self._heard_at = self._heard_at if says_nothing else time.monotonic()
                self._received_at = self._heard_at
            except Exception as error:
                self.fail(error)

    def _too_large(self) -> None:
        why = f"{self.origin} sent a response of more than {self._max_bytes} bytes."
        self.fail(AnswerTooLarge(why, self._max_bytes))

    def on_message_complete(self) -> None:
        if self._status and not self._complete and not self._transport.is_closing():
            self._keep_alive = self._parser.should_keep_alive()
            self._complete = True


def _joined(fields: Sequence[tuple[bytes, bytes]]) -> dict[str, str]:
    values: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        values.setdefault(name, []).append(value)
    return {name.decode("latin-1"): b", ".join(each).decode("latin-1") for name, each in values.items()}
