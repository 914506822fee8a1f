"""A wire to PostgreSQL that can lose an answer: the server did what it was told, and nobody hears of it. Or
no bytes come through any more."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit


class Cutter:
    """Passes bytes on. After `lose_next_answer` the server's next bytes are dropped and the wire is cut."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 0)
        self._parts = parts
        self._losing = False
        self._awaited: bytes | None = None
        self._refused: bytes | None = None
        self._muted: bytes | None = None
        self._accepting = True
        self._muting: bytes | None = None
        self._clients: list[asyncio.StreamWriter] = []
        self._passing: set[asyncio.Task[None]] = set()
        self._mute = 0
        self.lost = 0
        self.url = ""

    def lose_next_answer(self) -> None:
        self._losing = True

    def cut(self) -> None:
        """Cuts all wires now. What the server does goes on."""
        for client in self._clients:
            client.transport.abort()
        self._clients.clear()

    def mute(self) -> None:
        """From now on no bytes come through the wires that are there; new ones work."""
        self._mute += 1

    def lose_answer_to(self, request: bytes) -> None:
        """The answer that is lost is the one behind the next message with this text in it."""
        self._awaited = request

    def cut_before(self, request: bytes) -> None:
        """The next message with this text in it doesn't get through: its wire is cut."""
        self._refused = request

    def mute_before(self, request: bytes) -> None:
        """The next message with this text in it doesn't get through, nor does anything else from then on by
        the wires that are there."""
        self._muted = request

    def refuse(self) -> None:
        """No new wires."""
        self._accepting = False

    def mute_behind(self, request: bytes) -> None:
        """The next message with this text in it gets through, and its answer doesn't: then the wires that are
        there are mute."""
        self._muting = request

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passing = asyncio.create_task(self._pass(reader, writer))
        self._passing.add(passing)
        passing.add_done_callback(self._passing.discard)

    async def close(self) -> None:
        for passing in self._passing:
            passing.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._accepting:
            writer.transport.abort()
            return
        server_reader, server_writer = await asyncio.open_connection(*self._target)
        self._clients.append(writer)
        try:
            with contextlib.suppress(ConnectionError):
                await asyncio.gather(self._up(reader, server_writer), self._down(server_reader, writer))
        finally:
            server_writer.transport.abort()
            writer.transport.abort()
            await asyncio.sleep(0)

    async def _up(self, client: asyncio.StreamReader, server: asyncio.StreamWriter) -> None:
        born = self._mute
        while data := await client.read(65536):
            if self._mute != born:
                continue
            if self._refused and self._refused in data:
                self._refused = None
                break
            if self._muted and self._muted in data:
                self._muted = None
                self.mute()
                continue
            if self._awaited and self._awaited in data:
                self._losing, self._awaited = True, None
            server.write(data)
            if self._muting and self._muting in data:
                self._muting = None
                self.mute()
        server.close()  # which ends the other direction too

    async def _down(self, server: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        born = self._mute
        while data := await server.read(65536):
            if self._mute != born:
                continue
            if self._losing:
                self._losing = False
                self.lost += 1
                client.transport.abort()
                return
            client.write(data)
        client.close()


@contextlib.asynccontextmanager
async def cutter_to(url: str) -> AsyncIterator[Cutter]:
    """A wire to the database at `url`; its own address is `Cutter.url`."""
    cutter = Cutter(url)
    server = await asyncio.start_server(cutter.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    parts = urlsplit(url)
    cutter.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))
    yield cutter
    server.close()
    await cutter.close()
