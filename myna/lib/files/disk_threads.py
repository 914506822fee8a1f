"""Daemon threads for blocking disk I/O, and as the event loop's default executor.

A stalled disk, for example a network file system, then blocks only the callers that wait for it: neither
other work nor the end of the process. At exit Python waits for all threads of a `ThreadPoolExecutor`, and for
all threads that are not daemons.
"""

import asyncio
import contextlib
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")

CLEANUP_WAIT_S = 1.0
"""How long a caller waits for its files to be removed. The removal completes in any case."""
THREADS = 16
QUEUE_MAX = 256
"""Queued jobs of one kind at which the disk counts as stalled. Queued jobs may have files open."""


_Queue = SimpleQueue[Callable[[], None] | None]


class DiskThreads(ThreadPoolExecutor):
    """Up to `threads_max` threads, started on demand. They end when this object is collected and the
    submitted jobs are done.

    The class is that which an event loop requires of its default executor; none of its threads is started.
    """

    def __init__(self, threads_max: int) -> None:
        super().__init__(threads_max)
        self._threads_max = threads_max
        self._started = 0
        self._queue: _Queue = SimpleQueue()
        finalizer = weakref.finalize(self, _stop, self._queue, threads_max)
        finalizer.atexit = False  # the process ends the daemon threads

    @property
    def queued(self) -> int:
        """Jobs that no thread has begun."""
        return self._queue.qsize()

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        """Queues a job. If its future is cancelled before a thread takes it, it is not begun. Raises
        RuntimeError if no thread can be started."""
        future: Future[T] = Future()
        self._put(partial(_end, future, partial(copy_context().run, fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Does not wait: running jobs end with the process."""

    def _put(self, job: Callable[[], None]) -> None:
        if self._started < self._threads_max:
            self._start()
        self._queue.put(job)

    def _start(self) -> None:
        """Counts the thread first: the garbage collector may run here, and a finalizer may submit work."""
        self._started += 1
        try:
            Thread(target=_run_jobs, args=(self._queue,), name="disk", daemon=True).start()
        except BaseException:
            self._started -= 1
            raise

    def run(self, work: Callable[[], T]) -> "asyncio.Future[T]":
        """Like `submit`, with a future of asyncio. It is not a task, so the end of `asyncio.run` does not
        cancel it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._put(partial(_end_in, loop, future, partial(copy_context().run, work)))
        return future


class DiskExecutor:
    """Runs file operations in threads. Creating and removing names has a thread to itself, since all threads
    that write data may be blocked by a stalled disk."""

    def __init__(self, threads: int = THREADS) -> None:
        self._data = DiskThreads(threads)
        self._metadata = DiskThreads(1)

    def full(self) -> bool:
        """True if callers should refuse new work."""
        return max(self._data.queued, self._metadata.queued) >= QUEUE_MAX

    async def run(self, work: Callable[[], T]) -> T:
        """Runs `work` in a thread and returns its result. Once begun, it completes even if the caller is
        cancelled."""
        return await self._data.run(work)

    async def run_metadata(self, work: Callable[[], T]) -> T:
        """Like `run`, for work that only creates a file or a folder."""
        return await self._metadata.run(work)

    async def clean_up(self, work: Callable[[], object]) -> None:
        """Runs `work`, which removes files, and waits for it CLEANUP_WAIT_S at most, even if cancelled."""
        await wait_shielded(self._metadata.run(work))


async def wait_shielded(future: "asyncio.Future[Any]", timeout_s: float = CLEANUP_WAIT_S) -> None:
    """Waits for the future up to `timeout_s`, even if the caller is cancelled; raises CancelledError after
    that.

    The future is not cancelled. Its exception is marked as retrieved, so asyncio logs nothing.
    """
    future.add_done_callback(_retrieve_exception)
    loop = asyncio.get_running_loop()
    deadline, cancelled = loop.time() + timeout_s, False
    while not future.done() and (left := deadline - loop.time()) > 0:
        try:
            await asyncio.wait([future], timeout=left)
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError


def _retrieve_exception(future: "asyncio.Future[Any]") -> None:
    if not future.cancelled():
        future.exception()


def _run_jobs(queue: _Queue) -> None:
    while job := queue.get():
        job()
        del job  # frees its result while the thread waits for the next one


def _end(future: Future[T], run: Callable[[], T]) -> None:
    """Runs a job in a thread, and ends its future."""
    if future.set_running_or_notify_cancel():
        try:
            future.set_result(run())
        except BaseException as error:  # the caller gets every exception
            future.set_exception(error)


def _end_in(loop: asyncio.AbstractEventLoop, future: "asyncio.Future[T]", run: Callable[[], T]) -> None:
    """Likewise with a future of this event loop, which may be closed when the job ends."""
    if future.cancelled():
        return
    end: Callable[[], None]
    try:
        end = partial(future.set_result, run())
    except BaseException as error:  # the caller gets every exception
        end = partial(future.set_exception, error)
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_unless_cancelled, future, end)


def _unless_cancelled(future: "asyncio.Future[T]", end: Callable[[], None]) -> None:
    if not future.cancelled():
        end()


def _stop(queue: _Queue, threads: int) -> None:
    for _ in range(threads):
        queue.put(None)
