"""A large body is decoded and translated in a thread: the event loop serves others meanwhile."""

import asyncio
import threading
import time
from functools import partial

import msgspec
import pytest

from myna.http.body_limits import SMALL_BODY_BYTES, read_body
from myna.relay import plan, responses

pytestmark = pytest.mark.anyio

SIZE_BYTES = 930_000
LOOP_MAX_S = 0.02


def body_of(size_bytes: int) -> bytes:
    """A hostile body of POST /responses: as many items as fit."""
    item = {"role": "user", "content": "hi"}
    count = size_bytes // len(msgspec.json.encode(item))
    return msgspec.json.encode({"model": "m", "input": [item] * count})


async def test_a_large_response_request_takes_nothing_from_the_event_loop() -> None:
    body = body_of(SIZE_BYTES)
    began = time.thread_time()
    fields, given, referenced = await read_body(partial(responses.decoded, body), len(body), 1)
    translate = partial(responses.read, fields, given, None, refuses_hosted=False)
    read = await read_body(translate, len(body), 1)
    assert time.thread_time() - began < LOOP_MAX_S
    assert read.chat == plan.read(plan.CHAT, b'{"model":"m",' + read.chat.fields[1:])
    assert msgspec.json.decode(read.passed)["input"] == msgspec.json.decode(body)["input"]
    assert read.repeated == b'{"model":"m"}' and referenced == []


async def test_a_small_body_is_read_at_once() -> None:
    here = threading.get_ident()
    assert await read_body(threading.get_ident, SMALL_BODY_BYTES, 1) == here
    assert await read_body(threading.get_ident, SMALL_BODY_BYTES + 1, 1) != here


async def test_accounts_with_large_bodies_are_served_in_turn() -> None:
    order: list[int] = []
    may_read = threading.Event()

    def read(account: int) -> None:
        may_read.wait(60)
        order.append(account)

    many, one = 1, 2
    accounts = [many] * 4 + [one]
    waiting = [
        asyncio.create_task(read_body(partial(read, account), SIZE_BYTES, account)) for account in accounts
    ]
    await asyncio.sleep(0)
    may_read.set()
    await asyncio.gather(*waiting)
    assert order == [many, many, one, many, many]
