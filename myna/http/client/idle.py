"""Idle connections: which one the next call may reuse, and when none may be reused.

HTTP/1.1 responses have no request id: on one connection, the next bytes received are the response to the next
request. An upstream that repeats a response, or sends a part of it late, breaks that rule. Its bytes must
never reach another caller.

- A connection is reused `reuse_after_s` after its last response at the earliest. Bytes that follow a response
  within that time are in the kernel before the next request is sent, and are detected there: see
  `connection.Guarded`.
- After an origin has sent unexpected bytes, it is used without keep-alive for DISTRUST_S.

Bytes that arrive later than that, and after the next request was sent on the same connection, can't be told
from its response. docs/decisions/0008-reused-connections.md has what this costs.
"""

import logging
import time
from typing import Final

from myna.http.client.connection import ClientConnection
from myna.http.client.target import Origin

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
