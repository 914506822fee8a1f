"""A server in the process of the test, so that its timeouts can be patched. It has real sockets."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from myna.http import server
from myna.http.asgi import Application
from myna.http.exchange import EXCHANGE
from myna.http.request import BodyBudget, BodyLimits, Request
from myna.http.request_head import Message, Receive, Scope, Send
from myna.http.responses import Response
from myna.lib.telemetry.access_log import AccessLog
from myna.settings import Settings
from tests.rig.waiting import free_port, until

WAIT_S = 60


@dataclass
class LocalServer:
    """A running server with a few routes.

    `/blocked` answers after `release`, `/until-disconnected` when its client has disconnected,
    `/large` with 8 MB, `/body` with the size of its body.
    """

    server: server.Server
    port: int
    budget: BodyBudget
    logged: list[bytes]
    release: asyncio.Event = field(default_factory=asyncio.Event)
    started: int = 0
    connections_opened: list["RawConnection"] = field(default_factory=list)

    async def block(self, request: Request) -> Response:
        self.started += 1
        await self.release.wait()
        return Response(b"done")

    async def until_disconnected(self, request: Request) -> Response:
        self.started += 1
        await request.body()
        await request.disconnected()
        return Response(b"disconnected")

    async def large(self, request: Request) -> Response:
        return Response(b"x" * 8_000_000)

    async def body(self, request: Request) -> Response:
        return Response(b"%d" % len(await request.body()))

    async def block_body(self, request: Request) -> Response:
        """Keeps its body in memory until `release`."""
        size_bytes = len(await request.body())
        self.started += 1
        await self.release.wait()
        return Response(b"%d" % size_bytes)

    async def broken(self, request: Request) -> Response:
        await request.body()
        raise RuntimeError("a handler that fails")

    async def connect(self, address: str = "127.0.0.1") -> "RawConnection":
        opened = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0))
        self.connections_opened.append(RawConnection(*opened))
        return self.connections_opened[-1]

    def has_started(self, count: int) -> bool:
        """Whether so many calls have begun."""
        return self.started == count

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)


@dataclass
class RawConnection:
    """A connection that sends and receives bytes as they are."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def ask(self, path: str = "/blocked", method: str = "GET", lines: bytes = b"") -> None:
        self.send(b"%b %b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (method.encode(), path.encode(), lines))

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer."""
        async with asyncio.timeout(WAIT_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if line)
            body = await self.reader.readexactly(int(fields[b"content-length"]))
        return int(head.split(b" ")[1]), body

    async def disconnect(self) -> None:
        self.writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    def reset(self) -> None:
        """Closes the connection with a RST, as a crashed machine does."""
        at_once = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.writer.transport.abort()

    async def is_closed(self) -> bool:
        """Whether the server closes without another byte. Raises TimeoutError if it does neither."""
        try:
            return await asyncio.wait_for(self.reader.read(1), WAIT_S) == b""
        except ConnectionError:
            return True


async def _fallback(scope: Scope, receive: Receive, send: Send) -> None:
    """Answers `/streamed` by a stream, which is incomplete after `/streamed?fails`, and the rest with 204."""
    if scope["type"] == "lifespan":
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})
        return
    if scope["path"] == "/streamed":
        stream = scope[EXCHANGE].stream()
        stream.start({}, b"text/event-stream")
        stream.write(b"one")
        if scope["query_string"]:
            raise RuntimeError("a page that fails")
        stream.end()
        return
    await send({"type": "http.response.start", "status": 204, "headers": []})
    last: Message = {"type": "http.response.body", "body": b""}
    await send(last)


@contextlib.asynccontextmanager
async def local_server(
    bodies_max_bytes: int = 2**24, body_timeout_s: float = 600.0, **settings: Any
) -> AsyncIterator[LocalServer]:
    """Starts a server and stops it at the end of the block."""
    chosen = Settings(port=free_port(), **settings)
    routes: dict[str, dict[str, Any]] = {}
    logged: list[bytes] = []
    limits = BodyLimits(2**20, body_timeout_s, BodyBudget(bodies_max_bytes))
    app = Application(routes=routes, fallback=_fallback, limits=limits, access=AccessLog(logged.append))
    running = server.Server(server.configure(app, chosen))
    local = LocalServer(running, chosen.port, limits.budget, logged)
    routes |= {
        "/blocked": {"GET": local.block, "POST": local.block},
        "/until-disconnected": {"GET": local.until_disconnected},
        "/blocked-body": {"POST": local.block_body},
        "/broken": {"POST": local.broken},
        "/large": {"GET": local.large},
        "/body": {"POST": local.body},
    }
    task = asyncio.create_task(running.serve(sockets=server.listen(chosen)))
    await until(lambda: running.started)
    try:
        yield local
    finally:
        local.release.set()
        running.should_exit = True
        for connection in local.connections_opened:
            await connection.disconnect()
        await task
