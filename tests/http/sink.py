"""A connection of the server without a socket: what a client sends is given to it in this process."""

import asyncio
import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from uvicorn.server import ServerState

from myna.http import server
from myna.http.asgi_types import Receive, Scope, Send
from myna.http.connection import Protocol
from myna.http.server_config import WaitingConnections
from myna.settings import Settings


class Sink(asyncio.Transport):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = False
        self.written = b""

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, lines: Iterable[Any]) -> None:
        self.written += b"".join(lines)

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        """There is nothing to read."""

    def resume_reading(self) -> None:
        """Likewise."""

    def get_write_buffer_size(self) -> int:
        return 0


async def _silent(scope: Scope, receive: Receive, send: Send) -> None:
    """An application that never answers."""
    await asyncio.Event().wait()


_config = server.configure(_silent, Settings())
_config.waiting = WaitingConnections(_config.connections_max, None)


@contextlib.contextmanager
def connected(transport: Sink) -> Iterator[Protocol]:
    """A connection over this transport, to an application that never answers; it is lost at the end."""
    if not _config.loaded:
        _config.load()
    state = ServerState()
    protocol = Protocol(_config, state, {})
    protocol.connection_made(transport)
    try:
        yield protocol
    finally:
        transport.abort()
        for task in state.tasks:
            task.cancel()
        protocol.connection_lost(None)
