"""The pool: who may call now, over which connection, and what becomes of it afterwards."""

import asyncio
import os
import ssl
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Final

from myna.deadlines import Deadlines
from myna.outbound.connection import Accept, Answer, Connection, Sink
from myna.outbound.failures import Broken, TimedOut, Unreachable
from myna.outbound.target import Origin, target_of
from myna.sending import Turn

PREPARED_MAX: Final = 512


class Outbound:
    """Calls over at most `connections_max` connections, kept ones included; further calls wait in line."""

    def __init__(self, *, connections_max: int, connect_timeout_s: float = 5.0) -> None:
        self._max = connections_max
        self._connect_timeout_s = connect_timeout_s
        self._slots = asyncio.Semaphore(connections_max)
        self._target = lru_cache(maxsize=PREPARED_MAX)(target_of)
        self._idle: dict[Origin, list[Connection]] = {}
        self._open: set[Connection] = set()
        self._opening = 0
        self._turn, self._deadlines = Turn(), Deadlines()
        self._fewer = asyncio.Event()
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
    ) -> Answer:
        """Send `body` and return the answer whole, whatever its status.

        `deadline_s` counts waiting for a connection, connecting, sending and reading together. Raises
        OutboundFailed; ValueError for a method that isn't known here.
        """
        return await self._call(method, url, headers, body, deadline_s, answer_max_bytes, None, None)

    async def download(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        body: bytes | None,
        deadline_s: float,
        answer_max_bytes: int,
        sink: Sink,
        accept: Accept,
    ) -> Answer:
        """Like `request`, but pour the body into `sink` piece by piece, if `accept(status, headers)` is true.

        The answer's `body` is empty then. An answer that isn't wanted is read up to 64 KiB into `body`, and
        cut there. `sink` runs on the event loop, so it must be quick; what it raises ends the call and comes
        out.
        """
        return await self._call(method, url, headers, body, deadline_s, answer_max_bytes, sink, accept)

    async def close(self) -> None:
        """Close every connection; calls under way fail with Broken, later ones with Unreachable."""
        self._closed = True
        for connection in tuple(self._open):
            connection.fail(Broken("The client was closed."))
        while self._open:
            await self._next_loss()

    async def _call(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes | None,
        deadline_s: float,
        answer_max_bytes: int,
        sink: Sink | None,
        accept: Accept | None,
    ) -> Answer:
        target = self._target(method, url, tuple(headers.items()))
        if body is None and method in ("GET", "DELETE"):
            message = target.head + b"\r\n"
        else:
            message = b"%bContent-Length: %d\r\n\r\n%b" % (target.head, len(body or b""), body or b"")
        deadline = time.monotonic() + deadline_s
        await self._slot(deadline)
        try:
            connection = self._kept(target.origin) or await self._connect(target.origin, deadline)
            try:
                return await connection.exchange(message, deadline, answer_max_bytes, sink, accept)
            finally:
                self._put_back(target.origin, connection)
        finally:
            self._slots.release()

    async def _slot(self, deadline: float) -> None:
        """A place among the calls under way. Whoever has one has a right to one connection."""
        if not self._slots.locked():
            await self._slots.acquire()
            return
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                await self._slots.acquire()
        except TimeoutError:
            raise TimedOut("No connection came free within the call's time.") from None

    def _kept(self, origin: Origin) -> Connection | None:
        """The connection to `origin` that was used last, if it is still good."""
        now = time.monotonic()
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if connection.usable(now):
                return connection
            connection.abort()
        return None

    def _put_back(self, origin: Origin, connection: Connection) -> None:
        if not connection.reusable() or self._closed:
            return connection.abort()
        connection.idle_since = time.monotonic()
        self._idle.setdefault(origin, []).append(connection)
        return None

    async def _connect(self, origin: Origin, deadline: float) -> Connection:
        """A new connection; raises Unreachable when it takes longer than its own limit."""
        by = time.monotonic() + self._connect_timeout_s
        if self._closed:
            raise Unreachable("The client is closed.")
        try:
            async with asyncio.timeout(min(deadline, by) - time.monotonic()):
                await self._make_room()
                return await self._open_one(origin)
        except TimeoutError:
            if deadline <= by:
                raise TimedOut(f"{origin} was not connected within the call's time.") from None
            raise Unreachable(f"{origin} didn't connect within {self._connect_timeout_s:g} s.") from None
        except (OSError, UnicodeError) as fault:
            raise Unreachable(f"{origin} can't be reached: {_reason(fault)}.") from fault

    async def _make_room(self) -> None:
        """Close the longest idle connections until one more fits; waits for none that is in use."""
        while len(self._open) + self._opening >= self._max:
            pools = [pool for pool in self._idle.values() if pool]
            if pools:
                min(pools, key=lambda pool: pool[0].idle_since).pop(0).abort()
            await self._next_loss()

    async def _open_one(self, origin: Origin) -> Connection:
        self._opening += 1
        try:
            context = await self._trust() if origin.secure else None
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: Connection(str(origin), self._turn, self._deadlines, self._lost),
                origin.host,
                origin.port,
                ssl=context,
            )
        finally:
            self._opening -= 1
        if not connection.gone:
            self._open.add(connection)
        if self._closed:
            connection.abort()
            raise Unreachable("The client is closed.")
        return connection

    async def _trust(self) -> ssl.SSLContext:
        """The system's roots, read once, off the loop: it takes tens of milliseconds."""
        if self._tls is None:
            context = await asyncio.to_thread(ssl.create_default_context)
            context.set_alpn_protocols(["http/1.1"])
            self._tls = context
        return self._tls

    def _lost(self, connection: Connection) -> None:
        self._open.discard(connection)
        for pool in self._idle.values():
            with suppress(ValueError):
                pool.remove(connection)
        self._fewer.set()

    async def _next_loss(self) -> None:
        self._fewer.clear()
        await self._fewer.wait()


def _reason(fault: OSError | UnicodeError) -> str:
    """Why there is no connection; without the address, which asyncio writes into an error of its own."""
    if type(fault) is OSError or isinstance(fault, ConnectionError):
        return os.strerror(fault.errno) if fault.errno else str(fault)
    return getattr(fault, "strerror", None) or str(fault)
