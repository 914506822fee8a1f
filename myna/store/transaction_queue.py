"""A fair queue of transactions: an account that changes much delays neither charges nor other accounts.

Charges and ends are committed in batches of their own (`group_commit.py`). On SQLite these share one writer
with all other transactions, so only one of the others may be in the writer's queue: a batch waits for one
transaction, however many are waiting here.

Queries of pages, which have connections of their own, take turns in a second queue.

The back office names the owner of its transactions: the account, or the client's address before the sign-in.
Owners are served in turn, each has a share of the places, and only a bounded number may wait. All others,
such as the sweep or the lease of a job, have no owner: they are never refused, and get every second place.
"""

import asyncio
import contextlib
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar

from myna.errors import Overloaded, sentences

OWNER_WAITING_MAX = 8
OWNER_READS_WAITING_MAX = 40
"""Transactions, and queries of pages, of one owner that may wait in a process: an account may have 20 live
parts of pages."""
OWNERS = 8
"""As many owners with as many that wait fill a queue."""
RETRY_AFTER_S = 1
_SYSTEM = ""
_owner: ContextVar[str] = ContextVar("transaction_owner", default=_SYSTEM)


@contextlib.contextmanager
def transactions_of(owner: str) -> Iterator[None]:
    """The transactions inside have this owner, unless an inner block names another."""
    token = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(token)


class TransactionQueue:
    """Lets `places` transactions run at a time; `waiting_max` of an owner may wait. Belongs to one event
    loop."""

    def __init__(self, places: int, waiting_max: int = OWNER_WAITING_MAX) -> None:
        self._waiting_max = waiting_max
        self._free = places
        self._owner_max = (places + 1) // 2
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """By owner, the one to be served next first."""
        self._last_was_system = False

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Waits for a place. Raises Overloaded, and has done nothing, if too many are waiting."""
        owner = _owner.get()
        place = self._enqueue(owner)
        self._serve()
        try:
            if not place.done():
                await place
            yield
        finally:
            if place.done() and not place.cancelled():
                self._release(owner)
            else:
                self._forget(owner, place)

    def _enqueue(self, owner: str) -> "asyncio.Future[None]":
        waiting = sum(len(queue) for name, queue in self._waiting.items() if name != _SYSTEM)
        if owner != _SYSTEM and (
            waiting >= OWNERS * self._waiting_max or len(self._waiting.get(owner, ())) >= self._waiting_max
        ):
            raise Overloaded(sentences.CHANGES_WAIT, RETRY_AFTER_S)
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(owner, deque()).append(place)
        return place

    def _serve(self) -> None:
        while self._free and (owner := self._next()) is not None:
            place = self._waiting[owner][0]
            self._forget(owner, place)
            if place.cancelled():
                continue
            if owner in self._waiting:
                self._waiting[owner] = self._waiting.pop(owner)  # behind the other owners
            self._last_was_system = owner == _SYSTEM
            self._free -= 1
            self._running[owner] += 1
            place.set_result(None)

    def _next(self) -> str | None:
        """The owner to be served next; None if nobody waits, or only owners that have their share."""
        if _SYSTEM in self._waiting and not self._last_was_system:
            return _SYSTEM
        for owner in self._waiting:
            if owner != _SYSTEM and self._running[owner] < self._owner_max:
                return owner
        return _SYSTEM if _SYSTEM in self._waiting else None

    def _release(self, owner: str) -> None:
        self._free += 1
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]
        self._serve()

    def _forget(self, owner: str, place: "asyncio.Future[None]") -> None:
        waiting = self._waiting.get(owner)
        if waiting and place in waiting:
            waiting.remove(place)
            if not waiting:
                del self._waiting[owner]
