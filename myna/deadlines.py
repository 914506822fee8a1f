"""What is waited for, and until when: looked through a few times a second.

A timer for each wait costs more than most waits do, and hardly one in a million ever goes off.
"""

import asyncio
import time
from collections.abc import Callable, Hashable

TICK_S = 0.05
"""So late at most is a wait told that its time is over."""


class Deadlines:
    """The waits of one event loop. While there are none, nothing is looked at."""

    def __init__(self) -> None:
        self._waits: dict[Hashable, tuple[float, Callable[[], object]]] = {}
        self._looking = False

    def add(self, who: Hashable, until: float, late: Callable[[], object]) -> None:
        """`late` is called, once, if `time.monotonic()` is past `until` before `who` is removed or added
        again."""
        self._waits[who] = (until, late)
        if not self._looking:
            self._look_soon()

    def remove(self, who: Hashable) -> None:
        self._waits.pop(who, None)

    def _look(self) -> None:
        now = time.monotonic()
        over = [who for who, (until, _) in self._waits.items() if until <= now]
        for who in over:
            _, late = self._waits.pop(who, (now, _nothing))
            late()
        self._looking = False
        if self._waits:
            self._look_soon()

    def _look_soon(self) -> None:
        self._looking = True
        asyncio.get_running_loop().call_later(TICK_S, self._look)


def _nothing() -> None:
    """In place of what an earlier one of the same look has removed."""
