"""A raw HTTP server on the loopback with the faults of real servers.

It transfers bytes, not HTTP: a behaviour gets each connection and reads and writes as it likes. Requests are
recorded, so that a test can check how often one was sent and over how many connections.
"""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from tests.rig.waiting import SOON_S


class Received(NamedTuple):
    """A received request."""

    head: str
    body: bytes

    @property
    def line(self) -> str:
        return self.head.partition("\r\n")[0]

    def header(self, name: str) -> str | None:
        """The value of the header `name`, None where it is missing."""
        for line in self.head.split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return None


class PeerConnection:
    """One connection, passed to a behaviour."""

    def __init__(
        self, server: "FaultyServer", reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._server = server
        self._reader = reader
        self._writer = writer
        self.number = server.accepted

    async def receive(self) -> Received | None:
        """The next request, None when the client has closed."""
        try:
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            request = Received(head, b"")
            body = await self._reader.readexactly(int(request.header("content-length") or 0))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        self._server.note(Received(head, body))
        return Received(head, body)

    async def send(self, data: bytes) -> None:
        """Writes; raises ConnectionError once the client has disconnected."""
        if not self._writer.transport.is_closing():  # uvloop raises RuntimeError for a closed one
            self._writer.write(data)
            await self._writer.drain()
        if self._writer.transport.is_closing():
            raise ConnectionResetError

    async def until_the_client_disconnects(self) -> None:
        """Reads until the connection ends, by FIN or RST."""
        with suppress(ConnectionError):
            while await self._reader.read(65_536):
                continue


Behaviour = Callable[[PeerConnection], Awaitable[None]]


class FaultyServer:
    """Listens at `url` from the start; `behaviour` has each connection until it returns, which closes it."""

    def __init__(self, behaviour: Behaviour, tls: ssl.SSLContext | None = None) -> None:
        self._behaviour = behaviour
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self._listener.setblocking(False)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1/things"
        self.requests: list[Received] = []
        self.accepted = 0
        self.open = 0
        self.open_peak = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._changed = asyncio.Event()
        self._server = asyncio.ensure_future(self._start())

    async def until(self, condition: Callable[[], bool]) -> None:
        """Waits for `condition()`, checked whenever a connection or a request begins or ends."""
        async with asyncio.timeout(SOON_S):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    async def close(self) -> None:
        """Close everything, and wait until the last behaviour has returned."""
        server = await self._server
        server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self.until(lambda: self.open == 0)

    def note(self, request: Received) -> None:
        self.requests.append(request)
        self._changed.set()

    async def _start(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, sock=self._listener, ssl=self._tls)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.accepted += 1
        self.open += 1
        self.open_peak = max(self.open_peak, self.open)
        self._changed.set()
        try:
            with suppress(ConnectionError):  # the client disconnected, as in most tests here
                await self._behaviour(PeerConnection(self, reader, writer))
        finally:
            writer.close()
            self._writers.discard(writer)
            self.open -= 1
            self._changed.set()


def answer(body: bytes = b"{}", status: str = "200 OK", *headers: str) -> bytes:
    """A complete answer with a correct Content-Length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body


def answering(data: bytes) -> Behaviour:
    """Answers every request of a connection with `data`."""

    async def behave(peer: PeerConnection) -> None:
        while await peer.receive():
            await peer.send(data)

    return behave


def once(data: bytes) -> Behaviour:
    """Answers with `data` and closes."""

    async def behave(peer: PeerConnection) -> None:
        await peer.receive()
        await peer.send(data)

    return behave


def endless(start: bytes, again: bytes) -> Behaviour:
    """Sends `start`, then `again` until the client disconnects."""

    async def behave(peer: PeerConnection) -> None:
        await peer.receive()
        await peer.send(start)
        while True:
            await peer.send(again)

    return behave


def dripping(start: bytes, drop: bytes, every_s: float) -> Behaviour:
    """Sends `start`, then a `drop` each `every_s` seconds, so that the connection is never idle."""

    async def behave(peer: PeerConnection) -> None:
        await peer.receive()
        await peer.send(start)
        disconnected = asyncio.ensure_future(peer.until_the_client_disconnects())
        while not (await asyncio.wait([disconnected], timeout=every_s))[0]:
            await peer.send(drop)

    return behave


async def silent(peer: PeerConnection) -> None:
    """Reads the request and never answers."""
    await peer.receive()
    await peer.until_the_client_disconnects()


async def disconnecting(peer: PeerConnection) -> None:
    """Reads the request and closes without an answer."""
    await peer.receive()
