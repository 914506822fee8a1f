"""An upstream that repeats answers, or sends them late or in pieces.

clean    the answer
pieces   the answer in two pieces, the second one later
repeat   the answer, and the same once more later
half     the answer, and later half of it again; the other half goes before the next answer

What an upstream repeats within `in_time_s` of its answer must never reach another caller. On a loaded machine
a repetition may leave later than it should: `late` has the requests whose answers were.
"""

import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

RepeatFault = tuple[str, float]
"""How an answer is repeated, and after how many seconds."""
DELAYS_S = (0.0, 0.0001, 0.0005, 0.001, 0.005, 0.02)
END_DEADLINE_S = 10


def seeded(seed: int, clean: float = 0.4) -> Callable[[], RepeatFault]:
    """Random faults; `clean` is the share of answers without one."""
    chance = random.Random(seed)
    lock = threading.Lock()

    def next_one() -> RepeatFault:
        with lock:
            if chance.random() < clean:
                return "clean", 0.0
            return chance.choice(("pieces", "repeat", "half")), chance.choice(DELAYS_S)

    return next_one


class RepeatingUpstream:
    """Listens on a port of the loopback. `reply` makes the body of an answer from that of its request."""

    def __init__(
        self, misdeed: Callable[[], RepeatFault], reply: Callable[[bytes], bytes], in_time_s: float
    ) -> None:
        self._misdeed = misdeed
        self._reply = reply
        self._in_time_s = in_time_s
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self._open: set[socket.socket] = set()
        self._pause = threading.Event()
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        self.accepted = 0
        self.requests = 0
        self.repeated = 0
        self.late: set[bytes] = set()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Ends every connection, and waits for the threads."""
        for end in (self._listener, *tuple(self._open)):
            with _ignore_disconnects():
                end.shutdown(socket.SHUT_RDWR)
        for thread in tuple(self._threads):
            thread.join(END_DEADLINE_S)

    def _accept(self) -> None:
        with self._listener, _ignore_disconnects():
            while True:
                client, _ = self._listener.accept()
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.accepted += 1
                self._open.add(client)
                thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        owed = b""
        with client, _ignore_disconnects():
            while (body := _request(client)) is not None:
                self.requests += 1
                reply = self._reply(body)
                whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(reply), reply)
                kind, delay_s = self._misdeed()
                first = whole[: len(whole) // 2] if kind == "pieces" else whole
                answered_at = time.monotonic()
                client.sendall(owed + first)
                owed = b""
                self._pause.wait(delay_s)
                if kind == "pieces":
                    client.sendall(whole[len(first) :])
                elif kind != "clean":
                    client.sendall(whole if kind == "repeat" else whole[: len(whole) // 2])
                    owed = whole[len(whole) // 2 :] if kind == "half" else b""
                    self.repeated += 1
                    if time.monotonic() - answered_at > self._in_time_s:
                        self.late.add(body)
        self._open.discard(client)


@contextmanager
def _ignore_disconnects() -> Iterator[None]:
    """Suppresses the error of a connection that the other side, or `close`, has ended."""
    try:
        yield
    except OSError:
        return


def _request(client: socket.socket) -> bytes | None:
    """The body of the next request; None where the client has closed."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(65_536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line.partition(b":")[2])
        for line in head.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    )
    while len(body) < length:
        piece = client.recv(65_536)
        if not piece:
            return None
        body += piece
    return body
