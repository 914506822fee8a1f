"""The limit of an answer applies to every framing, and a download is written piece by piece."""

import asyncio
import gzip
import hashlib
import random
import zlib
from collections.abc import Callable, Mapping

import pytest

from myna.http.client import AnswerTooLarge, ClientResponse, ConnectionBroken, HttpClient
from myna.http.client.connection import ClientConnection
from tests.http_client.client_calls import HEADERS, post
from tests.http_client.conftest import Serve
from tests.http_client.faulty_server import Behaviour, PeerConnection, answer, answering, endless, once

KB = b"k" * 1024


async def test_an_answer_of_the_limit_is_accepted_and_none_larger(outbound: HttpClient, serve: Serve) -> None:
    framed, bare = answer(KB), b"HTTP/1.1 200 OK\r\n\r\n" + KB
    for data in (framed, bare):
        server = serve(once(data))
        assert (await post(outbound, server.url, answer_max_bytes=1024)).body == KB
        with pytest.raises(AnswerTooLarge):
            await post(outbound, server.url, answer_max_bytes=1023)


@pytest.mark.parametrize(
    "behaviour",
    [
        endless(b"HTTP/1.1 200 OK\r\n\r\n", KB),
        endless(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", KB),
        endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"400\r\n" + KB + b"\r\n"),
        endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1;" + KB + b"\r\n.\r\n"),
        endless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-T: " + KB + b"\r\n"),
        endless(b"HTTP/1.1 200 OK\r\n", b"X-H: " + KB + b"\r\n"),
        endless(b"HTTP/1.1 200 OK\r\nX-H: ", KB),
        endless(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["bare", "with length", "chunks", "padding", "trailers", "headers", "one header", "interim answers"],
)
async def test_an_endless_answer_fails_and_its_connection_is_closed(
    outbound: HttpClient, serve: Serve, behaviour: Behaviour
) -> None:
    server = serve(behaviour)
    with pytest.raises(AnswerTooLarge):
        await post(outbound, server.url, answer_max_bytes=50_000)
    await server.until(lambda: server.open == 0)


async def test_a_content_length_over_the_limit_is_refused_before_the_body(
    outbound: HttpClient, serve: Serve
) -> None:
    async def only_announcing(peer: PeerConnection) -> None:
        await peer.receive()
        await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n")
        await peer.until_the_client_disconnects()

    with pytest.raises(AnswerTooLarge, match="more than 1000 bytes"):
        await post(outbound, serve(only_announcing).url, answer_max_bytes=1000)


async def download(
    outbound: HttpClient, url: str, pieces: list[bytes], *, wanted: bool = True, max_bytes: int = 5_000_000
) -> ClientResponse:
    def accept(status: int, headers: Mapping[str, str]) -> bool:
        assert (status, headers["content-type"]) == (200, "audio/mpeg")
        return wanted

    return await outbound.request(
        "POST",
        url,
        headers=HEADERS,
        body=b"{}",
        deadline_s=60,
        answer_max_bytes=max_bytes,
        sink=pieces.append,
        accept=accept,
    )


async def test_a_download_reaches_the_sink_in_pieces_and_whole(outbound: HttpClient, serve: Serve) -> None:
    data = random.Random(1).randbytes(3_000_000)
    server = serve(answering(answer(data, "200 OK", "Content-Type: audio/mpeg")))
    for _ in range(2):
        pieces: list[bytes] = []
        got = await download(outbound, server.url, pieces)
        assert (got.status, got.body) == (200, b"")
        assert len(pieces) > 1
        assert hashlib.sha256(b"".join(pieces)).digest() == hashlib.sha256(data).digest()
    assert server.accepted == 1


async def test_a_download_over_its_limit_writes_no_more_than_it(outbound: HttpClient, serve: Serve) -> None:
    pieces: list[bytes] = []
    server = serve(endless(b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\n\r\n", KB))
    with pytest.raises(AnswerTooLarge):
        await download(outbound, server.url, pieces, max_bytes=1_000_000)
    assert 0 < sum(map(len, pieces)) <= 1_000_000


@pytest.mark.parametrize("length", ["Content-Length: 1000000\r\n", ""])
async def test_an_answer_that_is_not_accepted_is_truncated_to_64_kib(
    outbound: HttpClient, serve: Serve, length: str
) -> None:
    pieces: list[bytes] = []
    head = f"HTTP/1.1 200 OK\r\n{length}Content-Type: audio/mpeg\r\n\r\n".encode()
    server = serve(once(head + b"e" * 1_000_000))
    got = await download(outbound, server.url, pieces, wanted=False, max_bytes=100)
    assert (got.body, pieces) == (b"e" * 65_536, [])


@pytest.mark.parametrize("where", ["sink", "accept"])
async def test_an_exception_of_the_sink_ends_the_call_and_is_raised(
    outbound: HttpClient, serve: Serve, where: str
) -> None:
    def full(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    server = serve(answering(answer(KB)))
    with pytest.raises(OSError, match="No space left"):
        await outbound.request(
            "GET",
            server.url,
            headers={},
            body=None,
            deadline_s=60,
            answer_max_bytes=10_000,
            sink=full if where == "sink" else (lambda _: None),
            accept=full if where == "accept" else (lambda *_: True),
        )
    await server.until(lambda: server.open == 0)


class Steps:
    """The maximum number of parser callbacks in one iteration of the event loop."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most = self._now = 0
        self._loop = asyncio.get_running_loop()
        for name in ("on_body", "on_header", "on_message_begin"):
            monkeypatch.setattr(ClientConnection, name, self._counted(getattr(ClientConnection, name)))
        self._handle = self._loop.call_soon(self._turn)

    def stop(self) -> None:
        self._handle.cancel()

    def _counted(self, callback: Callable[..., None]) -> Callable[..., None]:
        def called(*args: object) -> None:
            self._now += 1
            callback(*args)

        return called

    def _turn(self) -> None:
        self.most, self._now = max(self.most, self._now), 0
        self._handle = self._loop.call_soon(self._turn)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("start", "again"),
    [
        (CHUNKED, b"1\r\n.\r\n" * 100_000),
        (CHUNKED, b"14\r\n" + b"." * 20 + b"\r\n"),
        (CHUNKED + b"0\r\n", b"a:b\r\n" * 100_000),
        (b"HTTP/1.1 200 OK\r\n", b"a:b\r\n" * 100_000),
        (b"", b"HTTP/1.1 100\r\n\r\n" * 100_000),
    ],
    ids=["chunks of a byte", "chunks of 20 bytes", "trailers", "headers", "interim answers"],
)
async def test_no_answer_blocks_the_event_loop(
    outbound: HttpClient, serve: Serve, monkeypatch: pytest.MonkeyPatch, start: bytes, again: bytes
) -> None:
    """A callback takes one or two microseconds; the limit is 50 ms."""
    again = again * max(1, 1_000_000 // len(again))
    server, steps = serve(endless(start, again)), Steps(monkeypatch)
    with pytest.raises(AnswerTooLarge):
        await post(outbound, server.url, answer_max_bytes=8 * 2**20, deadline_s=60)
    steps.stop()
    assert 0 < steps.most <= 25_000


def zipped(data: bytes, *, coding: str = "gzip", cut: int = 0) -> bytes:
    """An answer that is compressed although the client asks for `identity`."""
    packed = gzip.compress(data) if coding != "deflate" else zlib.compress(data)
    headers = f"Content-Encoding: {coding}", "Content-Type: audio/mpeg"
    return answer(packed[: len(packed) - cut], "200 OK", *headers)


async def test_a_compressed_answer_is_read_within_the_limit(outbound: HttpClient, serve: Serve) -> None:
    large = KB * 40
    for coding in ("gzip", "deflate", "GZIP"):
        server = serve(answering(zipped(large, coding=coding)))
        for _ in range(2):
            assert (await post(outbound, server.url)).body == large
        pieces: list[bytes] = []
        await download(outbound, server.url, pieces)
        assert b"".join(pieces) == large and len(pieces) > 1
        with pytest.raises(AnswerTooLarge):
            await post(outbound, server.url, answer_max_bytes=len(large) - 1)
    server = serve(answering(answer(b"", "204 No Content", "Content-Encoding: gzip")))
    assert (await post(outbound, server.url)).status == 204


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (zipped(KB, coding="br"), "compressed answer that it was not asked for"),
        (zipped(KB, cut=4), "compressed answer that ends too early"),
        (answer(KB, "200 OK", "Content-Encoding: gzip"), "can't be decompressed"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(KB)[:-4], "ends too early"),
    ],
    ids=["brotli", "cut", "not compressed", "cut without a length"],
)
async def test_an_answer_that_cannot_be_decompressed_says_so(
    outbound: HttpClient, serve: Serve, data: bytes, why: str
) -> None:
    with pytest.raises(ConnectionBroken, match=why):
        await post(outbound, serve(once(data)).url)
