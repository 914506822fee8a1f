"""Threads for the disk's work, apart from those that everybody shares.

A disk that stands still (a network's, say) then holds up only who waits for it: neither others' work nor, as
far as Python goes, the end of the process, for which it has the threads of an executor waited for.
"""

import asyncio
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

PATIENCE_S = 1.0
"""How long who has given up waits for the disk to clear up behind it. Later it clears up all the same."""
AT_ONCE = 16
"""Each waits for the disk alone, on a thread that has nothing else to do."""
WAITING_MAX = 256
"""Of a kind of work. A disk behind which as much waits stands still, and what waits may have files open."""


class _Work(NamedTuple):
    outcome: Future[Any]
    run: Callable[[], object]


_Queue = SimpleQueue[_Work | None]


class DiskThreads:
    """Up to `many`, started as work comes. They end with this object, behind the work it was given."""

    def __init__(self, many: int) -> None:
        self._many, self._started = many, 0
        self._queue: _Queue = SimpleQueue()
        weakref.finalize(self, _end, self._queue, many)

    @property
    def waiting(self) -> int:
        """How much work no thread has taken yet."""
        return self._queue.qsize()

    def do(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Its outcome. Work whose future is cancelled before its turn isn't begun.

        No task, so nobody but its owner cancels it, not even the end of `asyncio.run`.
        """
        if self._started < self._many:
            Thread(target=_work_off, args=(self._queue,), name="disk", daemon=True).start()
            self._started += 1
        outcome: Future[T] = Future()
        self._queue.put(_Work(outcome, partial(copy_context().run, work)))
        return asyncio.wrap_future(outcome)


class Disk:
    """What is done with files, `at_once` of it at a time. Files get and lose their names in a thread apart,
    since all those that wait for bytes to be on disk may stand still."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._bytes, self._names = DiskThreads(at_once), DiskThreads(1)

    def full(self) -> bool:
        """Nothing more should be begun."""
        return max(self._bytes.waiting, self._names.waiting) >= WAITING_MAX

    async def done(self, work: Callable[[], T]) -> T:
        """What it gives. Once it is begun it goes on, also when its caller is cancelled."""
        return await self._bytes.do(work)

    async def named(self, work: Callable[[], T]) -> T:
        """The same for what only makes a name."""
        return await self._names.do(work)

    async def cleared(self, work: Callable[[], object]) -> None:
        """The same for what removes names. Who is cancelled waits all the same, PATIENCE_S at most, as
        everybody else."""
        await settled(self._names.do(work))


async def settled(done: "asyncio.Future[Any]", at_most_s: float = PATIENCE_S) -> None:
    """Waits for it, also when cancelled, but no longer than that; then passes the cancelling on.

    It isn't cancelled itself, and asyncio doesn't complain if nobody looks at what became of it.
    """
    done.add_done_callback(_look)
    loop = asyncio.get_running_loop()
    until, cancelled = loop.time() + at_most_s, False
    while not done.done() and (left := until - loop.time()) > 0:
        try:
            await asyncio.wait([done], timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


def _look(done: "asyncio.Future[Any]") -> None:
    if not done.cancelled():
        done.exception()


def _work_off(queue: _Queue) -> None:
    while work := queue.get():
        if work.outcome.set_running_or_notify_cancel():
            try:
                work.outcome.set_result(work.run())
            except BaseException as error:  # whatever it is belongs to the one who waits
                work.outcome.set_exception(error)
        del work  # not kept until the next one comes


def _end(queue: _Queue, many: int) -> None:
    for _ in range(many):
        queue.put(None)
