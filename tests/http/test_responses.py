"""A complete response is sent in one write, with the checks and the flow control of uvicorn's messages."""

from unittest.mock import AsyncMock

import pytest
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from myna.http.asgi import Request
from myna.http.connection import Protocol
from myna.http.responses import Response
from tests.http.local_server import LocalServer, local_server, until

pytestmark = pytest.mark.anyio


async def test_a_response_is_sent_without_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    send = AsyncMock(side_effect=AssertionError)
    monkeypatch.setattr(RequestResponseCycle, "send", send)
    async with local_server() as local:
        client = await local.connect()
        for _ in range(2):
            client.send(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc")
            assert await client.answer() == (200, b"3")
    assert not send.called


async def test_a_response_waits_until_the_client_reads() -> None:
    async with local_server() as local:
        client = await local.connect()
        client.ask("/blocked")
        await until(lambda: local.started == 1)
        (protocol,) = local.server.server_state.connections
        assert isinstance(protocol, Protocol)
        protocol.pause_writing()
        local.release.set()
        await until(lambda: bool(protocol.flow._is_writable_event._waiters))  # type: ignore[attr-defined]
        protocol.resume_writing()
        assert await client.answer() == (200, b"done")


@pytest.mark.parametrize("value", ["a\r\nx-more: b", "a\nb", "a\x00b"])
async def test_a_control_character_in_a_header_is_500(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    async def answer(self: LocalServer, request: Request) -> Response:
        return Response(b"ok", headers={"x-one": value})

    monkeypatch.setattr(LocalServer, "block", answer)
    async with local_server() as local:
        client = await local.connect()
        client.ask("/blocked")
        assert await client.answer() == (500, b"Internal Server Error")
