"""What is waited for, and until when: looked through a few times a second.

A timer for each wait costs more than most waits do, and hardly one in a million ever goes off.
"""

import asyncio
import math
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

    def __len__(self) -> int:
        return len(self._waits)

    def _look(self) -> None:
        self._looking = False
        if self._waits:
            self._look_soon()
        now = time.monotonic()
        for who in [who for who, (until, _) in self._waits.items() if until <= now]:
            until, late = self._waits.get(who, (math.inf, None))
            if late and until <= now:  # else one of this look has removed it, or added it again
                del self._waits[who]
                _tell(late)

    def _look_soon(self) -> None:
        self._looking = True
        asyncio.get_running_loop().call_later(TICK_S, self._look)


def _tell(late: Callable[[], object]) -> None:
    """What one raises is the loop's to report, and no other's harm."""
    try:
        late()
    except Exception as error:
        told = {"message": "a deadline's callback failed", "exception": error}
        asyncio.get_running_loop().call_exception_handler(told)
