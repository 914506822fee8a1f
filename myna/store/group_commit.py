"""Many callers, one transaction: what queued up while the last commit was in flight goes into the next one.

A caller is told only after the COMMIT that holds its work. A batch whose outcome is unknown, because the
database went away in the middle, is sent again with the same ids until it is answered: what had been
committed counts as done, once. A batch that fails on its data is halved until the culprit stands alone.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from functools import partial

from myna.deadlines import Deadlines
from myna.errors import Overloaded
from myna.store.batch import (
    CallState,
    Charge,
    Charged,
    ChargeOutcome,
    End,
    EndOutcome,
    Refusal,
    Refused,
)
from myna.store.database import Database

log = logging.getLogger(__name__)

BATCH_MAX = 512
GATHER_MAX_S = 0.002
"""How long what came first may wait for more to be committed with it."""
BUSY_RETRY_S = 0.05
AWAY_RETRY_S = 0.1

Outcome = ChargeOutcome | EndOutcome


class Waiting:
    """An operation and the one who waits for it."""

    __slots__ = ("future", "operation", "perhaps_done")

    def __init__(self, operation: Charge | End, future: "asyncio.Future[Outcome]") -> None:
        self.operation, self.future = operation, future
        self.perhaps_done = False
        """It was sent, and what became of it isn't known yet."""


class GroupCommit:
    """The one way in which the call path writes. Belongs to the event loop that called `start`."""

    def __init__(self, db: Database, queue_max: int) -> None:
        self._db, self._queue_max = db, queue_max
        self._queue: deque[Waiting] = deque()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._resting = 0
        self._alone = True
        self._deadlines = Deadlines()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._work_off(), name="group-commit")

    @property
    def waiting(self) -> int:
        """Operations that no transaction has taken yet."""
        return len(self._queue)

    async def charge(self, charge: Charge, wait_s: float) -> ChargeOutcome:
        """Raises Overloaded before anything is charged, TimeoutError when `wait_s` passed.

        A charge that commits after its caller gave up is refunded at once.
        """
        if len(self._queue) >= self._queue_max:
            raise Overloaded
        return await self._wait(charge, wait_s)  # type: ignore[return-value]  # a charge has a charge's outcome

    async def end(self, end: End, wait_s: float | None) -> EndOutcome:
        """Never refused and never given up: after TimeoutError it is still on its way."""
        return await self._wait(end, wait_s)  # type: ignore[return-value]

    async def close(self, wait_s: float) -> None:
        """Waits up to `wait_s` for what is queued, then stops."""
        if self._task is None:
            return
        try:
            async with asyncio.timeout(wait_s):
                await self._idle.wait()
        except TimeoutError:
            log.error("%d operations were still waiting for the database at the end", len(self._queue))
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _wait(self, operation: Charge | End, wait_s: float | None) -> Outcome:
        """The outcome. It may arrive in the very moment in which the caller is told to stop waiting."""
        future = self._enqueue(operation)
        if wait_s is not None:
            self._deadlines.add(future, time.monotonic() + wait_s, partial(_give_up, future))
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled() and future.exception() is None:
                self._give_back(operation, future.result())
            raise
        finally:
            self._deadlines.remove(future)

    def _enqueue(self, operation: Charge | End) -> "asyncio.Future[Outcome]":
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._put(Waiting(operation, future))
        return future

    def _give_back(self, operation: Charge | End, outcome: Outcome) -> None:
        """Refunds a charge that nobody waits for any more."""
        if isinstance(outcome, Charged):
            self._enqueue(End(operation.call_id, CallState.REFUNDED, reason="the caller had gone"))

    def _put_again(self, waiting: Waiting) -> None:
        self._resting -= 1
        self._put(waiting)

    def _put(self, waiting: Waiting) -> None:
        self._queue.append(waiting)
        self._idle.clear()
        self._wake.set()

    async def _work_off(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._gather()
                if batch := self._take():
                    self._alone = len(batch) == 1
                    await self._commit(batch)
            if not self._resting:
                self._idle.set()

    async def _gather(self) -> None:
        """Lets the event loop go on for as long as each of its turns brings more, within GATHER_MAX_S.

        A transaction costs little more for many than for one, so where the loop and the database have one
        interpreter between them, fewer and larger ones leave more of it to the calls. A database of its own
        works beside the loop and is better kept busy. Where one came alone, the next may be alone too and
        isn't kept waiting.
        """
        if not self._db.computes_here or (self._alone and len(self._queue) == 1):
            return
        until, seen = time.monotonic() + GATHER_MAX_S, 0
        while seen < len(self._queue) < BATCH_MAX and time.monotonic() < until:
            seen = len(self._queue)
            await asyncio.sleep(0)

    def _take(self) -> list[Waiting]:
        """The next batch. A charge whose caller has gone before it was sent is dropped here."""
        batch: list[Waiting] = []
        while self._queue and len(batch) < BATCH_MAX:
            waiting = self._queue.popleft()
            unsent = isinstance(waiting.operation, Charge) and not waiting.perhaps_done
            if not (unsent and waiting.future.done()):
                batch.append(waiting)
        return batch

    async def _commit(self, batch: Sequence[Waiting]) -> None:
        ends = [waiting for waiting in batch if isinstance(waiting.operation, End)]
        charges = [waiting for waiting in batch if isinstance(waiting.operation, Charge)]
        while True:
            try:
                ended, charged = await self._db.commit_batch(
                    [waiting.operation for waiting in ends if isinstance(waiting.operation, End)],
                    [waiting.operation for waiting in charges if isinstance(waiting.operation, Charge)],
                )
            except self._db.away as error:
                log.warning(
                    "the database is away (%s); the batch of %d is sent again",
                    type(error).__name__,
                    len(batch),
                )
                for waiting in batch:
                    waiting.perhaps_done = True
                await asyncio.sleep(AWAY_RETRY_S)
            except Exception as error:
                await self._halve(batch, error)
                return
            else:
                break
        self._deliver(ends, ended)
        self._deliver(charges, charged)

    async def _halve(self, batch: Sequence[Waiting], error: Exception) -> None:
        """A data error says nothing of whose it is; alone, it is the one's."""
        if len(batch) > 1:
            middle = len(batch) // 2
            await self._commit(batch[:middle])
            await self._commit(batch[middle:])
            return
        (waiting,) = batch
        log.error("%s failed on its data", type(waiting.operation).__name__, exc_info=error)
        if not waiting.future.done():
            waiting.future.set_exception(error)

    def _deliver(self, batch: Sequence[Waiting], outcomes: Sequence[Outcome]) -> None:
        for waiting, outcome in zip(batch, outcomes, strict=True):
            if _busy(outcome):
                self._resting += 1
                asyncio.get_running_loop().call_later(BUSY_RETRY_S, self._put_again, waiting)
            elif waiting.future.done():
                self._give_back(waiting.operation, outcome)
            else:
                waiting.future.set_result(outcome)


def _busy(outcome: Outcome) -> bool:
    return outcome is EndOutcome.BUSY or (isinstance(outcome, Refused) and outcome.why is Refusal.BUSY)


def _give_up(future: "asyncio.Future[Outcome]") -> None:
    if not future.done():
        future.set_exception(TimeoutError())
