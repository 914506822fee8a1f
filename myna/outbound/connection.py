"""One HTTP/1.1 connection on asyncio's transports, with httptools (Node's llhttp) to read what comes in."""

import asyncio
import select
from collections.abc import Callable, Mapping
from typing import Final, cast

import httptools
import msgspec

from myna.deadlines import Deadlines
from myna.outbound.failures import AnswerTooLarge, Broken, TimedOut, Unreachable
from myna.sending import Outlet, Turn

# Servers close idle connections after 5 s at the earliest (Node's and uvicorn's default); we let go before.
IDLE_MAX_S: Final = 4.0
MOMENT_S: Final = 0.05
HEAD_MAX_BYTES: Final = 65_536
REFUSED_BODY_MAX_BYTES: Final = 65_536
# A chunk of one byte takes six on the wire; a server that pads more than that is only wasting our time.
WIRE_PER_BODY_BYTE: Final = 8

Sink = Callable[[bytes], object]
Accept = Callable[[int, Mapping[str, str]], bool]


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What a server said: names in `headers` are lower-case, repeated ones joined by `, `."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def _watcher(descriptor: int) -> Callable[[], bool]:
    """Tells at once whether there is something to read: bytes nobody asked for, or the end."""
    if not hasattr(select, "poll"):
        return lambda: bool(select.select([descriptor], (), (), 0)[0])
    poller = select.poll()
    poller.register(descriptor, select.POLLIN)
    return lambda: bool(poller.poll(0))


class Connection(asyncio.Protocol):
    """One connection, one call at a time. httptools calls the `on_…` methods while it is fed."""

    def __init__(
        self, peer: str, turn: Turn, deadlines: Deadlines, lost: Callable[["Connection"], None]
    ) -> None:
        self._peer, self._turn, self._deadlines = peer, turn, deadlines
        self._lost = lost
        self._future: asyncio.Future[Answer] | None = None
        self._status = 0
        self._keep = False
        self.gone = False
        self.idle_since = 0.0
        self._answers = 0

    # The call

    async def exchange(
        self, message: bytes, deadline: float, answer_max_bytes: int, sink: Sink | None, accept: Accept | None
    ) -> Answer:
        """Send `message` and return its answer, or fail when `time.monotonic()` says `deadline`."""
        if self.gone:
            raise self._closed_before()
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._future = future
        self._max_bytes, self._sink, self._accept = answer_max_bytes, sink, accept
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._status = self._size = self._wire = 0
        self._wire_max = HEAD_MAX_BYTES
        self._keep = self._cut = False
        self._transport.write(message)
        self._deadlines.add(future, deadline, self._late)
        try:
            return await future
        finally:
            self._deadlines.remove(future)
            self._future = None
            del future  # what it raised holds this frame, and would hold itself with it

    def reusable(self) -> bool:
        """True after a whole answer that left the connection clean: nothing unsent, nothing unasked for."""
        transport = self._transport
        return self._keep and not transport.is_closing() and not transport.get_write_buffer_size()

    def usable(self, now: float) -> bool:
        """True for an idle connection that is young enough and that its server hasn't closed, so far.

        Where its server has kept it before and it rested for a moment only, it isn't looked at: a look asks
        the kernel, and other threads may take the interpreter meanwhile.
        """
        if self.gone or self._transport.is_closing() or now >= self.idle_since + IDLE_MAX_S:
            return False
        trusted = self._answers > 1 and now < self.idle_since + MOMENT_S
        return trusted or not self._readable()

    def fail(self, fault: Exception) -> None:
        """End the call with `fault` and the connection with it."""
        if self._future is not None and not self._future.done():
            self._future.set_exception(fault)
        self.abort()

    def abort(self) -> None:
        """Close at once; `lost` is told when it is done."""
        self._keep = False
        self._transport.drop()

    def _closed_before(self) -> Unreachable:
        return Unreachable(f"{self._peer} closed the connection before a byte was sent.")

    def _late(self) -> None:
        self.fail(TimedOut(f"{self._peer} gave no whole answer within its time."))

    def _done(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(Answer(self._status, self._headers, b"".join(self._pieces)))

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = Outlet(cast(asyncio.Transport, transport), self._turn)
        self._readable = _watcher(transport.get_extra_info("socket").fileno())
        self._parser = httptools.HttpResponseParser(self)
        # An interim answer of an old server speaks HTTP/1.0 or says `close`, and the real one follows anyway.
        self._parser.set_dangerous_leniencies(lenient_keep_alive=True)

    def data_received(self, data: bytes) -> None:
        if self._future is None or self._future.done():
            return self.abort()
        if self._transport.unsent:
            return self.fail(Broken(f"{self._peer} spoke before it was asked."))
        self._wire += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            return self.fail(Broken(f"What {self._peer} answered is no HTTP/1.1."))
        if self._wire > self._wire_max and not self._future.done():
            self.fail(AnswerTooLarge(f"{self._peer} answered with more framing than content."))
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone = True
        if self._future is not None and not self._future.done():
            if self._transport.unsent:
                self.fail(self._closed_before())
            elif exc is None and self._status and not self._framed():
                self._done()
            else:
                where = "in the middle of its answer" if self._wire else "without an answer"
                self.fail(Broken(f"{self._peer} closed the connection {where}."))
        del self._parser  # it holds this connection's methods: a circle that only the collector would open
        self._lost(self)

    def _framed(self) -> bool:
        """True when the head said where the body ends; otherwise the connection's end is the body's."""
        return "content-length" in self._headers or "transfer-encoding" in self._headers

    # httptools' side

    def on_message_begin(self) -> None:
        if self._status:
            self.abort()  # a second answer to one request

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._status:
            return  # a trailer: read past
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        earlier = self._headers.get(key)
        self._headers[key] = text if earlier is None else f"{earlier}, {text}"

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:
            self._headers = {}  # an interim answer; the real one follows
            return
        self._status = status
        if self._accept is not None and not self._accepted(self._accept):
            self._sink, self._cut, self._max_bytes = None, True, REFUSED_BODY_MAX_BYTES
        self._wire_max = self._wire + HEAD_MAX_BYTES + WIRE_PER_BODY_BYTE * self._max_bytes
        if int(self._headers.get("content-length", 0)) > self._max_bytes and not self._cut:
            self._too_large()

    def _accepted(self, accept: Accept) -> bool:
        try:
            return accept(self._status, self._headers)
        except Exception as fault:
            self.fail(fault)
            return False

    def on_body(self, body: bytes) -> None:
        if self._future is None or self._future.done():
            return
        room = self._max_bytes - self._size
        self._size += len(body)
        if self._sink is not None:
            self._pour(self._sink, body, room)
        elif len(body) <= room:
            self._pieces.append(body)
        elif self._cut:
            self._pieces.append(body[:room])
            self._done()
            self.abort()
        else:
            self._too_large()

    def _pour(self, sink: Sink, body: bytes, room: int) -> None:
        if len(body) > room:
            return self._too_large()
        try:
            sink(body)
        except Exception as fault:
            self.fail(fault)
        return None

    def _too_large(self) -> None:
        self.fail(AnswerTooLarge(f"{self._peer} answered with more than {self._max_bytes} bytes."))

    def on_message_complete(self) -> None:
        if self._status and not self._transport.is_closing():
            self._keep = self._parser.should_keep_alive()
            self._answers += 1
            self._done()
