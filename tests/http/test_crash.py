"""An unhandled exception in the fallback application is answered once, in the envelope, and logged."""

import logging

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from myna.http.asgi import Application
from myna.http.asgi_types import Message
from myna.http.body_limits import BodyBudget, BodyLimits
from myna.http.fallback import answer_for
from myna.telemetry.access_log import AccessLog

pytestmark = pytest.mark.anyio


async def crash(request: Request) -> None:
    raise RuntimeError("a detail that is none of the caller's business")


async def test_an_unhandled_exception_of_the_fallback_is_a_500_in_the_envelope(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fallback = Starlette(
        routes=[Route("/boom", crash)],
        exception_handlers={Exception: answer_for},
    )
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
