"""Deadlines: who is over time is told so once, soon after; who is done is not."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from myna.deadlines import TICK_S, Deadlines

pytestmark = pytest.mark.anyio

SOON_S = 10.0


def future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


async def test_a_wait_is_told_that_its_time_is_over_not_before_and_soon_after() -> None:
    deadlines, waiting, told = Deadlines(), future(), future()
    begun = time.monotonic()
    deadlines.add(waiting, begun + 0.1, lambda: told.set_result(time.monotonic() - begun))
    async with asyncio.timeout(SOON_S):
        assert await told >= 0.1
    assert not waiting.done()


async def test_each_is_told_once_and_only_those_whose_time_is_over() -> None:
    deadlines, begun, told = Deadlines(), time.monotonic(), []
    everybody = [future() for _ in range(20)]
    for number, waiting in enumerate(everybody):
        until = begun + (0.01 if number % 2 else SOON_S)
        deadlines.add(waiting, until, partial(told.append, number))
    ends = future()
    deadlines.add(ends, begun + 5 * TICK_S, partial(ends.set_result, None))
    async with asyncio.timeout(SOON_S):
        await ends
    assert told == list(range(1, 20, 2))


async def test_who_is_done_is_not_told() -> None:
    deadlines, begun, told = Deadlines(), time.monotonic(), []
    done, other = future(), future()
    deadlines.add(done, begun, partial(told.append, "done"))
    deadlines.add(other, begun, partial(other.set_result, None))
    deadlines.remove(done)
    deadlines.remove(done)
    async with asyncio.timeout(SOON_S):
        await other
    assert told == []


async def test_one_that_is_told_may_take_others_away_and_bring_new_ones() -> None:
    deadlines, begun, told = Deadlines(), time.monotonic(), []
    first, second, last = future(), future(), future()

    def late() -> None:
        told.append("first")
        deadlines.remove(second)
        deadlines.add(last, begun, partial(last.set_result, None))

    deadlines.add(first, begun, late)
    deadlines.add(second, begun, partial(told.append, "second"))
    async with asyncio.timeout(SOON_S):
        await last
    assert told == ["first"]


async def test_nothing_is_looked_at_while_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    armed: list[float] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def counted(delay: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        if getattr(callback, "__self__", None) is deadlines:
            armed.append(delay)
        return call_later(delay, callback, *args)

    monkeypatch.setattr(loop, "call_later", counted)
    deadlines, waiting = Deadlines(), future()
    deadlines.add(waiting, time.monotonic() + SOON_S, waiting.cancel)
    deadlines.add(future(), time.monotonic(), waiting.cancel)
    assert armed == [TICK_S]
    with pytest.raises(asyncio.CancelledError):
        await waiting
    deadlines.remove(waiting)
    looks = len(armed)
    await asyncio.sleep(4 * TICK_S)
    assert len(armed) <= looks + 1


async def test_one_that_raises_is_reported_and_does_the_others_no_harm() -> None:
    loop, reported = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, told: reported.append(told["exception"]))
    deadlines, begun, fault = Deadlines(), time.monotonic(), RuntimeError("of its own")
    beside, later = future(), future()

    def fails() -> None:
        raise fault

    deadlines.add("one", begun, fails)
    deadlines.add("two", begun, partial(beside.set_result, None))
    deadlines.add("three", begun + 3 * TICK_S, partial(later.set_result, None))
    async with asyncio.timeout(SOON_S):
        await beside
        await later
    assert reported == [fault]


async def test_one_that_is_added_again_waits_anew() -> None:
    deadlines, begun, told = Deadlines(), time.monotonic(), []
    first, last = future(), future()

    def late() -> None:
        told.append("first")
        deadlines.add("second", begun + SOON_S, partial(told.append, "second"))
        first.set_result(None)

    deadlines.add("first", begun, late)
    deadlines.add("second", begun, partial(told.append, "too early"))
    deadlines.add("last", begun + 3 * TICK_S, partial(last.set_result, None))
    async with asyncio.timeout(SOON_S):
        await last
    assert first.done()
    assert told == ["first"]
