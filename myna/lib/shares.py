"""Fair shares: a queue that serves its keys in turn, and places of which one holder gets at most its share.

An account, an address or a channel that takes all it can get leaves the rest to the others.
"""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")
H = TypeVar("H", bound=Hashable)

_NO_KEY = object()


class FairQueue(Generic[T]):
    """Items by key: round robin over keys, first in, first out within a key.

    A new key goes last, and so does the key that was served last, if it has more items. Serving the key that
    was served longest ago would be as fair, but where many keys have one item each, all new keys would then
    go before a key that comes again.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[Hashable, deque[T]] = OrderedDict()  # next key first; no deque is empty
        self.last_served: Hashable = _NO_KEY
        """It goes to the end when the next key is chosen, so that keys added until then precede it."""
        self.size = 0
        """How many items wait."""

    def count(self, key: Hashable) -> int:
        """How many items of the key wait."""
        return len(self._waiting.get(key, ()))

    def put(self, key: Hashable, item: T) -> None:
        """Adds the item after all others of the key."""
        self._waiting.setdefault(key, deque()).append(item)
        self.size += 1

    def requeue(self, key: Hashable, item: T) -> None:
        """Puts an item that was taken and not served before all others of all keys."""
        self._waiting.setdefault(key, deque()).appendleft(item)
        self.size += 1
        self._waiting.move_to_end(key, last=False)
        if self.last_served == key:
            self.last_served = _NO_KEY

    def heads(self) -> Iterator[tuple[Hashable, T]]:
        """The keys in turn, each with its first item. Ends with the first change of the queue."""
        self._end_turn()
        for key, items in self._waiting.items():
            yield key, items[0]

    def take(self) -> T:
        """Removes and returns the next item. Raises IndexError if the queue is empty."""
        for key, item in self.heads():
            self.remove(key, item)
            return item
        raise IndexError("The queue is empty.")

    def served(self, key: Hashable) -> None:
        """Records that an item of the key was served: all other keys precede it now."""
        self._end_turn()
        self.last_served = key

    def remove(self, key: Hashable, item: T) -> bool:
        """Removes the item; False if it is not in the queue."""
        items = self._waiting.get(key, deque())
        try:
            items.remove(item)
        except ValueError:
            return False
        self.size -= 1
        if not items:
            del self._waiting[key]
        return True

    def _end_turn(self) -> None:
        if self.last_served in self._waiting:
            self._waiting.move_to_end(self.last_served)


class Waiter(NamedTuple, Generic[H]):
    """A holder that waits for a place."""

    holder: H
    place: "asyncio.Future[None]"


class Shares(Generic[H]):
    """`total` places in one process, of which a holder gets at most `share`. A holder that is empty, such as
    the address of a trusted proxy, has no share: only the total limits it. `refusal` makes the error for a
    holder that gets no place.

    Nobody waits with `take` and `place`. With `wait_for` the holders that wait get free places in turn.
    """

    def __init__(self, total: int, share: int, refusal: Callable[[], Exception]) -> None:
        self.total = total
        self.share = share
        self.in_use = 0
        self.waiting: FairQueue[Waiter[H]] = FairQueue()
        self.refusal = refusal
        self._places: dict[H, int] = {}

    def take(self, holder: H, places: int = 1) -> None:
        """Takes places until `release`. Raises the refusal."""
        if not self.try_take(holder, places):
            raise self.refusal()

    def release(self, holder: H, places: int = 1) -> None:
        """Gives places back."""
        held = self._places.pop(holder) - places
        self.in_use -= places
        if held:
            self._places[holder] = held
        if self.waiting.size:
            self._serve()

    @contextlib.contextmanager
    def place(self, holder: H, places: int = 1) -> Iterator[None]:
        """Has places inside. Raises the refusal."""
        self.take(holder, places)
        try:
            yield
        finally:
            self.release(holder, places)

    def try_take(self, holder: H, places: int = 1, *, is_next: bool = False) -> bool:
        """Takes places if there are as many, the holder may have them and does not wait for one, unless it
        `is_next`. Returns whether it did."""
        held = self._places.get(holder, 0) + places
        in_use = self.in_use + places
        if (held > self.share and holder) or in_use > self.total:
            return False
        if self.waiting.size and not is_next and self.waiting.count(holder):
            return False
        self._places[holder], self.in_use = held, in_use
        return True

    async def wait_for(self, holder: H, wait_s: float | None = None) -> None:
        """Takes a place as `try_take` does, within `wait_s` seconds. Raises the refusal."""
        if self.try_take(holder):
            return
        waiter = Waiter(holder, asyncio.get_running_loop().create_future())
        self.waiting.put(holder, waiter)
        try:
            await asyncio.wait([waiter.place], timeout=wait_s)
        except asyncio.CancelledError:
            if waiter.place.done():
                self.release(holder)
            raise
        finally:
            if not waiter.place.done():
                self.waiting.remove(holder, waiter)
        if not waiter.place.done():
            raise self.refusal()

    def in_turn(self) -> Iterable[Waiter[H]]:
        """The first waiter of each holder, the next one first."""
        return (waiter for _, waiter in self.waiting.heads())

    def _serve(self) -> None:
        """Gives the free places to the holders in turn."""
        while self.in_use < self.total:
            may_take = (one for one in self.in_turn() if self.try_take(one.holder, is_next=True))
            waiter = next(may_take, None)
            if waiter is None:
                return
            self.waiting.remove(waiter.holder, waiter)
            self.waiting.served(waiter.holder)
            waiter.place.set_result(None)
