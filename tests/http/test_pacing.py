"""Many large bodies at once do not block the event loop: other ready work runs between two of them."""

import asyncio
import contextlib

import pytest

from myna.http.asgi_types import BODY_COMPLETE, Message
from myna.http.body_limits import SMALL_BODY_BYTES, BodyBudget, BodyLimits
from myna.http.request import Request
from myna.http.responses import Response
from myna.telemetry.requests import RequestDetails
from tests.http.local_server import LocalServer, local_server, until

pytestmark = pytest.mark.anyio

LARGE = SMALL_BODY_BYTES + 1000
COUNT = 8


class Iterations:
    """Counts the iterations of the running loop."""

    def __init__(self) -> None:
        self.number = 0
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self.number += 1
        asyncio.get_running_loop().call_soon(self._next)


async def read_at(sizes_bytes: list[int]) -> list[int]:
    """The iteration of the loop in which each body is returned. All bodies have arrived before."""
    limits, iterations = BodyLimits(2**20, 1.0, BodyBudget(2**24)), Iterations()

    async def read(size_bytes: int) -> int:
        async def receive() -> Message:
            return {"type": "http.request", "body": b"x" * size_bytes, "more_body": False}

        scope = {"headers": [(b"content-length", b"%d" % size_bytes)], BODY_COMPLETE: True}
        assert len(await Request(scope, receive, limits, RequestDetails()).body()) == size_bytes
        return iterations.number

    return await asyncio.gather(*map(read, sizes_bytes))


async def test_large_bodies_are_returned_in_order_one_per_loop_iteration() -> None:
    found = await read_at([LARGE] * COUNT)
    assert len(set(found)) == COUNT
    assert found == sorted(found)


async def test_a_small_body_does_not_wait_for_large_ones() -> None:
    *large, small = await read_at([*[LARGE] * COUNT, SMALL_BODY_BYTES])
    assert small == min(large)


async def test_a_cancelled_request_does_not_block_later_large_bodies() -> None:
    limits = BodyLimits(2**20, 1.0, BodyBudget(2**24))
    waiting = [asyncio.create_task(limits.pacer.wait()) for _ in range(COUNT)]
    await asyncio.sleep(0)
    for task in waiting[1:-1]:
        task.cancel()
    async with asyncio.timeout(60):
        await waiting[-1]
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*waiting)
        await limits.pacer.wait()


async def test_large_bodies_that_arrive_together_are_handled_one_per_loop_iteration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handled_at: list[int] = []

    async def handle(local: LocalServer, request: Request) -> Response:
        local.started += 1
        await request.body()
        handled_at.append(iterations.number)
        return Response(b"done")

    monkeypatch.setattr(LocalServer, "block", handle)
    async with local_server() as local:
        clients = [await local.connect() for _ in range(COUNT)]
        for client in clients:
            client.ask("/blocked", "POST", b"Content-Length: %d\r\n" % LARGE)
            client.send(b"x" * (LARGE - 1))
        await until(lambda: local.budget.in_use_bytes == COUNT * (LARGE - 1))
        iterations = Iterations()
        for client in clients:
            client.send(b"x")
        assert [await client.answer() for client in clients] == [(200, b"done")] * COUNT
    assert len(set(handled_at)) == COUNT
