"""Complete responses: one waits until its client reads, and what fails is answered with 500."""

import logging

import pytest
import starlette.requests
from starlette.applications import Starlette
from starlette.routing import Route

from myna.http.asgi import Application
from myna.http.asgi_types import Message
from myna.http.body_limits import BodyBudget, BodyLimits
from myna.http.fallback import answer_for
from myna.http.request import Request
from myna.http.responses import Response
from myna.telemetry.access_log import AccessLog
from tests.http.local_server import LocalServer, local_server, until

pytestmark = pytest.mark.anyio


async def test_a_response_waits_until_the_client_reads() -> None:
    async with local_server() as local:
        client = await local.connect()
        for _ in range(2):  # the second one is made while the first one is not read
            client.ask("/large")
        await until(lambda: len(local.logged) == 1)
        assert [await client.answer() for _ in range(2)] == [(200, b"x" * 8_000_000)] * 2


@pytest.mark.parametrize("value", ["a\r\nx-more: b", "a\nb", "a\x00b"])
async def test_a_control_character_in_a_header_is_500(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    async def answer(self: LocalServer, request: Request) -> Response:
        return Response(b"ok", headers={"x-one": value})

    monkeypatch.setattr(LocalServer, "block", answer)
    async with local_server() as local:
        client = await local.connect()
        client.ask("/blocked")
        assert await client.answer() == (500, b"Internal Server Error")


async def crash(request: starlette.requests.Request) -> None:
    raise RuntimeError("a detail that is none of the caller's business")


async def test_an_unhandled_exception_of_the_fallback_is_a_500_in_the_envelope(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fallback = Starlette(routes=[Route("/boom", crash)], exception_handlers={Exception: answer_for})
    edge = Application(
        routes={}, fallback=fallback, limits=BodyLimits(1, 1, BodyBudget(1)), access=AccessLog(len)
    )
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "GET", "path": "/boom", "headers": [], "query_string": b""}
    with caplog.at_level(logging.ERROR):
        await edge(scope, receive, send)
    assert [message["type"] for message in sent].count("http.response.start") == 1
    assert sent[0]["status"] == 500
    assert b'"type":"server_error","code":500' in sent[1]["body"]
    assert b"business" not in sent[1]["body"]
    assert "business" in caplog.text
