"""Group commit: operations that arrive while a commit is in flight are committed together in the next one.

A caller gets its outcome only after the COMMIT that includes its operation. A batch whose outcome is unknown,
because the connection was lost, is sent again with the same ids until the database answers: an operation that
was committed counts once. A batch that fails on its data is halved until the failing operation is alone.

An operation whose account or task another session has locked is omitted from its batch. It is contended, and
retried beside the other batches until the row is free, so it delays no other operation.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any

from msgspec import Struct

from myna.errors import CommitInDoubt, Overloaded
from myna.lib.aio import Timeouts
from myna.lib.ids import new_id
from myna.lib.telemetry import metrics, traces
from myna.store.batch import (
    CallState,
    Charge,
    Charged,
    ChargeOutcome,
    ChargeRefused,
    End,
    EndOutcome,
    RefusalReason,
)
from myna.store.database import Database

log = logging.getLogger(__name__)

BATCH_MAX = 512
GATHER_MAX_S = 0.002
"""How long the first operation of a batch may wait for more."""
ANSWER_GRACE_S = 1.0
"""How much longer a caller waits for a charge that is being committed."""
BUSY_RETRY_S = 0.05
UNAVAILABLE_RETRY_S = 0.1
CLOSE_POLL_S = 0.01
_BUSY = (EndOutcome.BUSY, ChargeRefused(RefusalReason.BUSY))

Outcome = ChargeOutcome | EndOutcome


class PendingOperation(Struct, eq=False):
    """An operation and the future of its caller. `sent`: it is being committed, or it is in doubt.
    `in_doubt`: it was sent, and its outcome is not known yet. `in_grace`: it timed out, and its caller waits
    ANSWER_GRACE_S for the commit in flight."""

    operation: Charge | End
    future: asyncio.Future[Outcome]
    sent: bool = False
    in_doubt: bool = False
    in_grace: bool = False

    @property
    def cancelled(self) -> bool:
        """Whether it is a charge that was never sent and whose caller has stopped waiting."""
        return self.future.done() and not self.sent and isinstance(self.operation, Charge)


class GroupCommit:
    """All writes of the call path. Belongs to the event loop that called `start`."""

    def __init__(self, db: Database, queue_max: int) -> None:
        self._db = db
        self._queue_max = queue_max
        self._queue: deque[PendingOperation] = deque()
        self._contended: deque[PendingOperation] = deque()
        """Omitted from a batch, since another session has locked its account or task."""
        self._retry_timers: dict[PendingOperation, asyncio.TimerHandle] = {}
        """Omitted more than once; contended again when the timer fires."""
        self._wake = asyncio.Event()
        self._contended_wake = asyncio.Event()
        self._unfinished = 0
        self._last_was_single = True
        self.charges = 0
        """How many charges it was asked to commit."""
        self._deadlines = Timeouts()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [
            asyncio.create_task(self._run(), name="group-commit"),
            asyncio.create_task(self._retry_contended(), name="group-commit-contended"),
        ]

    @property
    def waiting(self) -> int:
        """How many operations are queued."""
        return len(self._queue)

    def charge(self, charge: Charge, wait_s: float) -> Coroutine[Any, Any, ChargeOutcome]:
        """Commits a charge. Raises Overloaded if the queue is full, TimeoutError after `wait_s` if the charge
        was not sent (it never will be), CommitInDoubt if it was sent and has no outcome after `wait_s` or
        when the caller is cancelled.

        A charge that commits after its caller stopped waiting is refunded at once, unless a node has
        delivered.
        """
        if len(self._queue) >= self._queue_max:
            raise Overloaded
        self.charges += 1
        return self._wait(charge, wait_s)  # type: ignore[return-value]  # a charge has a ChargeOutcome

    def end(self, end: End, wait_s: float | None) -> Coroutine[Any, Any, EndOutcome]:
        """Commits an end. Never refused: after TimeoutError it is still committed later."""
        return self._wait(end, wait_s)  # type: ignore[return-value]

    async def try_commit(self) -> None:
        """Returns once a batch is committed, which may take long: whether charges are possible."""
        await self.end(End(new_id(), CallState.REFUNDED), None)  # of no call, so it changes nothing

    async def close(self, wait_s: float) -> None:
        """Waits up to `wait_s` for the queue to empty, then stops."""
        if not self._tasks:
            return
        until = time.monotonic() + wait_s
        while self._unfinished and time.monotonic() < until:  # noqa: ASYNC110  each call would set an event
            await asyncio.sleep(CLOSE_POLL_S)
        if self._unfinished:
            log.error("%d operations were still waiting for the database at the end", self._unfinished)
        for timer in self._retry_timers.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _wait(self, operation: Charge | End, wait_s: float | None) -> Outcome:
        """The outcome. It may arrive while the caller is being cancelled."""
        pending = self._enqueue(operation)
        future = pending.future
        began_ns = time.time_ns() if traces.tracer else 0
        if wait_s is not None:
            self._deadlines.add(future, time.monotonic() + wait_s, partial(self._expire, pending))
        try:
            return await future
        except asyncio.CancelledError:
            if not future.cancelled() and future.exception() is None:
                self._refund_charge(operation, future.result())
            if pending.sent and isinstance(operation, Charge):
                raise CommitInDoubt from None
            raise
        finally:
            self._deadlines.remove(future)
            if began_ns:
                traces.record("charge" if isinstance(operation, Charge) else "commit", began_ns)

    def _expire(self, pending: PendingOperation) -> None:
        """Ends the caller's wait. If the charge is being committed, the caller waits ANSWER_GRACE_S longer:
        usually the outcome arrives in that time."""
        if pending.future.done():
            return
        if not (pending.sent and isinstance(pending.operation, Charge)):
            pending.future.set_exception(TimeoutError())
        elif pending.in_doubt or pending.in_grace:
            pending.future.set_exception(CommitInDoubt())
        else:
            pending.in_grace = True
            until = time.monotonic() + ANSWER_GRACE_S
            self._deadlines.add(pending.future, until, partial(self._expire, pending))

    def _enqueue(self, operation: Charge | End) -> PendingOperation:
        pending = PendingOperation(operation, asyncio.get_running_loop().create_future())
        self._queue.append(pending)
        self._unfinished += 1
        self._wake.set()
        return pending

    def _refund_charge(self, operation: Charge | End, outcome: Outcome) -> None:
        """Refunds a charge whose caller has stopped waiting."""
        if isinstance(outcome, Charged):
            self._enqueue(End(operation.call_id, CallState.REFUNDED, reason="the caller stopped waiting"))

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._gather()
                batch = self._next_batch(self._queue)
                self._last_was_single = len(batch) == 1
                await self._commit(batch)

    async def _retry_contended(self) -> None:
        """Retries contended operations until their rows are free."""
        while True:
            await self._contended_wake.wait()
            self._contended_wake.clear()
            while self._contended:
                await self._commit(self._next_batch(self._contended), contended=True)

    def _defer(self, pending: PendingOperation, *, contended: bool) -> None:
        """Retries at once beside the other batches, or after BUSY_RETRY_S if it was contended before."""
        pending.sent = pending.in_doubt  # this try was rolled back
        if pending.in_grace:
            self._expire(pending)
        if contended:
            timer = asyncio.get_running_loop().call_later(BUSY_RETRY_S, self._retry, pending)
            self._retry_timers[pending] = timer
            return
        self._contended.append(pending)
        self._contended_wake.set()

    def _retry(self, pending: PendingOperation) -> None:
        del self._retry_timers[pending]
        self._defer(pending, contended=False)

    async def _gather(self) -> None:
        """Yields to the event loop as long as each of its iterations queues more, for GATHER_MAX_S at most.

        A transaction costs little more for many operations than for one. Where the database shares the
        interpreter with the loop, fewer and larger transactions leave more of it to the calls. A database
        server runs in parallel and is better kept busy. After a batch of one, a single operation does not
        wait.
        """
        if not self._db.in_process or (self._last_was_single and len(self._queue) == 1):
            return
        until, seen = time.monotonic() + GATHER_MAX_S, 0
        while seen < len(self._queue) < BATCH_MAX and time.monotonic() < until:
            seen = len(self._queue)
            await asyncio.sleep(0)

    def _next_batch(self, queue: deque[PendingOperation]) -> list[PendingOperation]:
        """The next batch. It may contain cancelled operations."""
        return [queue.popleft() for _ in range(min(len(queue), BATCH_MAX))]

    async def _commit(self, batch: Sequence[PendingOperation], *, contended: bool = False) -> None:
        while True:
            try:
                await self._db.ready(contended=contended)
                ends: dict[PendingOperation, End] = {}
                charges: dict[PendingOperation, Charge] = {}
                for pending in batch:
                    if pending.cancelled:
                        self._unfinished -= 1
                        continue
                    pending.sent = True
                    if isinstance(pending.operation, End):
                        ends[pending] = pending.operation
                    else:
                        charges[pending] = pending.operation
                batch = [*ends, *charges]
                if not batch:
                    return
                began = time.monotonic()
                ended, charged = await self._db.commit_batch(
                    list(ends.values()), list(charges.values()), contended=contended
                )
            except self._db.locked:
                await self._defer_or_halve(batch, contended=contended)
                return
            except self._db.unavailable as error:
                log.warning(
                    "the database is unavailable (%s); the batch of %d is sent again",
                    type(error).__name__,
                    len(batch),
                )
                for pending in batch:
                    self._note_failure(pending, rolled_back=self._db.rolled_back(error))
                await asyncio.sleep(UNAVAILABLE_RETRY_S)
            except Exception as error:
                if len(batch) > 1:
                    await self._halve(batch, contended=contended)
                else:
                    self._fail(batch[0], error)
                return
            else:
                metrics.observed[metrics.COMMIT_SECONDS].append(time.monotonic() - began)
                break
        for pending, outcome in zip(batch, [*ended, *charged], strict=True):
            self._deliver(pending, outcome, contended=contended)

    def _note_failure(self, pending: PendingOperation, *, rolled_back: bool) -> None:
        """Notes that a try failed. After one that was `rolled_back`, the operation counts as not sent."""
        if rolled_back:
            pending.sent = pending.in_doubt
        pending.in_doubt = pending.sent
        if rolled_back and pending.in_grace:
            self._expire(pending)

    async def _defer_or_halve(self, batch: Sequence[PendingOperation], *, contended: bool) -> None:
        """A lock wait timed out. The batch becomes contended, and a contended batch is halved, so that in the
        end only the operation whose row or table is locked waits."""
        if contended and len(batch) > 1:
            for pending in batch:
                pending.sent = pending.in_doubt  # this try was rolled back
            await self._halve(batch, contended=True)
            return
        for pending in batch:
            self._defer(pending, contended=contended)

    async def _halve(self, batch: Sequence[PendingOperation], *, contended: bool) -> None:
        """An error does not tell which operation caused it, so each half is tried alone."""
        middle = len(batch) // 2
        await self._commit(batch[:middle], contended=contended)
        await self._commit(batch[middle:], contended=contended)

    def _fail(self, pending: PendingOperation, error: Exception) -> None:
        log.error("%s failed on its data", type(pending.operation).__name__, exc_info=error)
        if not pending.future.done():
            pending.future.set_exception(error)
        self._unfinished -= 1

    def _deliver(self, pending: PendingOperation, outcome: Outcome, *, contended: bool) -> None:
        if outcome in _BUSY:
            self._defer(pending, contended=contended)
            return
        if pending.future.done():
            self._refund_charge(pending.operation, outcome)
        else:
            pending.future.set_result(outcome)
        self._unfinished -= 1
