"""A proxy to PostgreSQL that can drop a reply after the server executed the statement, disconnect, or forward
nothing any more."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit, urlunsplit


class PostgresProxy:
    """Forwards bytes, with the faults that its methods inject."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._target = (parts.hostname or "", parts.port or 0)
        self._parts = parts
        self._dropping = False
        self._fault: tuple[str, bytes] | None = None
        """What to do at the next message that contains this request."""
        self._accepting = True
        self._clients: list[asyncio.StreamWriter] = []
        self._passing: set[asyncio.Task[None]] = set()
        self._silenced = 0
        self.dropped = 0
        self.url = ""

    def drop_next_reply(self) -> None:
        """Drops the next bytes of the server and disconnects the client."""
        self._dropping = True

    def disconnect(self) -> None:
        """Disconnects all clients now; the server continues its statements."""
        for client in self._clients:
            client.transport.abort()
        self._clients.clear()

    def silence(self) -> None:
        """Forwards nothing more over the present connections; new ones work."""
        self._silenced += 1

    def drop_reply_to(self, request: bytes) -> None:
        """Drops the reply to the next message that contains `request`."""
        self._fault = "drop the reply", request

    def disconnect_before(self, request: bytes) -> None:
        """Disconnects instead of forwarding the next message that contains `request`."""
        self._fault = "disconnect before", request

    def silence_before(self, request: bytes) -> None:
        """Calls `silence` instead of forwarding the next message that contains `request`."""
        self._fault = "silence before", request

    def refuse_connections(self) -> None:
        """Refuses new connections."""
        self._accepting = False

    def silence_after(self, request: bytes) -> None:
        """Forwards the next message that contains `request`, then calls `silence`."""
        self._fault = "silence after", request

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
        born = self._silenced
        while data := await client.read(65536):
            if self._silenced != born:
                continue
            fault = ""
            if self._fault and self._fault[1] in data:
                fault, self._fault = self._fault[0], None
            if fault == "disconnect before":
                break
            if fault == "silence before":
                self.silence()
                continue
            self._dropping |= fault == "drop the reply"
            server.write(data)
            if fault == "silence after":
                self.silence()
        server.close()  # which ends the other direction too

    async def _down(self, server: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        born = self._silenced
        while data := await server.read(65536):
            if self._silenced != born:
                continue
            if self._dropping:
                self._dropping = False
                self.dropped += 1
                client.transport.abort()
                return
            client.write(data)
        client.close()


@contextlib.asynccontextmanager
async def proxy_to(url: str) -> AsyncIterator[PostgresProxy]:
    """A proxy to the database at `url`; its own address is `PostgresProxy.url`."""
    proxy = PostgresProxy(url)
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    parts = urlsplit(url)
    proxy.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))
    yield proxy
    server.close()
    await proxy.close()
