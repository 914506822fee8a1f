"""A wire between a client and a server that does something to one request, as a bad line would.

lose   the server gets it and does its work; nobody hears the answer
cut    the server gets the begin of it, and then the line ends on both sides
hold   the server gets it when `release()` is called; until then the line is silent
"""

import select
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Literal

import pytest

PIECE_BYTES = 65_536
CUT_BYTES = 4_000
"""What gets through of a request that is cut: its head and some of its body."""
END_DEADLINE_S = 10
HOLD_DEADLINE_S = 60

Fault = Literal["lose", "cut", "hold"]


class CuttingWire:
    """Passes everything on to `port` of this machine, but for one request that `doom` names.

    `done` is set once that has happened to it; `said` is the first line of the answer to what was held.
    """

    def __init__(self, port: int) -> None:
        self.done = threading.Event()
        self.said = b""
        self._fault: Fault = "lose"
        self._doomed = b""
        self._released = threading.Event()
        self._to = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept)]
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._threads[0].start()

    def doom(self, fault: Fault, request: str) -> None:
        """This happens to the next request with such a first line."""
        self._fault, self._doomed = fault, request.encode()

    def release(self) -> None:
        """What is held goes on to the server."""
        self._released.set()

    def close(self) -> None:
        """Listens no more and hangs up on everybody."""
        self.release()
        for end in (self._listening, *self._open):
            _hang_up(end)
        for thread in self._threads:
            thread.join(END_DEADLINE_S)

    def _accept(self) -> None:
        with self._listening:
            while True:
                try:
                    client, _ = self._listening.accept()
                except OSError:  # the wire is closed
                    return
                line = threading.Thread(target=self._carry, args=(client,))
                self._threads.append(line)
                line.start()

    def _carry(self, client: socket.socket) -> None:
        """One connection, until one of the two hangs up or the wire does."""
        with client:
            try:
                with self._connected() as server:
                    self._open |= {client, server}
                    doomed = self._pass(client, server)
                if doomed:
                    with self._connected() as server:  # the old one may be tired of waiting by then
                        self._open.add(server)
                        self._suffer(client, server, doomed)
            except OSError:  # one hung up in the middle, or there is no server now
                return
            finally:
                self._open.discard(client)

    def _connected(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self._to))

    def _pass(self, client: socket.socket, server: socket.socket) -> bytes:
        """Carries to and fro until somebody hangs up; what came of the doomed request, where it came."""
        other = {client: server, server: client}
        while True:
            for end in select.select(other, (), ())[0]:
                data = end.recv(PIECE_BYTES)
                if end is client and self._doomed and self._doomed in data.split(b"\r\n", 1)[0]:
                    self._doomed = b""
                    return bytes(data)
                if not data:
                    return b""
                other[end].sendall(data)

    def _suffer(self, client: socket.socket, server: socket.socket, begin: bytes) -> None:
        """The doomed request, of which this came so far, on a line of its own to the server."""
        if self._fault == "cut":
            while len(begin) < CUT_BYTES:
                begin += _received(client)
            server.sendall(begin[:CUT_BYTES])
            self.done.set()
            return
        if self._fault == "hold":
            self.done.set()
            self._released.wait(HOLD_DEADLINE_S)
        server.sendall(begin)
        while server not in select.select((client, server), (), ())[0]:
            server.sendall(_received(client))
        answer = _received(server)
        self.said = answer.split(b"\r\n", 1)[0]
        self.done.set()
        if self._fault == "hold":
            client.sendall(answer)
            self._pass(client, server)


def _received(end: socket.socket) -> bytes:
    """What came next; raises OSError where that is the end."""
    data = end.recv(PIECE_BYTES)
    if not data:
        raise ConnectionAbortedError
    return data


def _hang_up(end: socket.socket) -> None:
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:  # it is gone already
        return


WireMaker = Callable[[int], CuttingWire]


@pytest.fixture
def make_wire() -> Iterator[WireMaker]:
    """Makes wires to servers of this test."""
    made: list[CuttingWire] = []

    def make(port: int) -> CuttingWire:
        made.append(CuttingWire(port))
        return made[-1]

    yield make
    for wire in made:
        wire.close()
