"""Deadlines of many operations, checked by one timer.

A timer for each operation costs more than most operations take, and almost none of them ever fires.
"""

import asyncio
import math
import time
from collections.abc import Callable, Hashable

TICK_S = 0.05
"""The longest delay between a deadline and its callback on an idle event loop."""


class Timeouts:
    """The deadlines of one event loop. While there are none, no timer runs."""

    def __init__(self) -> None:
        self._entries: dict[Hashable, tuple[float, Callable[[], object]]] = {}
        self._scheduled = False

    def add(self, key: Hashable, deadline: float, callback: Callable[[], object]) -> None:
        """Calls `callback` once after `deadline`, a time of `time.monotonic()`, unless `key` is removed
        first. Adding the key again replaces its deadline."""
        self._entries[key] = (deadline, callback)
        if not self._scheduled:
            self._schedule()

    def remove(self, key: Hashable) -> None:
        """Does nothing if the key is unknown."""
        self._entries.pop(key, None)

    def __len__(self) -> int:
        return len(self._entries)

    def _expire(self) -> None:
        self._scheduled = False
        if self._entries:
            self._schedule()
        now = time.monotonic()
        for key in [key for key, (deadline, _) in self._entries.items() if deadline <= now]:
            deadline, callback = self._entries.get(key, (math.inf, None))
            if callback and deadline <= now:  # otherwise an earlier callback removed or replaced it
                del self._entries[key]
                _call(callback)

    def _schedule(self) -> None:
        self._scheduled = True
        asyncio.get_running_loop().call_later(TICK_S, self._expire)


def _call(callback: Callable[[], object]) -> None:
    """Reports an exception to the event loop, so that the other callbacks still run."""
    try:
        callback()
    except Exception as error:
        context = {"message": "a deadline's callback failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(context)


class Timer:
    """One call that may be put off: for what seldom has a deadline, or needs it to the millisecond."""

    def __init__(self) -> None:
        self._handle: asyncio.TimerHandle | None = None

    @property
    def runs(self) -> bool:
        return self._handle is not None

    def start(self, seconds: float, callback: Callable[[], object]) -> None:
        """Calls `callback` after so many seconds, in place of what was started before."""
        self.stop()
        self._handle = asyncio.get_running_loop().call_later(seconds, callback)

    def stop(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
