"""Timeouts: a callback runs once, soon after its deadline; a removed one never runs."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from myna.aio.timeouts import TICK_S, Timeouts

pytestmark = pytest.mark.anyio

SOON_S = 60.0


def future() -> "asyncio.Future[Any]":
    return asyncio.get_running_loop().create_future()


async def test_a_callback_runs_soon_after_its_deadline_and_not_before() -> None:
    timeouts, waiting, called = Timeouts(), future(), future()
    start = time.monotonic()
    timeouts.add(waiting, start + 0.1, lambda: called.set_result(time.monotonic() - start))
    async with asyncio.timeout(SOON_S):
        assert await called >= 0.1
    assert not waiting.done()


async def test_only_expired_callbacks_run_and_each_once() -> None:
    timeouts, start, called = Timeouts(), time.monotonic(), []
    waits = [future() for _ in range(20)]
    for number, waiting in enumerate(waits):
        deadline = start + (0.01 if number % 2 else SOON_S)
        timeouts.add(waiting, deadline, partial(called.append, number))
    ends = future()
    timeouts.add(ends, start + 5 * TICK_S, partial(ends.set_result, None))
    async with asyncio.timeout(SOON_S):
        await ends
    assert called == list(range(1, 20, 2))


async def test_a_removed_callback_does_not_run() -> None:
    timeouts, start, called = Timeouts(), time.monotonic(), []
    done, other = future(), future()
    timeouts.add(done, start, partial(called.append, "done"))
    timeouts.add(other, start, partial(other.set_result, None))
    timeouts.remove(done)
    timeouts.remove(done)
    async with asyncio.timeout(SOON_S):
        await other
    assert called == []


async def test_a_callback_may_remove_and_add_others() -> None:
    timeouts, start, called = Timeouts(), time.monotonic(), []
    first, second, last = future(), future(), future()

    def late() -> None:
        called.append("first")
        timeouts.remove(second)
        timeouts.add(last, start, partial(last.set_result, None))

    timeouts.add(first, start, late)
    timeouts.add(second, start, partial(called.append, "second"))
    async with asyncio.timeout(SOON_S):
        await last
    assert called == ["first"]


async def test_no_timer_runs_without_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    armed: list[float] = []
    loop = asyncio.get_running_loop()
    call_later = loop.call_later

    def counted(delay: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        if getattr(callback, "__self__", None) is timeouts:
            armed.append(delay)
        return call_later(delay, callback, *args)

    monkeypatch.setattr(loop, "call_later", counted)
    timeouts, waiting = Timeouts(), future()
    timeouts.add(waiting, time.monotonic() + SOON_S, waiting.cancel)
    timeouts.add(future(), time.monotonic(), waiting.cancel)
    assert armed == [TICK_S]
    with pytest.raises(asyncio.CancelledError):
        await waiting
    timeouts.remove(waiting)
    timers = len(armed)
    await asyncio.sleep(4 * TICK_S)
    assert len(armed) <= timers + 1


async def test_a_callback_that_raises_is_reported_and_the_others_run() -> None:
    loop, reported = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    timeouts, start, fault = Timeouts(), time.monotonic(), RuntimeError("broken")
    other, later = future(), future()

    def fails() -> None:
        raise fault

    timeouts.add("one", start, fails)
    timeouts.add("two", start, partial(other.set_result, None))
    timeouts.add("three", start + 3 * TICK_S, partial(later.set_result, None))
    async with asyncio.timeout(SOON_S):
        await other
        await later
    assert reported == [fault]


async def test_adding_a_key_again_replaces_its_deadline() -> None:
    timeouts, start, called = Timeouts(), time.monotonic(), []
    first, last = future(), future()

    def late() -> None:
        called.append("first")
        timeouts.add("second", start + SOON_S, partial(called.append, "second"))
        first.set_result(None)

    timeouts.add("first", start, late)
    timeouts.add("second", start, partial(called.append, "too early"))
    timeouts.add("last", start + 3 * TICK_S, partial(last.set_result, None))
    async with asyncio.timeout(SOON_S):
        await last
    assert first.done()
    assert called == ["first"]
