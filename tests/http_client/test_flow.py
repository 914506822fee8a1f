"""Reading a response is paused and resumed: a slow reader slows its own server down and no other."""

import asyncio

import pytest

from myna.http_client import ClientResponse, Flow, HttpClient, IdleTimedOut
from tests.http_client.conftest import Serve, on_both_loops
from tests.http_client.faulty_server import PeerConnection
from tests.rig.waiting import SOON_S

pytestmark = [pytest.mark.anyio, on_both_loops]
BODY_BYTES = 16 * 2**20
"""More than the buffers of both sockets."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % BODY_BYTES
PART = b"x" * 65536


async def send_all(connection: PeerConnection) -> None:
    await connection.receive()
    await connection.send(HEAD)
    for _ in range(BODY_BYTES // len(PART)):
        await connection.send(PART)
    await connection.receive()


class Reader:
    """Counts what it receives, and pauses after the first part."""

    def __init__(self) -> None:
        self.flow = Flow()
        self.received = 0
        self.began = asyncio.Event()

    def take(self, part: bytes) -> None:
        self.received += len(part)
        if not self.began.is_set():
            self.began.set()
            self.flow.pause()


def requested(outbound: HttpClient, url: str, reader: Reader) -> "asyncio.Task[ClientResponse]":
    return asyncio.create_task(
        outbound.request(
            "POST", url, headers={}, body=b"{}", deadline_s=SOON_S, answer_max_bytes=BODY_BYTES,
            sink=reader.take, flow=reader.flow,
        )
    )  # fmt: skip


async def test_a_paused_response_is_not_read_until_it_is_resumed(outbound: HttpClient, serve: Serve) -> None:
    server, reader = serve(send_all), Reader()
    call = requested(outbound, server.url, reader)
    await reader.began.wait()
    for _ in range(200):  # of the event loop, which would read more otherwise
        await asyncio.sleep(0)
    before = reader.received
    await asyncio.sleep(0.1)
    assert reader.received == before < BODY_BYTES
    reader.flow.resume()
    assert (await call).status == 200
    assert reader.received == BODY_BYTES


async def test_a_pause_is_no_silence_of_the_server(serve: Serve) -> None:
    outbound = HttpClient(connections_max=1, idle_s=0.2)
    server, reader = serve(send_all), Reader()
    call = requested(outbound, server.url, reader)
    await reader.began.wait()
    await asyncio.sleep(0.4)
    assert not call.done()
    reader.flow.resume()
    assert (await call).status == 200
    await outbound.close()


async def test_a_server_that_stalls_after_a_pause_times_out(serve: Serve) -> None:
    async def stall(connection: PeerConnection) -> None:
        await connection.receive()
        await connection.send(HEAD + PART)
        await connection.receive()

    outbound = HttpClient(connections_max=1, idle_s=0.2)
    reader = Reader()
    call = requested(outbound, serve(stall).url, reader)
    await reader.began.wait()
    reader.flow.resume()
    with pytest.raises(IdleTimedOut):
        await call
    await outbound.close()


async def test_a_connection_whose_response_failed_while_paused_is_closed(serve: Serve) -> None:
    outbound = HttpClient(connections_max=1)
    server, reader = serve(send_all), Reader()
    call = requested(outbound, server.url, reader)
    await reader.began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    again = Reader()
    second = requested(outbound, server.url, again)
    await again.began.wait()  # on another connection
    again.flow.resume()
    assert (await second).status == 200
    await outbound.close()
