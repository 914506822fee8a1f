"""CPU times that are judged by others of the same run, so that the verdict does not depend on the machine."""

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

from myna.errors import MynaError

BLOCKED_MAX = 1.0
"""In units of the reference, which takes 50 ms on a core of a small server."""
GROWTH_MAX = 12.0
"""Four times the input takes four times as long; a quadratic function sixteen times."""
RATIO_MIN = 0.1
"""Of the reference: below, a ratio of two times is noise."""

MEASURED_MAX = 5
"""How often what took too long is measured."""

Reader = Callable[[Any], object]


def reference(_: None) -> None:
    """Fixed work of the kind that is judged: objects, strings and dicts in C and in Python."""
    names = {str(number): [number] for number in range(50_000)}
    assert sum(len(name) for name in names) > 0
    assert len(json.loads(json.dumps(names))) == 50_000


def cpu_s(reader: Reader, given: object, runs: int = 5) -> float:
    """The least CPU time of so many runs, fewer where they take long; a refusal included."""
    times: list[float] = []
    for _ in range(runs):
        began = time.thread_time()
        with contextlib.suppress(MynaError):
            reader(given)
        times.append(time.thread_time() - began)
        if sum(times) > 0.5:
            break
    return min(times)


async def busiest_s(work: Awaitable[object]) -> float:
    """The most CPU time that this thread takes between two turns of the loop, until the work is done."""
    task = asyncio.ensure_future(work)
    longest, began = 0.0, time.thread_time()
    while not task.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        longest, began = max(longest, now - began), now
    await task
    return longest


def judge(name: str, reader: Reader, whole: Any, quarter: Any, reference_s: float) -> None:
    """What took too long is measured again, the reference beside it: other load on the machine only adds to a
    CPU time, and not to each of them alike."""
    fault = fault_of(cpu_s(reader, whole, 1), cpu_s(reader, quarter, 1), reference_s)
    for _ in range(MEASURED_MAX):
        if not fault:
            return
        fault = fault_of(cpu_s(reader, whole), cpu_s(reader, quarter), cpu_s(reference, None))
    raise AssertionError(f"{name}: {fault}")


def fault_of(took_s: float, quarter_s: float, reference_s: float) -> str:
    if took_s > BLOCKED_MAX * reference_s:
        return f"{took_s / reference_s:.2f} of the reference"
    long = took_s > RATIO_MIN * reference_s
    if long and took_s > GROWTH_MAX * max(quarter_s, RATIO_MIN * reference_s / 4):
        return f"{took_s / quarter_s:.1f} times as long for four times the input"
    return ""
