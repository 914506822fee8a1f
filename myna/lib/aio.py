"""Additions to asyncio: shared timers, one write per connection and loop iteration, and cached results.

A timer for each operation costs more than most operations take, and almost none of them ever fires.

A process that alternates between computing and sending wakes the reader for each write. A reader on the same
machine finds little and sleeps again, and waking it costs more than the write. Most writes sent right after
one another find the reader awake. The head and the body of a response also share one packet.
"""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")

TICK_S = 0.05
"""The longest delay between a deadline and its callback on an idle event loop."""
LARGE_BYTES = 64 * 1024
"""Buffered bytes of one connection above which they are sent at once, so that a streamed file is subject to
the transport's flow control."""


class Timeouts:
    """The deadlines of one event loop. While there are none, no timer runs."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[float, Callable[[], object]]] = {}
        self._scheduled = False

    def add(self, key: Hashable, deadline: float, callback: Callable[[], object]) -> None:
        """Calls `callback` once after `deadline`, a time of `time.monotonic()`, unless `key` is removed
        first. Adding the key again replaces its deadline."""
        self._entries[key] = (deadline, callback)
        if not self._scheduled:
            self._schedule()

    def remove(self, key: Hashable) -> None:
        """Does nothing if the key is unknown."""
        self._entries.pop(key, None)

    def __len__(self) -> int:
        return len(self._entries)

    def _expire(self) -> None:
        self._scheduled = False
        if self._entries:
            self._schedule()
        now = time.monotonic()
        for key in [key for key, (deadline, _) in self._entries.items() if deadline <= now]:
            deadline, callback = self._entries.get(key, (math.inf, None))
            if callback and deadline <= now:  # otherwise an earlier callback removed or replaced it
                del self._entries[key]
                _call(callback)

    def _schedule(self) -> None:
        self._scheduled = True
        asyncio.get_running_loop().call_later(TICK_S, self._expire)


def _call(callback: Callable[[], object]) -> None:
    """Reports an exception to the event loop, so that the other callbacks still run."""
    try:
        callback()
    except Exception as error:
        context = {"message": "a deadline's callback failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)


async def cancel_and_wait(*tasks: "asyncio.Future[Any]") -> None:
    """Cancels tasks, and returns when they have ended, in whatever way."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class Timer:
    """One call that may be put off: for what seldom has a deadline, or needs it to the millisecond."""

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None

    @property
    def runs(self) -> bool:
        return self._handle is not None

    def start(self, seconds: float, callback: Callable[[], object]) -> None:
        """Calls `callback` after so many seconds, in place of what was started before."""
        self.stop()
        self._handle = asyncio.get_running_loop().call_later(seconds, callback)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class Cached(Generic[T]):
    """The last result of `make`. Concurrent callers share one run, which goes on if they are cancelled."""

    def __init__(self, make: Callable[[], Awaitable[T]], clock: Callable[[], float] = time.monotonic) -> None:
        self._make = make
        self._clock = clock
        self._run: asyncio.Task[T] | None = None
        self._made: tuple[T, float] | None = None  # and when
        self._failed_at = -math.inf

    async def get(self, age_max_s: float, failed_s: float = 0.0) -> T:
        """The result, made anew if it is that old. A failure is raised again for `failed_s` seconds, and
        leaves the result to those for whom it is not too old."""
        now = self._clock()
        if self._made is not None and now - self._made[1] < age_max_s:
            return self._made[0]
        if self._run is None or (self._run.done() and now - self._failed_at >= failed_s):
            self._run = asyncio.create_task(self._renew())
        return await asyncio.shield(self._run)

    async def _renew(self) -> T:
        try:
            made = await self._make()
        except Exception:
            self._failed_at = self._clock()
            raise
        self._made, self._failed_at = (made, self._clock()), -math.inf
        return made


class FlushQueue:
    """The write buffers that are not empty. Belongs to one event loop."""

    def __init__(self) -> None:
        self._buffers: list[WriteBuffer] = []

    def add(self, buffer: "WriteBuffer") -> None:
        """Flushes the buffer at the end of this event loop iteration."""
        if not self._buffers:
            asyncio.get_running_loop().call_soon(self._flush_all)
        self._buffers.append(buffer)

    def _flush_all(self) -> None:
        buffers, self._buffers = self._buffers, []
        for buffer in buffers:
            try:
                buffer.flush()
            except Exception as error:  # the other buffers are still flushed
                context = {"message": "a write buffer failed", "exception": error, "transport": buffer}
                asyncio.get_running_loop().call_exception_handler(context)
                buffer.abort()


class WriteBuffer(asyncio.Transport):
    """Buffers writes until the end of the event loop iteration. Has the methods of a transport that uvicorn
    and `http_client` use. `may_send` is called before buffered data is sent, which stays unsent if it returns
    False."""

    def __init__(
        self,
        transport: asyncio.Transport,
        queue: FlushQueue,
        may_send: Callable[[], bool] | None = None,
    ) -> None:
        self._transport = transport
        self._queue = queue
        self.may_send = may_send
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self.is_closing = transport.is_closing  # type: ignore[method-assign]  # called for each request
        self.pause_reading = transport.pause_reading  # type: ignore[method-assign]
        self.resume_reading = transport.resume_reading  # type: ignore[method-assign]
        self.get_extra_info = transport.get_extra_info  # type: ignore[method-assign]

    @property
    def unsent(self) -> bool:
        """True if a write of this iteration has not been flushed."""
        return bool(self._pending)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.is_closing():
            return
        if not self._pending:
            self._queue.add(self)
        self._pending.append(bytes(data))
        self._pending_bytes += len(data)
        if self._pending_bytes >= LARGE_BYTES:
            self.flush()

    def flush(self) -> None:
        """Passes the buffered data to the transport. On a closing transport it stays unsent."""
        if self._pending and not self.is_closing() and (self.may_send is None or self.may_send()):
            pending, self._pending, self._pending_bytes = self._pending, [], 0
            self._transport.writelines(pending)

    def get_write_buffer_size(self) -> int:
        return self._pending_bytes + self._transport.get_write_buffer_size()

    def close(self) -> None:
        """Sends the buffered data, then closes the connection."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Closes the connection immediately. Buffered data is lost."""
        self._pending = []
        self._pending_bytes = 0
        self._transport.abort()

    def flush_and_abort(self) -> None:
        """Closes the connection immediately. Buffered data is sent as far as the socket takes it now."""
        self.flush()
        self._transport.abort()
