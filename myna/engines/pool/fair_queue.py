"""A fair queue: round robin over keys, first in, first out within a key.

A new key goes last, and so does the key that was served last, if it has more items. Serving the key that was
served longest ago would be as fair, but where many keys have one item each, all new keys would then go before
a key that comes again.
"""

from collections import OrderedDict, deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")

_NO_KEY = object()


class FairQueue(Generic[T]):
    """Items by key."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[T]] = OrderedDict()  # next key first; no deque is empty
        # The key served last goes to the end at the next `take`, so that keys added until then precede it.
        self._last_served: Hashable = _NO_KEY
        self.size = 0
        """How many items wait."""

    def put(self, key: Hashable, item: T) -> None:
        """Adds the item after all others of the key."""
        self._waiting.setdefault(key, deque()).append(item)
        self.size += 1

    def requeue(self, key: Hashable, item: T) -> None:
        """Puts an item that was taken and not served before all others of all keys."""
        self._waiting.setdefault(key, deque()).appendleft(item)
        self.size += 1
        self._waiting.move_to_end(key, last=False)
        if self._last_served == key:
            self._last_served = _NO_KEY

    def take(self) -> T:
        """Removes and returns the next item. Raises IndexError if the queue is empty."""
        if not self._waiting:
            raise IndexError("The queue is empty.")
        if self._last_served in self._waiting:
            self._waiting.move_to_end(self._last_served)
        key, items = next(iter(self._waiting.items()))
        item = items.popleft()
        self._taken(key)
        return item

    def served(self, key: Hashable) -> None:
        """Records that an item of the key was served: all other keys precede it now."""
        self._last_served = key

    def remove(self, key: Hashable, item: T) -> bool:
        """Removes the item; False if it is not in the queue."""
        items = self._waiting.get(key, ())
        if item not in items:
            return False
        self._waiting[key].remove(item)
        self._taken(key)
        return True

    def _taken(self, key: Hashable) -> None:
        self.size -= 1
        if not self._waiting[key]:
            del self._waiting[key]
