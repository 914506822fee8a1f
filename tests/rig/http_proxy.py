"""A proxy between a client and a server that fails one request, as a bad network would.

lose   the server gets it and answers; the answer is dropped
cut    the server gets the beginning of it, then both connections are closed
block  the server gets it when `release()` is called; until then nothing is sent
"""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Literal

import pytest

PIECE_BYTES = 65_536
CUT_BYTES = 4_000
"""The bytes of a cut request that the server gets: its head and some of its body."""
END_DEADLINE_S = 10
BLOCK_DEADLINE_S = 60

Fault = Literal["lose", "cut", "block"]


class HttpProxy:
    """Forwards all requests to `port` of this machine, except one that `fail_next` names.

    `failed` is set after its fault; `status_line` is the first line of the answer to a blocked request.
    """

    def __init__(self, port: int) -> None:
        self.failed = threading.Event()
        self.status_line = b""
        self._fault: Fault = "lose"
        self._failing = b""
        self._released = threading.Event()
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._threads[0].start()

    def fail_next(self, fault: Fault, request: str) -> None:
        """The next request whose first line contains `request` gets this fault."""
        self._fault = fault
        self._failing = request.encode()

    def release(self) -> None:
        """Sends the blocked request to the server."""
        self._released.set()

    def close(self) -> None:
        """Stops listening and closes all connections."""
        self.release()
        for end in (self._listening, *self._open):
            _close(end)
        for thread in self._threads:
            thread.join(END_DEADLINE_S)

    def _accept(self) -> None:
        with self._listening:
            while True:
                try:
                    client, _ = self._listening.accept()
                except OSError:  # the proxy is closed
                    return
                serving = threading.Thread(target=self._serve, args=(client,))
                self._threads.append(serving)
                serving.start()

    def _serve(self, client: socket.socket) -> None:
        """Serves one connection until the client, the server or the proxy closes it."""
        with client:
            try:
                with self._connected() as server:
                    self._open |= {client, server}
                    failing = self._pass(client, server)
                if failing:
                    with self._connected() as server:  # the old one may have timed out
                        self._open.add(server)
                        self._fail(client, server, failing)
            except OSError:  # one side disconnected, or no server is listening
                return
            finally:
                self._open.discard(client)

    def _connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._to))

    def _pass(self, client: socket.socket, server: socket.socket) -> bytes:
        """Forwards in both directions until one side closes; returns the begin of the request to fail."""
        other = {client: server, server: client}
        while True:
            for end in select.select(other, (), ())[0]:
                data = end.recv(PIECE_BYTES)
                if end is client and self._failing and self._failing in data.split(b"\r\n", 1)[0]:
                    self._failing = b""
                    return bytes(data)
                if not data:
                    return b""
                other[end].sendall(data)

    def _fail(self, client: socket.socket, server: socket.socket, begin: bytes) -> None:
        """Applies the fault to the request that begins with these bytes, over a new connection."""
        if self._fault == "cut":
            while len(begin) < CUT_BYTES:
                begin += _received(client)
            server.sendall(begin[:CUT_BYTES])
            self.failed.set()
            return
        if self._fault == "block":
            self.failed.set()
            self._released.wait(BLOCK_DEADLINE_S)
        server.sendall(begin)
        while server not in select.select((client, server), (), ())[0]:
            server.sendall(_received(client))
        answer = _received(server)
        self.status_line = answer.split(b"\r\n", 1)[0]
        self.failed.set()
        if self._fault == "block":
            client.sendall(answer)
            self._pass(client, server)


def _received(end: socket.socket) -> bytes:
    """The next bytes; raises OSError at the end of the connection."""
    data = end.recv(PIECE_BYTES)
    if not data:
        raise ConnectionAbortedError
    return data


def _close(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is closed already
        return


ProxyMaker = Callable[[int], HttpProxy]


@pytest.fixture
def make_proxy() -> Iterator[ProxyMaker]:
    """Makes proxies to servers of this test."""
    made: list[HttpProxy] = []

    def make(port: int) -> HttpProxy:
        made.append(HttpProxy(port))
        return made[-1]

    yield make
    for proxy in made:
        proxy.close()
