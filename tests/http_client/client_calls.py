"""Requests and timing of the client's tests."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from myna.http.client import ClientResponse, HttpClient
from tests.rig.waiting import SOON_S

HEADERS: Mapping[str, str] = {"Content-Type": "application/json", "Authorization": "Bearer top-secret"}
BODY = b'{"text":"' + b"x" * 500 + b'"}'


async def post(
    outbound: HttpClient,
    url: str,
    body: bytes = BODY,
    *,
    headers: Mapping[str, str] = HEADERS,
    deadline_s: float = SOON_S,
    answer_max_bytes: int = 100_000,
) -> ClientResponse:
    """A POST as the chat sends it."""
    return await outbound.request(
        "POST", url, headers=headers, body=body, deadline_s=deadline_s, answer_max_bytes=answer_max_bytes
    )


async def get(outbound: HttpClient, url: str, *, deadline_s: float = SOON_S) -> ClientResponse:
    return await outbound.request(
        "GET", url, headers={}, body=None, deadline_s=deadline_s, answer_max_bytes=100_000
    )


def connections_of(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Transport]:
    """The transports of the connections that the event loop makes from now on."""
    loop, made = asyncio.get_running_loop(), []
    connect = loop.create_connection

    async def recorded(*args: Any, **options: Any) -> Any:
        transport, protocol = await connect(*args, **options)
        made.append(transport)
        return transport, protocol

    monkeypatch.setattr(loop, "create_connection", recorded)
    return made


class Stopwatch:
    """Seconds since its creation, by the clock of the event loop."""

    def __init__(self) -> None:
        self._start = asyncio.get_running_loop().time()

    def seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._start
