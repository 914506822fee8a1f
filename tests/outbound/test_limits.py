"""The limit on an answer holds for every framing, and a download is poured out piece by piece."""

import hashlib
import random
from collections.abc import Mapping

import pytest

from myna.outbound import Answer, AnswerTooLarge, Outbound
from tests.outbound.calling import HEADERS, post
from tests.outbound.conftest import Serve
from tests.outbound.faulty import Behaviour, Talk, answer, answering, endless, once

pytestmark = pytest.mark.anyio

KB = b"k" * 1024


async def test_an_answer_of_exactly_the_limit_is_taken_and_one_byte_more_is_not(
    outbound: Outbound, serve: Serve
) -> None:
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
async def test_an_endless_answer_is_cut_off_and_its_connection_closed(
    outbound: Outbound, serve: Serve, behaviour: Behaviour
) -> None:
    server = serve(behaviour)

    with pytest.raises(AnswerTooLarge):
        await post(outbound, server.url, answer_max_bytes=50_000)

    await server.until(lambda: server.open == 0)


async def test_a_length_over_the_limit_is_refused_before_the_body_comes(
    outbound: Outbound, serve: Serve
) -> None:
    async def only_announcing(talk: Talk) -> None:
        await talk.hear()
        await talk.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n")
        await talk.until_the_client_leaves()

    with pytest.raises(AnswerTooLarge, match="more than 1000 bytes"):
        await post(outbound, serve(only_announcing).url, answer_max_bytes=1000)


async def download(
    outbound: Outbound, url: str, pieces: list[bytes], *, wanted: bool = True, max_bytes: int = 5_000_000
) -> Answer:
    def accept(status: int, headers: Mapping[str, str]) -> bool:
        assert (status, headers["content-type"]) == (200, "audio/mpeg")
        return wanted

    return await outbound.download(
        "POST",
        url,
        headers=HEADERS,
        body=b"{}",
        deadline_s=10,
        answer_max_bytes=max_bytes,
        sink=pieces.append,
        accept=accept,
    )


async def test_a_download_is_poured_out_piece_by_piece_and_whole(outbound: Outbound, serve: Serve) -> None:
    data = random.Random(1).randbytes(3_000_000)
    server = serve(answering(answer(data, "200 OK", "Content-Type: audio/mpeg")))

    for _ in range(2):
        pieces: list[bytes] = []
        got = await download(outbound, server.url, pieces)
        assert (got.status, got.body) == (200, b"")
        assert len(pieces) > 1
        assert hashlib.sha256(b"".join(pieces)).digest() == hashlib.sha256(data).digest()

    assert server.accepted == 1


async def test_a_download_over_its_limit_pours_no_more_than_the_limit(
    outbound: Outbound, serve: Serve
) -> None:
    pieces: list[bytes] = []
    server = serve(endless(b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\n\r\n", KB))

    with pytest.raises(AnswerTooLarge):
        await download(outbound, server.url, pieces, max_bytes=1_000_000)

    assert 0 < sum(map(len, pieces)) <= 1_000_000


@pytest.mark.parametrize("length", ["Content-Length: 1000000\r\n", ""])
async def test_an_answer_that_is_not_wanted_is_cut_at_64_kib(
    outbound: Outbound, serve: Serve, length: str
) -> None:
    pieces: list[bytes] = []
    head = f"HTTP/1.1 200 OK\r\n{length}Content-Type: audio/mpeg\r\n\r\n".encode()
    server = serve(once(head + b"e" * 1_000_000))

    got = await download(outbound, server.url, pieces, wanted=False, max_bytes=100)

    assert (got.body, pieces) == (b"e" * 65_536, [])


async def test_a_short_answer_that_is_not_wanted_leaves_its_connection_for_the_next(
    outbound: Outbound, serve: Serve
) -> None:
    server = serve(answering(answer(b"why", "200 OK", "Content-Type: audio/mpeg")))

    for _ in range(2):
        assert (await download(outbound, server.url, [], wanted=False)).body == b"why"

    assert server.accepted == 1


@pytest.mark.parametrize("where", ["sink", "accept"])
async def test_what_the_caller_raises_ends_the_call_and_comes_out(
    outbound: Outbound, serve: Serve, where: str
) -> None:
    def full(*_: object) -> bool:
        raise OSError(28, "No space left on device")

    server = serve(answering(answer(KB)))
    with pytest.raises(OSError, match="No space left"):
        await outbound.download(
            "GET",
            server.url,
            headers={},
            body=None,
            deadline_s=5,
            answer_max_bytes=10_000,
            sink=full if where == "sink" else (lambda _: None),
            accept=full if where == "accept" else (lambda *_: True),
        )
    await server.until(lambda: server.open == 0)
