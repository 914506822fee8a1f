"""The server inside the test, so that its patience can be made short: real sockets, a small application."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from myna.http import server
from myna.http.asgi import Application, Request, Response
from myna.http.asgi_types import Message, Receive, Scope, Send
from myna.http.body_limits import BodyBudget, BodyLimits
from myna.settings import Settings
from myna.telemetry.access_log import AccessLog
from tests.rig.waiting import free_port

WAIT_S = 60


@dataclass
class House:
    """A running server. `/held` answers after `release`, `/until-gone` when its client is gone, `/large` with
    8 MB, `/body` with its body's size."""

    server: server.Server
    port: int
    budget: BodyBudget
    release: asyncio.Event = field(default_factory=asyncio.Event)
    begun: int = 0
    lines: list["Line"] = field(default_factory=list)

    async def held(self, request: Request) -> Response:
        self.begun += 1
        await self.release.wait()
        return Response(b"done")

    async def until_gone(self, request: Request) -> Response:
        self.begun += 1
        await request.part()
        await request.disconnected()
        return Response(b"gone")

    async def large(self, request: Request) -> Response:
        return Response(b"x" * 8_000_000)

    async def body(self, request: Request) -> Response:
        return Response(b"%d" % len(await request.body()))

    async def held_body(self, request: Request) -> Response:
        """Holds its body until `release`."""
        size_bytes = len(await request.body())
        self.begun += 1
        await self.release.wait()
        return Response(b"%d" % size_bytes)

    async def broken(self, request: Request) -> Response:
        await request.body()
        raise RuntimeError("a handler that fails")

    async def connect(self) -> "Line":
        self.lines.append(Line(*await asyncio.open_connection("127.0.0.1", self.port)))
        return self.lines[-1]

    @property
    def connections(self) -> int:
        return len(self.server.server_state.connections)


@dataclass
class Line:
    """A bare connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    def ask(self, path: str = "/held", method: str = "GET", lines: bytes = b"") -> None:
        self.send(b"%b %b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (method.encode(), path.encode(), lines))

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of the next answer."""
        async with asyncio.timeout(WAIT_S):
            head = await self.reader.readuntil(b"\r\n\r\n")
            fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:] if line)
            body = await self.reader.readexactly(int(fields[b"content-length"]))
        return int(head.split(b" ")[1]), body

    async def hang_up(self) -> None:
        self.writer.transport.abort()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()

    def reset(self) -> None:
        """Ends it as a crashed client's machine does."""
        at_once = struct.pack("ii", 1, 0)
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.writer.transport.abort()

    async def is_hung_up_on(self) -> bool:
        """Raises TimeoutError where the server neither says something nor closes."""
        try:
            async with asyncio.timeout(WAIT_S):
                return await self.reader.read(1) == b""
        except ConnectionError:
            return True


async def _fallback(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        for step in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{step}.complete"})
        return
    await send({"type": "http.response.start", "status": 204, "headers": []})
    last: Message = {"type": "http.response.body", "body": b""}
    await send(last)


@contextlib.asynccontextmanager
async def housed(
    bodies_max_bytes: int = 2**24, body_timeout_s: float = 600.0, **settings: Any
) -> AsyncIterator[House]:
    """A house that stands as long as the block."""
    chosen = Settings(port=free_port(), **settings)
    routes: dict[str, dict[str, Any]] = {}
    limits = BodyLimits(2**20, body_timeout_s, BodyBudget(bodies_max_bytes))
    app = Application(routes, _fallback, limits, AccessLog(len))
    running = server.Server(server.configure(app, chosen))
    house = House(running, chosen.port, limits.budget)
    routes |= {
        "/held": {"GET": house.held, "POST": house.held},
        "/until-gone": {"GET": house.until_gone},
        "/held-body": {"POST": house.held_body},
        "/broken": {"POST": house.broken},
        "/large": {"GET": house.large},
        "/body": {"POST": house.body},
    }
    task = asyncio.create_task(running.serve(sockets=[server.listen(chosen)]))
    await until(lambda: running.started)
    try:
        yield house
    finally:
        house.release.set()
        running.should_exit = True
        for line in house.lines:
            await line.hang_up()
        await task


async def until(condition: Callable[[], bool]) -> None:
    """Raises TimeoutError unless it becomes true in time."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110 - nothing in the server tells of it
            await asyncio.sleep(0.005)
