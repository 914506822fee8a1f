"""https: the certificate must be the host's, signed by the system's roots or those of SSL_CERT_FILE."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trustme

from myna.http.client import ClientResponse, Flow, HttpClient, IdleTimedOut, TimedOut, Unreachable
from tests.http_client.client_calls import Stopwatch, post
from tests.http_client.conftest import Serve, on_both_loops
from tests.http_client.faulty_server import FaultyServer, PeerConnection, answer, answering, silent
from tests.rig.waiting import SOON_S

pytestmark = on_both_loops


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    """A certificate authority made for this run."""
    return trustme.CA()


@pytest.fixture(scope="module")
def roots(authority: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The authority's certificate, for SSL_CERT_FILE."""
    path = tmp_path_factory.mktemp("roots") / "roots.pem"
    authority.cert_pem.write_to_path(str(path))
    return path


@pytest.fixture
async def secured(authority: trustme.CA) -> AsyncIterator[FaultyServer]:
    """A server for https://localhost that answers "sealed"."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(context)
    server = FaultyServer(answering(answer(b"sealed")), context)
    yield server
    await server.close()


async def test_calls_to_a_trusted_server_reuse_one_connection(
    outbound: HttpClient, secured: FaultyServer, roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(roots))
    for _ in range(5):
        got = await post(outbound, f"https://localhost:{secured.port}/")
        assert got.body == b"sealed"
    assert (len(secured.requests), secured.accepted) == (5, 1)


async def test_an_untrusted_certificate_is_refused_before_anything_is_sent(
    outbound: HttpClient, secured: FaultyServer
) -> None:
    with pytest.raises(Unreachable, match="certificate verify failed"):
        await post(outbound, f"https://localhost:{secured.port}/")
    assert secured.requests == []


async def test_a_certificate_of_another_host_is_refused(
    outbound: HttpClient, secured: FaultyServer, roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(roots))
    with pytest.raises(Unreachable):
        await post(outbound, f"https://127.0.0.1:{secured.port}/")
    assert secured.requests == []


async def test_a_server_without_tls_is_unreachable(outbound: HttpClient, serve: Serve) -> None:
    async def mail(peer: PeerConnection) -> None:
        await peer.send(b"220 mail.example ESMTP\r\n")
        await peer.until_the_client_disconnects()

    server = serve(mail)
    with pytest.raises(Unreachable):
        await post(outbound, f"https://127.0.0.1:{server.port}/", deadline_s=5)


async def test_a_handshake_that_hangs_ends_at_the_deadline_and_closes_its_connection(
    outbound: HttpClient, serve: Serve, roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(roots))  # the roots of a system take long to load
    server, watch = serve(silent), Stopwatch()
    with pytest.raises(TimedOut):
        await post(outbound, f"https://127.0.0.1:{server.port}/", deadline_s=1.0)
    assert watch.seconds() < 10
    await server.until(lambda: server.accepted == 1 and server.open == 0)


async def test_a_cancelled_call_over_tls_leaves_no_connection(
    outbound: HttpClient, secured: FaultyServer, roots: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(roots))
    await post(outbound, f"https://localhost:{secured.port}/")
    call = asyncio.ensure_future(post(outbound, f"https://localhost:{secured.port}/", b"x" * 4_000_000))
    await secured.until(lambda: secured.open == 1)
    call.cancel()
    await asyncio.wait([call])
    await outbound.close()
    await secured.until(lambda: secured.open == 0)


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
