"""A queue whose turns go round: who has much waiting doesn't keep the others waiting.

Who comes is last, and so is who was served and has more. To put first whoever was served longest ago shares
as evenly, but where many come once each, all newcomers then go before one who comes again.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

_NOBODY = object()


class Turns(Generic[T]):
    """What waits, each under its turn, and in a turn who came first."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[T]] = OrderedDict()  # who is next first; no deque is empty
        self._last: Hashable = _NOBODY  # whose turn it was: who comes until the next one still goes before

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put(self, turn: Hashable, item: T) -> None:
        """Behind all that waits in this turn."""
        self._waiting.setdefault(turn, deque()).append(item)

    def put_back(self, turn: Hashable, item: T) -> None:
        """Before all that waits: it was taken, but nothing came of it."""
        self._waiting.setdefault(turn, deque()).appendleft(item)
        self._waiting.move_to_end(turn, last=False)
        if self._last == turn:
            self._last = _NOBODY

    def take(self) -> T:
        """Who is next, no longer waiting. Raises IndexError where nothing waits."""
        if not self._waiting:
            raise IndexError("Nothing waits.")
        if self._last in self._waiting:
            self._waiting.move_to_end(self._last)
        turn, waiting = next(iter(self._waiting.items()))
        item = waiting.popleft()
        self._tidy(turn)
        return item

    def served(self, turn: Hashable) -> None:
        """What was taken of this turn is worth it: all others go first now."""
        self._last = turn

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
