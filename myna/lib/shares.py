"""Places of a pool, of which one holder gets at most its share: an account, an address or a channel that
takes all it can get leaves the rest to the others.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

H = TypeVar("H")


class Shares(Generic[H]):
    """`total` places in one process, of which a holder gets at most `share`. A holder that is empty, such as
    the address of a trusted proxy, has no share: only the total limits it. `refusal` makes the error for a
    holder that gets no place.

    Nobody waits with `take` and `place`. With `wait_for` the holders that wait get free places in turn.
    """

    def __init__(
        self,
        total: int,
        share: int,
        refusal: Callable[[], Exception],
    ) -> None:
        self.total = total
        self.share = share
        self.in_use = 0
        self._refusal = refusal
        self._places: dict[H, int] = {}
        self._waiting: dict[H, deque[tuple[asyncio.Future[None], int]]] = {}

    def take(self, holder: H, places: int = 1) -> None:
        """Takes places until `release`. Raises the refusal."""
        if not self.try_take(holder, places=places):
            raise self._refusal()

    def release(self, holder: H, places: int = 1) -> None:
        """Gives places back."""
        held = self._places.pop(holder) - places
        self.in_use -= places
        if held:
            self._places[holder] = held
        if self._waiting:
            self._serve()

    @contextlib.contextmanager
    def place(self, holder: H, places: int = 1) -> Iterator[None]:
        """Has places inside. Raises the refusal."""
        self.take(holder, places)
        try:
            yield
        finally:
            self.release(holder, places)

    def try_take(self, holder: H, share: int = 0, places: int = 1, *, is_next: bool = False) -> bool:
        """Takes places if there are as many, the holder may have them, by its `share` if it has another one,
        and does not wait for one, unless it `is_next`. Returns whether it did."""
        held = self._places.get(holder, 0) + places
        in_use = self.in_use + places
        if (held > (share or self.share) and holder) or in_use > self.total:
            return False
        if self._waiting and holder in self._waiting and not is_next:
            return False
        self._places[holder], self.in_use = held, in_use
        return True

    async def wait_for(self, holder: H, wait_s: float, share: int = 0) -> None:
        """Takes a place as `try_take` does, within `wait_s` seconds. Raises the refusal."""
        if self.try_take(holder, share):
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(holder, deque()).append((place, share))
        try:
            await asyncio.wait([place], timeout=wait_s)
        except asyncio.CancelledError:
            if place.done():
                self.release(holder)
            raise
        finally:
            if not place.done():
                self._forget(holder, (place, share))
        if not place.done():
            raise self._refusal()

    def _serve(self) -> None:
        """Gives the free places to the holders in turn."""
        for holder in list(self._waiting):
            if self.in_use >= self.total:
                return
            first = self._waiting[holder][0]
            if self.try_take(holder, first[1], is_next=True):
                self._forget(holder, first)
                if holder in self._waiting:
                    self._waiting[holder] = self._waiting.pop(holder)  # behind the others
                first[0].set_result(None)

    def _forget(self, holder: H, waiter: tuple["asyncio.Future[None]", int]) -> None:
        waiting = self._waiting[holder]
        waiting.remove(waiter)
        if not waiting:
            del self._waiting[holder]
