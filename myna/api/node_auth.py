"""Authentication of compute nodes, and the limits on their concurrent requests, by node and by address."""

import asyncio
import contextlib
import hashlib
import sys
from collections.abc import Awaitable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec import Struct

from myna.accounts.throttle import KeyThrottle
from myna.errors import BodyTooLarge, BodyTooSlow, NodeRefused, NodeTooOld, Unavailable
from myna.farm.nodes import Nodes, credential_in
from myna.http.asgi import Handler
from myna.http.exchange import ResponseStream
from myna.http.request import Request
from myna.http.responses import Response
from myna.lib.shares import Shares
from myna.store.database import Database, in_time
from myna.store.queries.farm.nodes import NodeRow
from myna.wire.body import decode
from myna.wire.farm import PROTOCOL, PROTOCOL_HEADER, SLOTS_MAX, Join, Joined

T = TypeVar("T")
S = TypeVar("S", bound=Struct)

JOIN_BODY_MAX_BYTES = 4 * 1024
"""Limit on the body of a request without a credential."""
JOIN_BODY_TIMEOUT_S = 2.0
"""How long that body may take to arrive."""
PER_NODE_MAX = 2 * SLOTS_MAX
"""For each slot an upload or a download of a sample, and as many polls and heartbeats."""
PER_ADDRESS_MAX = 1024
"""High, since all nodes have the same address if the service is behind a proxy."""
JOINS_MAX = 64
"""Join requests of all addresses together."""
NO_CREDENTIAL = b"none"
"""Requests without a credential count as those of one node."""


@dataclass(eq=False)
class NodeAuth:
    """Authenticates nodes. Every request queries the database, so disabling a node takes effect at once.
    Unknown credentials and join tokens are throttled by address, as API keys are."""

    db: Database
    nodes: Nodes
    wait_s: float
    throttle: KeyThrottle

    async def verify(self, request: Request) -> NodeRow:
        """The node of the request's credential. Raises NodeTooOld, NodeRefused, RateLimited."""
        _check_protocol(request)
        header = request.authorization
        return await self._throttled(request, credential_in(header), self.nodes.verify(header))

    async def join(self, request: Request, body: Join) -> Joined:
        """The node of a join token. Raises NodeRefused, RateLimited."""
        return await self._throttled(request, body.token.encode(), self.nodes.join(body.token, body.version))

    async def _throttled(self, request: Request, secret: bytes, check: Coroutine[Any, Any, T]) -> T:
        """The result of the check, which raises NodeRefused for an unknown secret."""
        with contextlib.closing(check):
            use = self.throttle.begin(request.address, hashlib.sha256(secret).digest())
            try:
                found = await self.in_time(check)
            except NodeRefused:
                use.failed()
                raise
            use.verified()
            return found

    async def unauthenticated_body(self, request: Request, shape: type[S]) -> S:
        """The body of a request without a credential, within tighter limits."""
        _check_protocol(request)
        declared = request.declared_bytes
        if declared is None or declared > JOIN_BODY_MAX_BYTES:
            raise BodyTooLarge(JOIN_BODY_MAX_BYTES)
        try:
            async with asyncio.timeout(JOIN_BODY_TIMEOUT_S):
                body = await request.body()
        except TimeoutError:
            raise BodyTooSlow(JOIN_BODY_TIMEOUT_S) from None
        return decode(body, shape)[1]

    async def node_and_body(self, request: Request, shape: type[S]) -> tuple[NodeRow, S]:
        """The authenticated node and the decoded body."""
        node = await self.verify(request)
        return node, decode(await request.body(), shape)[1]

    async def in_time(self, query: Awaitable[T]) -> T:
        """The query's result. Raises DatabaseUnavailable after `wait_s`."""
        return await in_time(self.db, query, self.wait_s)


def _check_protocol(request: Request) -> None:
    if request.header(PROTOCOL_HEADER.encode()) != str(PROTOCOL).encode():
        raise NodeTooOld(PROTOCOL)


class ConcurrencyLimits:
    """Limits the requests to /farm/v1 in one process, by address and by credential. Join requests have no
    credential; they are counted separately, so that untrusted clients can't exhaust the limits of nodes."""

    def __init__(self) -> None:
        self._addresses: Shares[str] = _places("address", PER_ADDRESS_MAX)
        self._nodes: Shares[bytes] = _places("node", PER_NODE_MAX)
        self._joins: Shares[str] = _places("site", JOINS_MAX)

    def limited(self, handler: Handler) -> Handler:
        """`handler` that raises Unavailable if too many requests are being served."""

        async def serve(request: Request) -> Response | ResponseStream:
            credential = credential_in(request.authorization) or NO_CREDENTIAL
            with self._addresses.place(request.address or "unknown"), self._nodes.place(credential):
                return await handler(request)

        return serve

    def join(self) -> AbstractContextManager[None]:
        """A place for a join request whose body has arrived: a slow client holds none. Raises Unavailable if
        all are taken."""
        return self._joins.place("site")


def _places(kind: str, share: int) -> Shares[Any]:
    def refusal() -> Unavailable:
        return Unavailable(f"This {kind} has {share} requests open, the maximum; end some of them.")

    return Shares[Any](sys.maxsize, share, refusal)
