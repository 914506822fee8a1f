"""A plain call: the server gets the request unchanged, and the caller the answer."""

import base64

import pytest

from myna.http.client import ConnectionBroken, HttpClient, Unreachable
from tests.http_client.client_calls import BODY, HEADERS, get, post
from tests.http_client.conftest import Serve
from tests.http_client.faulty_server import PeerConnection, answer, answering, disconnecting, once


async def test_the_request_arrives_unchanged(outbound: HttpClient, serve: Serve) -> None:
    server = serve(answering(answer(b"fine")))
    got = await post(outbound, f"{server.url}?a=1&b=2", headers={**HEADERS, "X-Trace": "7"})
    assert (got.status, got.body) == (200, b"fine")
    [request] = server.requests
    assert (request.line, request.body) == ("POST /v1/things?a=1&b=2 HTTP/1.1", BODY)
    assert request.header("host") == f"127.0.0.1:{server.port}"
    assert request.header("x-trace") == "7"
    assert request.header("authorization") == "Bearer top-secret"


async def test_a_get_has_no_body_and_an_empty_post_has_length_0(outbound: HttpClient, serve: Serve) -> None:
    server = serve(answering(answer()))
    await get(outbound, server.url)
    await outbound.request("POST", server.url, headers={}, body=None, deadline_s=5, answer_max_bytes=10)
    assert [request.header("content-length") for request in server.requests] == [None, "0"]


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a\r\nhe\r\n3\r\nllo\r\n0\r\nX-T: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 P\r\n\r\nHTTP/1.1 103 E\r\nX-E: 1\r\n\r\n"
        + answer(b"hello"),
        b"HTTP/1.1 102 Processing\r\n\r\n" * 1000 + answer(b"hello"),
        b"HTTP/1.0 100 Continue\r\n\r\n" * 3 + b"HTTP/1.0 200 OK\r\n\r\nhello",
        b"HTTP/1.1 103 E\r\nConnection: close\r\nX-E: 1\r\n\r\n" * 3 + answer(b"hello"),
    ],
    ids=[
        *("chunks with a trailer", "up to the end", "HTTP/1.0", "after interim answers", "after a thousand"),
        *("after interim answers of HTTP/1.0", "after interim answers that say close"),
    ],
)
async def test_every_body_framing_is_read(outbound: HttpClient, serve: Serve, data: bytes) -> None:
    got = await post(outbound, serve(once(data)).url)
    assert (got.status, got.body) == (200, b"hello")
    assert "x-t" not in got.headers
    assert "x-e" not in got.headers


async def test_successive_calls_reuse_a_connection(outbound: HttpClient, serve: Serve) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    for data in (answer(b"ok"), chunked):
        server = serve(answering(data))
        for _ in range(20):
            assert (await post(outbound, server.url)).body == b"ok"
        assert (len(server.requests), server.accepted) == (20, 1)


async def test_a_login_in_the_address_is_sent_as_a_header_and_not_shown(
    outbound: HttpClient, serve: Serve
) -> None:
    server = serve(disconnecting)
    url = f"http://anna:p%40ss@127.0.0.1:{server.port}/private/path"
    with pytest.raises(ConnectionBroken) as failed:
        await post(outbound, url, headers={"X-Secret": "hush"})
    [request] = server.requests
    assert request.header("authorization") == "Basic " + base64.b64encode(b"anna:p@ss").decode()
    assert request.line == "POST /private/path HTTP/1.1"
    for secret in ("anna", "p%40ss", "p@ss", "private", "hush"):
        assert secret not in str(failed.value)


async def test_a_redirect_is_returned_and_not_followed(outbound: HttpClient, serve: Serve) -> None:
    elsewhere = serve(answering(answer(b"wrong place")))
    server = serve(answering(answer(b"", "307 Temporary Redirect", f"Location: {elsewhere.url}")))
    got = await post(outbound, server.url)
    assert (got.status, got.headers["location"]) == (307, elsewhere.url)
    assert (len(server.requests), elsewhere.accepted) == (1, 0)


async def test_proxies_of_the_environment_are_ignored(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, server = serve(answering(answer(b"proxied"))), serve(answering(answer(b"direct")))
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    fresh = HttpClient(connections_max=1)
    got = await post(fresh, server.url)
    await fresh.close()
    assert got.body == b"direct"
    assert proxy.accepted == 0


async def test_a_cookie_is_not_sent_back(outbound: HttpClient, serve: Serve) -> None:
    server = serve(answering(answer(b"", "200 OK", "Set-Cookie: a=b; Path=/")))
    await get(outbound, server.url)
    await get(outbound, server.url)
    assert [request.header("cookie") for request in server.requests] == [None, None]


async def test_a_closed_client_ends_calls_and_refuses_new_ones(outbound: HttpClient, serve: Serve) -> None:
    async def closing(peer: PeerConnection) -> None:
        await peer.receive()
        await peer.send(b"HTTP/1.1 200 OK\r\n\r\nhalf of it")
        await outbound.close()

    server = serve(closing)
    with pytest.raises(ConnectionBroken):
        await post(outbound, server.url)
    with pytest.raises(Unreachable):
        await post(outbound, server.url)
    await server.until(lambda: server.open == 0)
    assert server.accepted == 1
