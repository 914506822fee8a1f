"""Clocks that a test moves: a deadline passes when the test says so, and not when the machine is slow."""

import asyncio
import time
from types import SimpleNamespace

import pytest


class Clock:
    """Seconds that a test moves; `clock()` is the time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class LoopClock:
    """The clock of the running event loop, which must be asyncio's own, not uvloop's.

    What measures a deadline with `loop.time()`, such as `asyncio.timeout`, sees the moved time; what reads
    `time.monotonic()` doesn't.
    """

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._real = self._loop.time
        self._loop.time = self._time  # type: ignore[method-assign]

    def move(self, seconds: float) -> None:
        """Advances the loop's time; timers that are due run in its next iteration."""
        self._ahead_s += seconds

    def _time(self) -> float:
        return self._real() + self._ahead_s


class MonotonicClock:
    """`time.monotonic()` of the named modules, which only `move` advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
        self.now = time.monotonic()
        for module in modules:
            monkeypatch.setattr(f"{module}.time", SimpleNamespace(monotonic=lambda: self.now))

    def move(self, seconds: float) -> None:
        self.now += seconds
