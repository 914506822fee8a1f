"""What the connections of one process share, and how many of them may wait for clients of one address."""

import math
from typing import Final
from weakref import WeakValueDictionary

import uvicorn
from msgspec import Struct

from myna.errors import Overloaded
from myna.http.client_address import TrustedProxies
from myna.lib.aio import FlushQueue, Timeouts
from myna.lib.net import client_network

ADDRESS_SHARE: Final = 2
"""Half of all connections may wait for one address."""
ADDRESS_MIN: Final = 16
RETRY_AFTER_S: Final = 1


class Waiting(Struct, eq=False, weakref=True):
    """How many connections from one address wait for their client, and how many may."""

    most: float
    count: int = 0


class WaitingConnections:
    """The connections that wait for their client: for a request, the rest of its head, or of its body. Those
    of trusted proxies have no limit of their own."""

    def __init__(self, connections_max: int, proxies: TrustedProxies | None = None) -> None:
        self._proxies = proxies
        self._most = max(ADDRESS_MIN, connections_max // ADDRESS_SHARE)
        self._waiting = WeakValueDictionary[str, Waiting]()

    @staticmethod
    def refusal() -> Overloaded:
        """The error for a connection whose address has too many of them."""
        return Overloaded(
            "This address has as many connections without a request as it may have; close some.",
            RETRY_AFTER_S,
        )

    def of(self, address: str) -> Waiting:
        """Those from this address, or its network. The connections from there keep it."""
        trusted = self._proxies is not None and self._proxies.trusts(address)
        if trusted or not address:
            return Waiting(math.inf)
        return self._waiting.setdefault(client_network(address) or address, Waiting(self._most))


class ServerConfig(uvicorn.Config):
    """uvicorn's configuration, and the state that the connections of one process share.

    `drain_s` is how long calls are still taken after the process was told to end, and `grace_s` how long they
    may take after that. `over_limit_count` is the number
    of open connections that may only check the health.
    """

    connections_max: int
    drain_s: int
    grace_s: float
    base_url: str
    flush_queue: FlushQueue
    keep_alive_timeouts: Timeouts
    trusted_proxies: str
    waiting: WaitingConnections
    """Of a worker, made at its start: the rest is sent to it."""
    over_limit_count = 0
    draining = False
    stopping = False
