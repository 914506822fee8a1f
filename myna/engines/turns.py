"""A queue whose turns come round: who has much waiting doesn't keep the others waiting."""

import itertools
from collections import deque
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

# Who was served longest ago is forgotten first, and then counts as never served: the same place in the line.
_REMEMBERED_MAX: Final = 10_000


class Turns(Generic[T]):
    """What waits, each under its turn.

    Next is the turn that was served longest ago, and in a turn who came first.
    """

    def __init__(self) -> None:
        self._waiting: dict[Hashable, deque[T]] = {}  # no deque is empty
        self._served: dict[Hashable, int] = {}  # when a turn was served last, the latest at the end
        self._clock = itertools.count(1)

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put(self, turn: Hashable, item: T) -> None:
        """Behind all that waits in this turn."""
        self._waiting.setdefault(turn, deque()).append(item)

    def put_back(self, turn: Hashable, item: T) -> None:
        """Before all that waits: it was taken, but nothing came of it."""
        self._waiting.setdefault(turn, deque()).appendleft(item)
        self._served.pop(turn, None)

    def take(self) -> T:
        """Who is next, no longer waiting. Raises IndexError where nothing waits."""
        if not self._waiting:
            raise IndexError("Nothing waits.")
        turn = min(self._waiting, key=lambda turn: self._served.get(turn, 0))
        item = self._waiting[turn].popleft()
        self._tidy(turn)
        return item

    def served(self, turn: Hashable) -> None:
        """What was taken last is worth its turn: all others go first now."""
        self._served.pop(turn, None)
        self._served[turn] = next(self._clock)
        if len(self._served) > _REMEMBERED_MAX:
            del self._served[next(iter(self._served))]

    def remove(self, turn: Hashable, item: T) -> bool:
        """Takes this one out; False when it doesn't wait."""
        waiting = self._waiting.get(turn, ())
        if item not in waiting:
            return False
        self._waiting[turn].remove(item)
        self._tidy(turn)
        return True

    def _tidy(self, turn: Hashable) -> None:
        if not self._waiting[turn]:
            del self._waiting[turn]
