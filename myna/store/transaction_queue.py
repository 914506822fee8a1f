"""A fair queue of transactions: an account that changes much delays neither charges nor other accounts.

Charges and ends are committed in batches of their own (`group_commit.py`). On SQLite these share one writer
with all other transactions, so only one of the others may be in the writer's queue: a batch waits for one
transaction, however many are waiting here.

Queries of pages, which have connections of their own, take turns in a second queue.

The back office names the owner of its transactions: the account, or the client's address before the sign-in.
Owners are served in turn, each has a share of the places, and only a bounded number may wait. All others,
such as the sweep or the lease of a job, have no owner: they are never refused, and get every second place.
"""

import contextlib
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar

from myna.errors import Overloaded, sentences
from myna.lib.shares import Shares, Waiter

OWNER_WAITING_MAX = 8
OWNER_READS_WAITING_MAX = 40
"""Transactions, and queries of pages, of one owner that may wait in a process: an account may have 20 live
parts of pages."""
OWNERS = 8
"""As many owners with as many that wait fill a queue."""
RETRY_AFTER_S = 1
_SYSTEM = ""
"""It has no share: see `Shares`."""
_owner: ContextVar[str] = ContextVar("transaction_owner", default=_SYSTEM)


@contextlib.contextmanager
def transactions_of(owner: str) -> Iterator[None]:
    """The transactions inside have this owner, unless an inner block names another."""
    token = _owner.set(owner)
    try:
        yield
    finally:
        _owner.reset(token)


class TransactionQueue(Shares[str]):
    """Lets `places` transactions run at a time, half of them of one owner at most; `waiting_max` of an owner
    may wait. Belongs to one event loop."""

    def __init__(self, places: int, waiting_max: int = OWNER_WAITING_MAX) -> None:
        super().__init__(places, (places + 1) // 2, lambda: Overloaded(sentences.CHANGES_WAIT, RETRY_AFTER_S))
        self._waiting_max = waiting_max

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Waits for a place, which the owner has inside. Raises Overloaded, and has done nothing, if too many
        are waiting."""
        owner, waiting = _owner.get(), self.waiting
        owners_wait = waiting.size - waiting.count(_SYSTEM)
        if owner != _SYSTEM and (
            owners_wait >= OWNERS * self._waiting_max or waiting.count(owner) >= self._waiting_max
        ):
            raise self.refusal()
        await self.wait_for(owner)
        try:
            yield
        finally:
            self.release(owner)

    def in_turn(self) -> list[Waiter[str]]:
        """The owners in turn; the system is first, unless it was served last."""
        system_was_last = self.waiting.last_served == _SYSTEM
        return sorted(super().in_turn(), key=lambda waiter: (waiter.holder == _SYSTEM) is system_was_last)
