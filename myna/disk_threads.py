"""Threads for the disk's work, apart from those that everybody shares.

A disk that stands still (a network's, say) then holds up only who waits for it: neither others' work nor the
end of the process, for which Python has the threads of an executor waited for.
"""

import asyncio
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

PATIENCE_S = 1.0
"""How long who has given up waits for the disk to clear up behind it. Later it clears up all the same."""


class _Work(NamedTuple):
    outcome: Future[Any]
    run: Callable[[], object]


_Queue = SimpleQueue[_Work | None]


class DiskThreads:
    """`many` of them. They end with this object, or behind the work that was given to them before."""

    def __init__(self, many: int) -> None:
        self._queue: _Queue = SimpleQueue()
        for _ in range(many):
            Thread(target=_work_off, args=(self._queue,), name="disk", daemon=True).start()
        weakref.finalize(self, _end, self._queue, many)

    def do(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Its outcome. Work whose future is cancelled before its turn isn't begun.

        No task, so nobody but its owner cancels it, not even the end of `asyncio.run`.
        """
        outcome: Future[T] = Future()
        self._queue.put(_Work(outcome, work))
        return asyncio.wrap_future(outcome)


async def settled(done: "asyncio.Future[Any]", at_most_s: float = PATIENCE_S) -> None:
    """Waits for it, also when cancelled, but no longer than that; then passes the cancelling on.

    It isn't cancelled itself, and asyncio doesn't complain if nobody looks at what became of it.
    """
    done.add_done_callback(_look)
    loop = asyncio.get_running_loop()
    until, cancelled = loop.time() + at_most_s, None
    while not done.done() and (left := until - loop.time()) > 0:
        try:
            await asyncio.wait([done], timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled:
        raise cancelled


def _look(done: "asyncio.Future[Any]") -> None:
    if not done.cancelled():
        done.exception()


def _work_off(queue: _Queue) -> None:
    while work := queue.get():
        if work.outcome.set_running_or_notify_cancel():
            try:
                result = work.run()
            except BaseException as error:  # whatever it is belongs to the one who waits
                work.outcome.set_exception(error)
            else:
                work.outcome.set_result(result)
        del work  # not kept until the next one comes


def _end(queue: _Queue, many: int) -> None:
    for _ in range(many):
        queue.put(None)
