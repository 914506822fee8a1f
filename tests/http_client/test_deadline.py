"""The deadline covers the whole call; a call that ends early closes its connection and frees its slot."""

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest

from myna.http.client import ClientResponse, HttpClient, IdleTimedOut, TimedOut, Unreachable, connection
from myna.http.client.connection import ClientConnection
from myna.lib.aio import TICK_S
from tests.http_client.client_calls import Stopwatch, get, post
from tests.http_client.conftest import Serve, on_both_loops
from tests.http_client.faulty_server import Behaviour, PeerConnection, answer, dripping, silent
from tests.rig.waiting import MonotonicClock

pytestmark = on_both_loops

SLOW: list[Behaviour] = [
    silent,
    dripping(b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n", 0.01),
    dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b".", 0.01),
    dripping(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n.\r\n", 0.01),
    dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.01),
]


@pytest.mark.parametrize("behaviour", SLOW)
async def test_a_call_ends_at_its_deadline_for_any_server(
    outbound: HttpClient, serve: Serve, behaviour: Behaviour
) -> None:
    server, watch = serve(behaviour), Stopwatch()
    with pytest.raises(TimedOut):
        await post(outbound, server.url, deadline_s=0.1)
    assert watch.seconds() > 0.075
    await server.until(lambda: server.open == 0)


async def test_the_deadline_includes_waiting_for_a_free_connection(serve: Serve) -> None:
    server, outbound = serve(silent), HttpClient(connections_max=1)
    first_call = asyncio.ensure_future(post(outbound, server.url))
    await server.until(lambda: len(server.requests) == 1)
    with pytest.raises(TimedOut, match="No connection was free"):
        await post(outbound, server.url, deadline_s=0.2)
    assert len(server.requests) == 1
    first_call.cancel()
    await asyncio.wait([first_call])
    await outbound.close()


@pytest.fixture
def full_listener() -> Iterator[int]:
    """The port of a listener whose queue is full, so that a connection to it is never made."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for sock in (first, second):
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


async def test_a_server_that_takes_too_long_to_connect_is_unreachable(full_listener: int) -> None:
    outbound = HttpClient(connections_max=1, connect_timeout_s=0.2)
    with pytest.raises(Unreachable, match=r"didn't connect within 0\.2 s"):
        await get(outbound, f"http://127.0.0.1:{full_listener}/", deadline_s=600)
    await outbound.close()


async def test_a_cancelled_call_closes_its_connection_and_releases_its_slot(serve: Serve) -> None:
    async def first_silent(peer: PeerConnection) -> None:
        while await peer.receive():
            if peer.number == 1:
                await peer.until_the_client_disconnects()
            await peer.send(answer(b"next"))

    server, outbound = serve(first_silent), HttpClient(connections_max=1)
    call = asyncio.ensure_future(post(outbound, server.url))
    await server.until(lambda: len(server.requests) == 1)
    call.cancel()
    got = await post(outbound, server.url)
    assert call.cancelled()
    assert got.body == b"next"
    await server.until(lambda: server.open == 1)
    assert (server.accepted, server.open_peak) == (2, 1)
    await outbound.close()


@pytest.mark.parametrize(
    "behaviour", [silent, dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n.", b"", 60)]
)
async def test_a_server_silent_for_too_long_times_out(serve: Serve, behaviour: Behaviour) -> None:
    server, outbound = serve(behaviour), HttpClient(connections_max=1, idle_s=0.2)
    with pytest.raises(IdleTimedOut, match=r"sent nothing for 0\.2 s"):
        await post(outbound, server.url)
    await server.until(lambda: server.open == 0)
    await outbound.close()


async def test_a_slow_answer_is_read_as_long_as_bytes_arrive(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = ClientConnection.buffer_updated
    received = asyncio.Event()

    def noted(connection: ClientConnection, size: int) -> None:
        read(connection, size)
        received.set()

    async def slow(peer: PeerConnection) -> None:
        await peer.receive()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n")
        for _ in range(4):
            await received.wait()
            received.clear()
            clock.move(1.0)
            await asyncio.sleep(2 * TICK_S)  # the idle time is checked meanwhile
            await peer.send(b".")

    monkeypatch.setattr(ClientConnection, "buffer_updated", noted)
    clock = MonotonicClock(
        monkeypatch, "myna.lib.aio", "myna.http.client.client", "myna.http.client.connection"
    )
    outbound = HttpClient(connections_max=1, idle_s=1.5)
    assert (await post(outbound, serve(slow).url)).body == b"." * 4
    await outbound.close()


async def test_what_arrived_while_the_process_was_stopped_is_no_silence(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "STOPPED_MIN_S", 0.1)
    stopped = asyncio.Event()

    async def slow(peer: PeerConnection) -> None:
        await peer.receive()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n.")
        stopped.set()
        await peer.receive()

    server, outbound = serve(slow), HttpClient(connections_max=1, idle_s=0.2)
    call = asyncio.create_task(post(outbound, server.url))
    await stopped.wait()
    await asyncio.sleep(TICK_S)
    time.sleep(0.4)  # noqa: ASYNC251  as a process that is stopped
    await asyncio.sleep(2 * TICK_S)  # the idle time is checked
    assert not call.done()
    with pytest.raises(IdleTimedOut):  # it is silent from then on
        await call
    await outbound.close()


async def test_cancelling_a_queued_call_does_not_affect_the_others(serve: Serve) -> None:
    release = asyncio.Event()

    async def patient(peer: PeerConnection) -> None:
        while await peer.receive():
            await release.wait()
            await peer.send(answer(b"ok"))

    server, outbound = serve(patient), HttpClient(connections_max=1, reuse_after_s=0)
    calls: list[asyncio.Future[ClientResponse]] = [
        asyncio.ensure_future(post(outbound, server.url)) for _ in range(4)
    ]
    await server.until(lambda: len(server.requests) == 1)
    calls[1].cancel()
    release.set()
    done = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(done[1], asyncio.CancelledError)
    assert [got.body for got in (done[0], *done[2:]) if isinstance(got, ClientResponse)] == [b"ok"] * 3
    assert server.accepted == 1
    await outbound.close()
