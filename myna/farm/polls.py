"""Long polls of nodes. One query of the queue serves all of them: it returns the nodes that can do a queued
job.

A node has one poll in a process. A second one replaces the first.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable

from myna.lib.aio import cancel_and_wait
from myna.store.database import Database
from myna.store.queries.farm import able
from myna.wire.farm import Job

POLL_S = 0.05
"""Polling interval where the database has no notifications, and this process makes all commits but those of
commands."""
POLL_UNNOTIFIED_S = 0.25
"""The same where other processes serve too."""
POLL_NOTIFIED_S = 2.0
"""Polling interval where it has them: some events, such as a deadline, come without a commit."""
log = logging.getLogger(__name__)
CHECK_EVERY_S = 1.0
"""How often replaced polls and those of nodes that are disabled, draining or removed are ended, and how often
the queue is queried without a notification, such as after a cooldown."""
LATE_MAX_S = 5.0
"""How long after its timeout a poll waits for jobs that are being leased to it."""


class Notifications:
    """Notifications of one kind. `channel` is their name in the database."""

    def __init__(self, db: Database, channel: str) -> None:
        self._db = db
        self._channel = channel
        self._next = asyncio.Event()
        self._poll_s = POLL_S
        self._stop: Callable[[], Awaitable[None]] | None = None

    async def start(self) -> None:
        self._stop = await self._db.listen(self._channel, self.notify)
        if self._stop or not self._db.in_process:
            self._poll_s = POLL_NOTIFIED_S if self._stop else POLL_UNNOTIFIED_S

    async def close(self) -> None:
        """Stops listening and wakes all waiting tasks."""
        if self._stop:
            await self._stop()
        self.notify()

    def notify(self) -> None:
        """Wakes all tasks that wait now."""
        event, self._next = self._next, asyncio.Event()
        event.set()

    def next_event(self) -> asyncio.Event:
        """Set by the next notification. Get it before the query, or a commit in between is missed."""
        return self._next

    async def wait(self, event: asyncio.Event, timeout_s: float) -> None:
        """Returns after `event` is set, or when it is time to poll."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(timeout_s, self._poll_s)):
                await event.wait()


class Poll:
    """A poll for up to `jobs` jobs. `result` are the leased jobs, none if it ends early. `late`: it timed
    out."""

    def __init__(self, node_id: int, jobs: int) -> None:
        self.node_id = node_id
        self.jobs = jobs
        self.joined_at: int | None = None
        self.late = False
        self.result: asyncio.Future[list[Job]] = asyncio.get_running_loop().create_future()


class Polls:
    """The polls of one process. `lease` leases up to a number of jobs to a node. `requeue` requeues them, and
    raises only CancelledError."""

    def __init__(
        self,
        db: Database,
        work: Notifications,
        lease: Callable[[int, int], Awaitable[list[Job]]],
        requeue: Callable[[int, list[Job]], Awaitable[None]],
    ) -> None:
        self._db = db
        self._work = work
        self._lease = lease
        self._requeue = requeue
        self._waiting: dict[int, Poll] = {}
        self._replaced: list[Poll] = []
        self._leasing: Poll | None = None
        self._check_due = 0.0
        self._has_polls = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._serve(), name="polls")

    async def close(self) -> None:
        """Ends all polls."""
        if self._task:
            await cancel_and_wait(self._task)
        for poll in [*self._waiting.values(), *self._replaced]:
            _end(poll)

    async def wait(self, node_id: int, jobs: int, wait_s: float) -> list[Job]:
        """Jobs as soon as there are any; none after `wait_s` seconds, or if the poll ends early. Requeues
        jobs that are leased while it is cancelled."""
        poll = Poll(node_id, jobs)
        if replaced := self._waiting.pop(node_id, None):
            self._replaced.append(replaced)  # ends at the next check, so two clients of a node do not race
        self._waiting[node_id] = poll
        self._has_polls.set()
        self._work.notify()
        try:
            await asyncio.wait([poll.result], timeout=wait_s)
            if poll is self._leasing:  # a job may be leased to it now
                poll.late = True
                await asyncio.wait([poll.result], timeout=LATE_MAX_S)
            return poll.result.result() if poll.result.done() else []
        except asyncio.CancelledError:
            if poll.result.done() and not poll.result.exception():
                await self._requeue(node_id, poll.result.result())
            raise
        finally:
            poll.result.cancel()
            if self._waiting.get(node_id) is poll:
                del self._waiting[node_id]

    async def _serve(self) -> None:
        while True:
            if not self._waiting and not self._replaced:
                self._has_polls.clear()
                await self._has_polls.wait()
            event = self._work.next_event()
            try:
                await self._check()
                await self._lease_all()
            except (Exception, asyncio.CancelledError) as error:  # ends all polls; the next round retries
                if _cancelled():
                    raise
                for poll in list(self._waiting.values()):
                    _end(poll, error)
            await self._work.wait(event, CHECK_EVERY_S)

    async def _check(self) -> None:
        """Ends replaced polls, and those of nodes that are disabled, draining or removed, or have joined
        again."""
        if time.monotonic() < self._check_due:
            return
        self._check_due = time.monotonic() + CHECK_EVERY_S
        replaced, self._replaced = self._replaced, []
        for poll in replaced:
            _end(poll)
        join_times = await able.join_times(self._db)
        for poll in list(self._waiting.values()):
            joined_at = join_times.get(poll.node_id)
            if joined_at is None or poll.joined_at not in (None, joined_at):
                _end(poll)
            poll.joined_at = joined_at

    async def _lease_all(self) -> None:
        """Leases queued jobs to the waiting nodes, in the order of their polls."""
        capable = await able.able_nodes(self._db)
        for poll in list(self._waiting.values()) if capable else ():
            if poll.node_id in capable and not poll.result.done() and await self._lease_to(poll):
                capable = await able.able_nodes(self._db)

    async def _lease_to(self, poll: Poll) -> bool:
        self._leasing = poll
        try:
            jobs = await self._lease(poll.node_id, poll.jobs)
        except BaseException as error:
            _end(poll, error)
            raise
        finally:
            self._leasing = None
        if not poll.result.done():
            if jobs or poll.late:
                poll.result.set_result(jobs)
        elif jobs:  # the poll ended meanwhile
            await self._requeue(poll.node_id, jobs)
        return bool(jobs)


def _cancelled() -> bool:
    """Whether this task is being cancelled. A CancelledError can also come from a cancelled query."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _end(poll: Poll, error: BaseException | None = None) -> None:
    """Ends the poll with an Exception, or without jobs. A CancelledError of a query is not passed on."""
    if poll.result.done():
        return
    if isinstance(error, Exception):
        poll.result.set_exception(error)
    else:
        poll.result.set_result([])
