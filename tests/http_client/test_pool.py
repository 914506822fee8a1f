"""The limit of connections is kept, waiting calls are served, and a closed connection is never reused."""

import asyncio
import gc
import socket
from typing import Any

import pytest

from myna.http.client import ConnectionBroken, HttpClient, Unreachable
from myna.http.client.client import IDLE_MAX_S
from myna.http.client.connection import ClientConnection
from tests.http_client.client_calls import connections_of, post
from tests.http_client.conftest import Serve, on_both_loops
from tests.http_client.faulty_server import Behaviour, PeerConnection, answer, answering, disconnecting, once
from tests.rig.waiting import SOON_S, free_port

pytestmark = on_both_loops


async def test_connections_are_limited_and_every_call_is_answered(outbound: HttpClient, serve: Serve) -> None:
    async def busy(peer: PeerConnection) -> None:
        while await peer.receive():
            await server.until(lambda: server.open == 3)
            await peer.send(answer(b"ok"))

    server = serve(busy)
    answers = await asyncio.gather(*(post(outbound, server.url) for _ in range(40)))
    assert [got.body for got in answers] == [b"ok"] * 40
    assert (server.accepted, server.open_peak) == (3, 3)


class Blocking:
    """A server with blocking sockets, so that a test can close one without an iteration of the event loop."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self._listener.settimeout(SOON_S)  # no thread waits forever if a test fails
        self.heard: list[bytes] = []

    def accept(self) -> socket.socket:
        return self._listener.accept()[0]

    def serve_one(self, connection: socket.socket, data: bytes) -> None:
        self.heard.append(connection.recv(65_536))
        connection.sendall(data)

    def accept_and_serve(self, data: bytes) -> socket.socket:
        connection = self.accept()
        self.serve_one(connection, data)
        return connection

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize(
    "parting", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"], ids=["silently", "with 408"]
)
async def test_a_post_does_not_use_an_idle_connection_that_its_server_closed(
    outbound: HttpClient, parting: bytes
) -> None:
    server = Blocking()
    serving = asyncio.ensure_future(asyncio.to_thread(server.accept_and_serve, answer(b"1")))
    assert (await post(outbound, server.url, b"one")).body == b"1"
    kept = await serving
    # Closed and called again within one iteration of the event loop: only a check of the socket detects it.
    kept.sendall(parting)
    kept.close()
    call = post(outbound, server.url, b"two")
    serving = asyncio.ensure_future(asyncio.to_thread(server.accept_and_serve, answer(b"2")))
    assert (await call).body == b"2"
    (await serving).close()
    server.close()
    assert [heard[-3:] for heard in server.heard] == [b"one", b"two"]


async def test_a_post_that_was_read_and_not_answered_is_not_sent_again(
    outbound: HttpClient, serve: Serve
) -> None:
    async def fails_second_request(peer: PeerConnection) -> None:
        await peer.receive()
        await peer.send(answer(b"ok"))
        await peer.receive()

    server = serve(fails_second_request)
    await post(outbound, server.url, b"one")
    with pytest.raises(ConnectionBroken, match="without an answer"):
        await post(outbound, server.url, b"two")
    assert [request.body for request in server.requests] == [b"one", b"two"]
    assert server.accepted == 1


async def test_idle_connections_are_closed_before_servers_close_them(
    outbound: HttpClient, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert IDLE_MAX_S < 5
    server = serve(answering(answer(b"ok")))
    monkeypatch.setattr("myna.http.client.client.IDLE_MAX_S", 0.0)
    for _ in range(3):
        await post(outbound, server.url)
    assert server.accepted == 3


async def test_a_connection_that_ends_before_its_first_use_releases_its_slot(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refusing(peer: PeerConnection) -> None:
        return None

    loop = asyncio.get_running_loop()
    connect = loop.create_connection

    async def connect_and_lose(make: Any, *args: Any, **options: Any) -> Any:
        lost = asyncio.Event()

        def watched() -> Any:
            connection = make()
            ended = connection.connection_lost

            def losing(exc: Exception | None) -> None:
                ended(exc)
                lost.set()

            connection.connection_lost = losing
            return connection

        made = await connect(watched, *args, **options)
        await lost.wait()
        return made

    outbound, good = HttpClient(connections_max=1), serve(answering(answer(b"ok")))
    with monkeypatch.context() as patch, pytest.raises(Unreachable, match="before the request was sent"):
        patch.setattr(loop, "create_connection", connect_and_lose)
        await post(outbound, serve(refusing).url)
    assert (await post(outbound, good.url, deadline_s=60)).body == b"ok"
    await outbound.close()


@pytest.mark.parametrize(("behaviour", "failures"), [(once(answer(b"ok")), 0), (disconnecting, 5), (None, 5)])
async def test_a_closed_connection_leaves_no_reference_cycle(
    outbound: HttpClient, serve: Serve, behaviour: Behaviour | None, failures: int
) -> None:
    """Cycles stay in memory until the garbage collector runs, after some ten thousand allocations. Without
    a behaviour the port is closed."""
    server = serve(behaviour) if behaviour else None
    url = server.url if server else f"http://127.0.0.1:{free_port()}"
    failed = 0
    gc.collect()
    before = connections()
    gc.disable()
    try:
        for _ in range(5):
            try:
                await post(outbound, url)
            except (ConnectionBroken, Unreachable):
                failed += 1
        async with asyncio.timeout(60):
            while connections() - before:  # noqa: ASYNC110 - there is no event to wait for
                await asyncio.sleep(0.01)
    finally:
        gc.enable()
    assert failed == failures
    assert server is None or server.accepted == 5


def connections() -> set[int]:
    return {id(found) for found in gc.get_objects() if type(found) is ClientConnection}


async def test_a_connection_that_ends_before_the_request_is_sent_is_replaced(
    outbound: HttpClient, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = connections_of(monkeypatch)
    server = serve(answering(answer(b"ok")))
    await post(outbound, server.url)
    calling = asyncio.create_task(post(outbound, server.url))
    await asyncio.sleep(0)  # the request is buffered, and no byte of it is sent
    (transport,) = made
    transport.abort()
    assert (await calling).body == b"ok"
    assert server.accepted == 2
