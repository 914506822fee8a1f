"""Responses: streamed and whole."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from myna.http.exchange import ResponseStream
from myna.http.request import Request
from myna.http.responses import Response
from tests.http.local_server import WAIT_S, LocalServer, RawConnection, local_server
from tests.rig.waiting import until

Handler = Callable[[LocalServer, Request], Awaitable[ResponseStream | Response]]
TYPE = b"text/event-stream"
HIGH_WATER_BYTES = 65536


async def head(client: RawConnection) -> bytes:
    return await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), WAIT_S)


async def rest(client: RawConnection) -> bytes:
    return await asyncio.wait_for(client.reader.read(), WAIT_S)


@contextlib.asynccontextmanager
async def asked(
    monkeypatch: pytest.MonkeyPatch, handler: Handler
) -> AsyncIterator[tuple[LocalServer, RawConnection]]:
    """A server whose `/blocked` is handled so, and a client that has asked for it."""
    monkeypatch.setattr(LocalServer, "block", handler)
    async with local_server() as local:
        client = await local.connect()
        client.ask()
        yield local, client


async def test_each_part_is_a_chunk_that_leaves_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(local: LocalServer, request: Request) -> ResponseStream:
        stream = request.stream()
        stream.start({"X-Units-Cost": "1"}, TYPE)
        stream.write(b"one")
        await local.release.wait()
        stream.write(b"")
        stream.write(b"three" * 4)
        stream.end()
        return stream

    async with asked(monkeypatch, answer) as (local, client):
        lines = (await head(client)).lower().split(b"\r\n")
        assert lines[0] == b"http/1.1 200 ok"
        for line in (b"content-type: text/event-stream", b"transfer-encoding: chunked", b"x-units-cost: 1"):
            assert line in lines
        assert any(line.startswith(b"x-request-id: ") for line in lines)
        assert await client.reader.readexactly(8) == b"3\r\none\r\n"
        local.release.set()
        assert await client.reader.readexactly(31) == b"14\r\n" + b"three" * 4 + b"\r\n0\r\n\r\n"
        client.ask()
        assert (await head(client)).startswith(b"HTTP/1.1 200 OK")  # the connection is used again


async def test_an_http_1_0_client_gets_the_body_without_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(local: LocalServer, request: Request) -> ResponseStream:
        stream = request.stream()
        stream.start({}, TYPE)
        stream.write(b"one")
        stream.write(b"two")
        stream.end()
        return stream

    monkeypatch.setattr(LocalServer, "block", answer)
    async with local_server() as local:
        client = await local.connect()
        client.send(b"GET /blocked HTTP/1.0\r\n\r\n")
        assert b"transfer-encoding" not in (await head(client)).lower()
        assert await rest(client) == b"onetwo"


async def test_an_exception_before_the_start_is_an_error_response(monkeypatch: pytest.MonkeyPatch) -> None:
    async def answer(local: LocalServer, request: Request) -> ResponseStream:
        request.stream()
        raise RuntimeError("a handler that fails")

    async with asked(monkeypatch, answer) as (_, client):
        status, body = await client.answer()
        assert status == 500 and b"server_error" in body


@pytest.mark.parametrize("error", [RuntimeError, asyncio.CancelledError])
async def test_an_exception_after_the_start_closes_without_the_last_chunk(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    async def answer(local: LocalServer, request: Request) -> ResponseStream:
        stream = request.stream()
        stream.start({}, TYPE)
        stream.write(b"one")
        raise error

    async with asked(monkeypatch, answer) as (local, client):
        await head(client)
        assert await rest(client) == b"3\r\none\r\n"
        await until(lambda: local.connections == 0)


async def test_a_page_of_the_fallback_application_can_stream() -> None:
    async with local_server() as local:
        client = await local.connect()
        for _ in range(2):  # the connection is used again
            client.ask("/streamed")
            assert (await head(client)).startswith(b"HTTP/1.1 200 OK")
            assert await client.reader.readexactly(13) == b"3\r\none\r\n0\r\n\r\n"
        client.ask("/streamed?fails")
        await head(client)
        assert await rest(client) == b"3\r\none\r\n"
        await until(lambda: b"".join(local.logged).count(b'"status":200') == 3)


@pytest.mark.parametrize("how", ["reset", "end of file"])
async def test_a_disconnect_is_reported_at_once(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    reported = asyncio.Event()
    seen: list[ResponseStream] = []

    async def answer(local: LocalServer, request: Request) -> ResponseStream:
        stream = request.stream()
        stream.on_disconnect = reported.set
        local.started += 1
        await local.release.wait()
        stream.start({}, TYPE)
        stream.write(b"unread")
        await stream.drained()
        stream.end()
        seen.append(stream)
        return stream

    async with asked(monkeypatch, answer) as (local, client):
        await until(lambda: local.started == 1)
        if how == "reset":
            client.reset()
        else:
            client.writer.write_eof()
        await asyncio.wait_for(reported.wait(), WAIT_S)
        local.release.set()
        await until(lambda: bool(seen))
        assert seen[0].disconnected and not seen[0].sent
        await until(lambda: local.connections == 0)


async def test_a_client_that_does_not_read_pauses_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    part = b"x" * 16_000
    written = 0

    async def answer(local: LocalServer, request: Request) -> ResponseStream:
        nonlocal written
        stream = request.stream()
        stream.on_pause = lambda: events.append("pause")
        stream.on_resume = lambda: events.append("resume")
        stream.start({}, TYPE)
        while not events:
            stream.write(part)
            written += 1
            await asyncio.sleep(0)
        await stream.drained()
        stream.end()
        return stream

    # The client's reader stops reading soon, as nobody takes anything from it.
    async with asked(monkeypatch, answer) as (local, client):
        await until(lambda: events == ["pause"])
        (protocol,) = local.server.server_state.connections
        assert protocol.transport.get_write_buffer_size() <= HIGH_WATER_BYTES + len(part) + 100
        await head(client)
        async with asyncio.timeout(WAIT_S):
            body = b""
            while not body.endswith(b"\r\n0\r\n\r\n"):
                body += await client.reader.read(65536)
        assert body.count(b"x") == written * len(part)
        assert events == ["pause", "resume"]


async def test_a_response_waits_until_the_client_reads() -> None:
    async with local_server() as local:
        client = await local.connect()
        for _ in range(2):  # the second one is made while the first one is not read
            client.ask("/large")
        await until(lambda: len(local.logged) == 1)
        assert [await client.answer() for _ in range(2)] == [(200, b"x" * 8_000_000)] * 2


@pytest.mark.parametrize("value", ["a\r\nx-more: b", "a\nb", "a\x00b"])
@pytest.mark.parametrize("streams", [False, True])
async def test_a_control_character_in_a_header_is_500(
    monkeypatch: pytest.MonkeyPatch, value: str, streams: bool
) -> None:
    async def answer(local: LocalServer, request: Request) -> ResponseStream | Response:
        if streams:
            request.stream().start({"x-one": value}, TYPE)
        return Response(b"ok", headers={"x-one": value})

    async with asked(monkeypatch, answer) as (_, client):
        assert (await client.answer())[0] == 500
