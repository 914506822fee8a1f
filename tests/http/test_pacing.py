"""Many large bodies at once do not block the event loop: other ready work runs between two of them."""

import asyncio
import contextlib
import json

import pytest

from myna.http.asgi import Request
from myna.http.asgi_types import BODY_COMPLETE, Message
from myna.http.body_limits import SMALL_BODY_BYTES, BodyBudget, BodyLimits
from tests.rig import processes
from tests.rig.calls import Wire
from tests.rig.service import ServiceMaker
from tests.rig.waiting import wait_until

LARGE = SMALL_BODY_BYTES + 1
COUNT = 8
NOTE_DECODES = """
from asyncio import get_running_loop
from myna.chat import complete
from myna.cli import main

iteration = 0
decode = complete.decode

def count():
    global iteration
    iteration += 1
    get_running_loop().call_soon(count)

def noted(body, shape):
    if not iteration:
        count()
    print(iteration, flush=True)
    return decode(body, shape)

complete.decode = noted
main(['serve'])
"""
"""Prints the number of the loop's iteration in which a body is decoded."""


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
        assert len(await Request(scope, receive, limits).body()) == size_bytes
        return iterations.number

    return await asyncio.gather(*map(read, sizes_bytes))


@pytest.mark.anyio
async def test_large_bodies_are_returned_in_order_one_per_loop_iteration() -> None:
    found = await read_at([LARGE] * COUNT)
    assert len(set(found)) == COUNT
    assert found == sorted(found)


@pytest.mark.anyio
async def test_a_small_body_does_not_wait_for_large_ones() -> None:
    *large, small = await read_at([*[LARGE] * COUNT, SMALL_BODY_BYTES])
    assert small == min(large)


@pytest.mark.anyio
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


def test_large_chats_that_arrive_together_are_decoded_one_per_loop_iteration(
    make_service: ServiceMaker,
) -> None:
    service = make_service(chat_url="parrot:", speech="none", program=("-c", NOTE_DECODES)).start()
    key = service.account().key().plain
    message = {"role": "user", "content": "h" * LARGE}
    body = json.dumps({"model": "svc-chat", "messages": [message]}).encode()
    head = (f"Authorization: Bearer {key}", f"Content-Length: {len(body)}", "Expect: 100-continue")
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(service.root_url)) for _ in range(COUNT)]
        for wire in wires:
            wire.head("POST /v1/chat/completions HTTP/1.1", *head)
            assert wire.socket.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        service.pause()
        wait_until(lambda: processes.state(service.pid) == "T", 60, "the service is stopped")
        for wire in wires:
            wire.send(body)
        service.resume()
        assert [wire.answer().status for wire in wires] == [200] * COUNT
    decoded_at = service.stdout.split()
    assert len(decoded_at) == len(set(decoded_at)) == COUNT
    assert service.stop() == 0
