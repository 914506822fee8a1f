"""The connection pool: limits concurrent calls and reuses idle connections.

HTTP/1.1 responses have no request id: on one connection, the next bytes received are the response to the next
request. An upstream that repeats a response, or sends a part of it late, breaks that rule. Its bytes must
never reach another caller.

- A connection is reused `reuse_after_s` after its last response at the earliest. Bytes that follow a response
  within that time are in the kernel before the next request is sent, and are detected there: see
  `ClientConnection`.
- After an origin has sent unexpected bytes, it is used without keep-alive for DISTRUST_S.

Bytes that arrive later than that, and after the next request was sent on the same connection, can't be told
from its response. docs/decisions/0008-reused-connections.md has what this costs.
"""

import asyncio
import errno
import logging
import math
import os
import ssl
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from myna.http.client.connection import (
    READ_MAX_BYTES,
    Accept,
    ClientConnection,
    ClientResponse,
    Exchange,
    NotSent,
    Sink,
)
from myna.http.client.errors import ConnectionBroken, OutOfFiles, TimedOut, Unreachable
from myna.http.client.flow import Flow
from myna.http.client.target import Origin, target_of
from myna.lib.aio import FlushQueue, Timeouts
from myna.lib.shares import Shares
from myna.lib.telemetry.logs import trace_lines

REUSE_AFTER_S: Final = 0.025
DISTRUST_S: Final = 600.0
# Servers close idle connections after 5 s at the earliest (Node's and uvicorn's default); we close before.
IDLE_MAX_S: Final = 4.0

log = logging.getLogger(__name__)


class IdleConnections:
    """The idle connections of one client, for each origin from the longest to the shortest idle."""

    def __init__(self, reuse_after_s: float = REUSE_AFTER_S) -> None:
        self._reuse_after_s = reuse_after_s
        self._idle: dict[Origin, dict[ClientConnection, None]] = {}
        self._distrusted: dict[Origin, float] = {}

    def put(self, connection: ClientConnection) -> None:
        """Keeps a connection after its call if it may be reused, or closes it."""
        now = time.monotonic()
        if connection.stray:
            self._disable_keep_alive(connection.origin, now)
        if not connection.reusable() or now < self._distrusted.get(connection.origin, 0.0):
            return connection.abort()
        connection.idle_since = now
        self._idle.setdefault(connection.origin, {})[connection] = None
        return None

    def take(self, origin: Origin) -> ClientConnection | None:
        """Removes and returns the connection that is idle longest; None if none may be reused now."""
        idle = self._idle.get(origin)
        now = time.monotonic()
        while idle:
            connection = next(iter(idle))
            if now < connection.idle_since + self._reuse_after_s:
                return None
            del idle[connection]
            if connection.open and now < connection.idle_since + IDLE_MAX_S:
                return connection
            connection.abort()
        return None

    def close_oldest(self) -> None:
        """Closes the connection that is idle longest, if there is one."""
        firsts = [next(iter(idle)) for idle in self._idle.values() if idle]
        if firsts:
            connection = min(firsts, key=lambda each: each.idle_since)
            del self._idle[connection.origin][connection]
            connection.abort()

    def discard(self, connection: ClientConnection) -> None:
        """Forgets a closed connection."""
        self._idle.get(connection.origin, {}).pop(connection, None)
        if connection.stray:
            self._disable_keep_alive(connection.origin, time.monotonic())

    def _disable_keep_alive(self, origin: Origin, now: float) -> None:
        if now >= self._distrusted.get(origin, 0.0):
            log.warning("%s sent unexpected bytes; no keep-alive for %d s", origin, DISTRUST_S)
        self._distrusted[origin] = now + DISTRUST_S
        for connection in self._idle.pop(origin, {}):
            connection.abort()


PREPARED_MAX: Final = 512
_ANYBODY: Final = ""
"""A holder without a share: the slots are given in the order of the calls."""


def _no_slot() -> TimedOut:
    return TimedOut("No connection was free before the call's deadline.")


class HttpClient:
    """Opens at most `connections_max` connections, idle ones included; further calls are queued.

    A call fails with Unreachable if connecting takes longer than `connect_timeout_s`, with IdleTimedOut if
    the server sends nothing for `idle_s`, before its response or within it. `reuse_after_s`: see above.
    """

    def __init__(
        self,
        *,
        connections_max: int,
        connect_timeout_s: float = 5.0,
        idle_s: float = math.inf,
        reuse_after_s: float = REUSE_AFTER_S,
    ) -> None:
        self._max = connections_max
        self._connect_timeout_s = connect_timeout_s
        self._idle_s = idle_s
        self._slots = Shares[str](connections_max, connections_max, _no_slot)
        self._target = lru_cache(maxsize=PREPARED_MAX)(target_of)
        self._idle = IdleConnections(reuse_after_s)
        self._open: set[ClientConnection] = set()
        self._opening = 0
        self._flush_queue = FlushQueue()
        self._timeouts = Timeouts()
        self._buffer = memoryview(bytearray(READ_MAX_BYTES))
        self._closed_one = asyncio.Event()
        self._tls: ssl.SSLContext | None = None
        self._closed = False

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        deadline_s: float,
        answer_max_bytes: int,
        sink: Sink | None = None,
        accept: Accept | None = None,
        flow: Flow | None = None,
    ) -> ClientResponse:
        """Sends `body` and returns the whole response, of any status.

        With a `sink`, the body goes there piece by piece if `accept(status, headers)` is true; the response's
        `body` is empty then, and any other response's body is truncated to 64 KiB. Both run on the event loop
        and must not block. An exception that one raises ends the call and is raised. `flow` pauses the
        reading of the body.

        A request that is made for a caller's has the id of that one. `deadline_s` covers waiting for a
        connection, connecting, sending and reading. Raises RequestFailed; ValueError for an unknown method.
        """
        target = self._target(method, url, tuple(headers.items()))
        head = target.head + trace_lines().encode()  # another one for each request: it would fill the cache
        if body is None and method in ("GET", "DELETE"):
            message = head + b"\r\n"
        else:
            message = b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body or b""), body or b"")
        call = Exchange(
            message=message,
            deadline=time.monotonic() + deadline_s,
            idle_s=self._idle_s,
            answer_max_bytes=answer_max_bytes,
            sink=sink,
            accept=accept,
            flow=flow,
        )
        # A slot allows one connection.
        if not self._slots.try_take(_ANYBODY):
            await self._slots.wait_for(_ANYBODY, call.deadline - time.monotonic())
        try:
            while True:
                idle = self._idle.take(target.origin)
                connection = idle or await self._connect(target.origin, call.deadline)
                try:
                    return await connection.exchange(call)
                except NotSent:
                    if idle is None:
                        raise
                finally:
                    self._release(connection)
        finally:
            self._slots.release(_ANYBODY)

    async def close(self) -> None:
        """Closes all connections. Calls in progress raise ConnectionBroken, later ones Unreachable."""
        self._closed = True
        for connection in tuple(self._open):
            connection.fail(ConnectionBroken("The client was closed."))
        while self._open:
            await self._wait_for_close()

    def _release(self, connection: ClientConnection) -> None:
        if self._closed:
            connection.abort()
        else:
            self._idle.put(connection)

    async def _connect(self, origin: Origin, deadline: float) -> ClientConnection:
        """Opens a connection. Raises Unreachable, also after `connect_timeout_s`, or TimedOut."""
        connect_by = time.monotonic() + self._connect_timeout_s
        if self._closed:
            raise Unreachable("The client is closed.")
        try:
            async with asyncio.timeout(min(deadline, connect_by) - time.monotonic()):
                await self._make_room()
                return await self._open_connection(origin)
        except TimeoutError:
            if deadline <= connect_by:
                raise TimedOut(f"{origin} was not connected before the call's deadline.") from None
            raise Unreachable(f"{origin} didn't connect within {self._connect_timeout_s:g} s.") from None
        except (OSError, UnicodeError) as error:
            if _is_out_of_files(error):
                raise OutOfFiles(
                    f"{origin} can't be reached: this process has too many open files."
                ) from error
            raise Unreachable(f"{origin} can't be reached: {_reason(error)}.") from error

    async def _make_room(self) -> None:
        """Closes the longest idle connections until one more is allowed."""
        while len(self._open) + self._opening >= self._max:
            self._idle.close_oldest()
            await self._wait_for_close()

    async def _open_connection(self, origin: Origin) -> ClientConnection:
        self._opening += 1
        try:
            context = await self._tls_context() if origin.secure else None
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: ClientConnection(
                    origin=origin,
                    flush_queue=self._flush_queue,
                    timeouts=self._timeouts,
                    buffer=self._buffer,
                    on_closed=self._connection_closed,
                ),
                origin.host,
                origin.port,
                ssl=context,
            )
        finally:
            self._opening -= 1
        if connection.open:
            self._open.add(connection)
        if self._closed:
            connection.abort()
            raise Unreachable("The client is closed.")
        return connection

    async def _tls_context(self) -> ssl.SSLContext:
        """The system's root certificates. Loaded once, in a thread: it takes tens of milliseconds."""
        if self._tls is None:
            context = await asyncio.to_thread(ssl.create_default_context)
            context.set_alpn_protocols(["http/1.1"])
            self._tls = context
        return self._tls

    def _connection_closed(self, connection: ClientConnection) -> None:
        self._open.discard(connection)
        self._idle.discard(connection)
        self._closed_one.set()

    async def _wait_for_close(self) -> None:
        self._closed_one.clear()
        await self._closed_one.wait()


def _is_out_of_files(error: OSError | UnicodeError) -> bool:
    """Whether a file descriptor was missing. A resolver that can't open its files does not say so."""
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return True
    try:
        os.close(os.dup(0))
    except OSError as full:
        return full.errno in (errno.EMFILE, errno.ENFILE)
    return False


def _reason(error: OSError | UnicodeError) -> str:
    """The error without the address, which asyncio adds to the message of an OSError."""
    if type(error) is OSError or isinstance(error, ConnectionError):
        return os.strerror(error.errno) if error.errno else str(error)
    return getattr(error, "strerror", None) or str(error)
