"""Limits on concurrent requests per node and per address."""

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from myna.errors import Unavailable
from myna.farm.nodes import credential_in
from myna.http.asgi import Handler
from myna.http.request import Request
from myna.http.responses import Response
from myna.http.stream import ResponseStream
from myna.wire.farm import SLOTS_MAX

T = TypeVar("T")

PER_NODE_MAX = 2 * SLOTS_MAX
"""For each slot an upload or a download of a sample, and as many polls and heartbeats."""
PER_ADDRESS_MAX = 1024
"""High, since all nodes have the same address if the service is behind a proxy."""
JOINS_MAX = 64
"""Join requests of all addresses together."""


class ConcurrencyLimits:
    """Counts the requests to /farm/v1 in one process, by address and by credential. Join requests have no
    credential; they are counted separately, so that untrusted clients can't exhaust the limits of nodes."""

    def __init__(self) -> None:
        self._addresses: Counter[str] = Counter()
        self._nodes: Counter[bytes] = Counter()
        self._joins: Counter[str] = Counter()

    def limited(self, handler: Handler) -> Handler:
        """`handler` that raises Unavailable if too many requests are being served."""

        async def serve(request: Request) -> Response | ResponseStream:
            with (
                _slot(self._addresses, request.address, PER_ADDRESS_MAX, "address"),
                _slot(self._nodes, credential_in(request.authorization), PER_NODE_MAX, "node"),
            ):
                return await handler(request)

        return serve

    def join(self) -> AbstractContextManager[None]:
        """A place for a join request whose body has arrived: a slow client holds none. Raises Unavailable if
        all are taken."""
        return _slot(self._joins, "", JOINS_MAX, "site")


@contextmanager
def _slot(counts: Counter[T], key: T, limit: int, kind: str) -> Iterator[None]:
    if counts[key] >= limit:
        raise Unavailable(f"This {kind} has {limit} requests open, the maximum; end some of them.")
    counts[key] += 1
    try:
        yield
    finally:
        counts[key] -= 1
        if not counts[key]:
            del counts[key]
