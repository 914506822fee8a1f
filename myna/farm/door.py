"""From the headers of a node's request to the node."""

from collections.abc import Awaitable
from typing import TypeVar

from msgspec import Struct

from myna.edge import Request
from myna.errors import BodyTooLarge, NodeTooOld
from myna.nodes import Nodes
from myna.store.database import Database, in_time
from myna.store.nodes import NodeRow
from myna.wire.body import decode
from myna.wire.farm import PROTOCOL, PROTOCOL_HEADER

T = TypeVar("T")
S = TypeVar("S", bound=Struct)

STRANGERS_BYTES = 4 * 1024
"""The largest body that is read of somebody who has shown nothing yet."""


class Door:
    """Who may pass. Looks at the database for every request: a node that is disabled now is refused now."""

    def __init__(self, db: Database, nodes: Nodes, wait_s: float) -> None:
        self._db, self._nodes, self._wait_s = db, nodes, wait_s

    async def node(self, request: Request) -> NodeRow:
        """The node whose credential the request shows. Raises NodeTooOld, NodeRefused."""
        _check_protocol(request)
        return await self.wait(self._nodes.verify(request.authorization))

    async def stranger(self, request: Request, shape: type[S]) -> S:
        """What somebody without a credential says, in few words."""
        _check_protocol(request)
        declared = request.declared_bytes
        if declared is None or declared > STRANGERS_BYTES:
            raise BodyTooLarge(STRANGERS_BYTES)
        return decode(await request.body(), shape)[1]

    async def asked(self, request: Request, shape: type[S]) -> tuple[NodeRow, S]:
        """The node and what it says."""
        node = await self.node(request)
        return node, decode(await request.body(), shape)[1]

    async def wait(self, query: Awaitable[T]) -> T:
        """Waits for the database, for so long. Raises DatabaseAway."""
        return await in_time(self._db, query, self._wait_s)


def _check_protocol(request: Request) -> None:
    if request.header(PROTOCOL_HEADER.encode()) != str(PROTOCOL).encode():
        raise NodeTooOld(PROTOCOL)
