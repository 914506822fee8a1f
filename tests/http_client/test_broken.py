"""Servers that disconnect, send wrong lengths or invalid HTTP, and the failure each raises."""

import asyncio

import pytest

from myna.http.client import ClientResponse, ConnectionBroken, HttpClient, Unreachable
from tests.http_client.client_calls import get, post
from tests.http_client.conftest import Serve
from tests.http_client.faulty_server import PeerConnection, answer, answering, once
from tests.rig.waiting import free_port


async def test_a_closed_port_is_unreachable(outbound: HttpClient) -> None:
    port = free_port()
    with pytest.raises(Unreachable, match=rf"127\.0\.0\.1:{port} can't be reached"):
        await post(outbound, f"http://127.0.0.1:{port}/")


@pytest.mark.parametrize(
    "url",
    [
        *("", "localhost:8880/v1", "ftp://127.0.0.1/", "http://", "http://127.0.0.1:99999/"),
        *("http://127.0.0.1:x/", "http://[::1/", "http://127.0.0.1/a b"),
        *("http://127.0.0.1/\r\nX-Smuggled: 1", "http://127.0.0.1/朗读", "http://a..b/"),
    ],
)
async def test_an_invalid_address_is_unreachable(outbound: HttpClient, url: str) -> None:
    with pytest.raises(Unreachable):
        await get(outbound, url)


@pytest.mark.parametrize(
    "headers",
    [
        {"X-A": "1\r\nX-Smuggled: 1"},
        {"X-A\r\n": "1"},
        {"X A": "1"},
        {"": "1"},
        {"X-A": "密"},
        {"Content-Length": "3"},
        {"transfer-encoding": "chunked"},
    ],
)
async def test_a_header_that_would_change_the_request_is_refused(
    outbound: HttpClient, headers: dict[str, str]
) -> None:
    with pytest.raises(Unreachable, match="can't be sent"):
        await post(outbound, "http://127.0.0.1:9/", headers=headers)


async def test_an_unknown_method_is_refused(outbound: HttpClient) -> None:
    with pytest.raises(ValueError, match="isn't one of"):
        await outbound.request(
            "HEAD", "http://127.0.0.1:9/", headers={}, body=None, deadline_s=1, answer_max_bytes=1
        )


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ],
    ids=["in the head", "before the length it gave", "in a chunk", "before the last chunk"],
)
async def test_a_connection_closed_within_the_answer_is_broken(
    outbound: HttpClient, serve: Serve, data: bytes
) -> None:
    with pytest.raises(ConnectionBroken, match="within its answer"):
        await post(outbound, serve(once(data)).url)


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"\x16\x03\x01\x02\x00" * 100,
        b"HTTP/1.1 999999 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nhi!",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n",
    ],
)
async def test_bytes_that_are_not_http_are_broken(outbound: HttpClient, serve: Serve, data: bytes) -> None:
    server = serve(once(data))
    with pytest.raises(ConnectionBroken):
        await post(outbound, server.url)
    await server.until(lambda: server.open == 0)


@pytest.mark.parametrize(
    "extra", [b"!", answer(b"second"), b"HTTP/1.1 200"], ids=["a byte", "another", "half"]
)
async def test_bytes_after_an_answer_never_become_part_of_the_next_one(
    outbound: HttpClient, serve: Serve, extra: bytes
) -> None:
    server = serve(answering(answer(b"first") + extra))
    for _ in range(3):
        got = await post(outbound, server.url)
        assert (got.body, got.headers) == (b"first", {"content-length": "5"})
    assert server.accepted == 3


async def test_an_answer_before_the_body_was_read_closes_the_connection(
    outbound: HttpClient, serve: Serve
) -> None:
    async def hasty(peer: PeerConnection) -> None:
        await peer.send(answer(b"too much", "413 Content Too Large"))
        await peer.until_the_client_disconnects()

    server = serve(hasty)
    for _ in range(2):
        # The client sees either the answer or the end of the connection; both are right, and both close it.
        [got] = await asyncio.gather(post(outbound, server.url, b"x" * 8_000_000), return_exceptions=True)
        assert isinstance(got, ConnectionBroken) or (isinstance(got, ClientResponse) and got.status == 413)
    assert server.accepted == 2
