"""Durable and atomic files, and daemon threads for blocking disk I/O (the event loop's default executor).

A stalled disk, for example a network file system, then blocks only the callers that wait for it: neither
other work nor the end of the process. At exit Python waits for all threads of a `ThreadPoolExecutor`, and for
all threads that are not daemons.
"""

import asyncio
import contextlib
import errno
import hashlib
import logging
import os
import secrets
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO, Final, TypeVar

log = logging.getLogger(__name__)
_BUFFER_BYTES: Final = 262_144
T = TypeVar("T")
FILE_MODE: Final = 0o600
FOLDER_MODE: Final = 0o700
"""Of private files and their folders: this user alone can read them."""
CLEANUP_WAIT_S = 1.0
"""How long a caller waits for its files to be removed. The removal completes in any case."""
THREADS = 16
QUEUE_MAX = 256
"""Queued jobs of one kind at which the disk counts as stalled. Queued jobs may have files open."""
_Queue = SimpleQueue[Callable[[], None] | None]


def make_durable(path: Path) -> None:
    """Waits until the file's data and its name are on disk. The writer may have closed it or be another
    process.

    Blocks on disk I/O, so it belongs in a thread. Raises OSError, on Linux also for a failed write since the
    writer closed the file, if the kernel has not dropped the error.
    """
    _sync(path, os.O_RDWR)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Makes new names in the folder durable."""
    _sync(folder, os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def remove(*paths: Path) -> None:
    """Removes the files of a failed job. A file that can't be removed is logged without its path, and no
    error is raised, since the caller reports its own."""
    for path in paths:
        try:
            path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            log.warning("a file of a failed job was not removed: %s", error.strerror)


class AtomicFile:
    """Writes to a temporary name in the folder of `path`; `commit` renames it to `path`.

    Pass `part` as the temporary name if another process has to remove it after a crash. Call `begin` first.
    `write` only copies bytes to the page cache and the hash, well under a millisecond for one read of a
    socket, so it may run on an event loop. The other methods do disk I/O and belong in a thread. `abort` and
    `undo` raise nothing; the others raise OSError.
    """

    def __init__(self, path: Path, part: Path | None = None) -> None:
        self.part = part or path.with_name(f".{secrets.token_hex(8)}.part")
        self.size_bytes = 0
        self._path = path
        self._hash = hashlib.sha256()
        self._file: BinaryIO | None = None
        self._name_lock = threading.Lock()
        self._aborted = False

    def begin(self) -> None:
        """Opens the file; creates the folder if it is missing."""
        self.part.parent.mkdir(parents=True, exist_ok=True)
        with self._name_lock:
            self._check_not_aborted()
            self._file = self.part.open("xb", buffering=_BUFFER_BYTES)

    def write(self, data: bytes) -> None:
        """Appends."""
        self._open.write(data)
        self._hash.update(data)
        self.size_bytes += len(data)

    def flush(self) -> None:
        """Makes the data written so far readable at `part`."""
        self._open.flush()

    @property
    def sha256(self) -> bytes:
        """Of the data written so far."""
        return self._hash.digest()

    def commit(self) -> tuple[int, bytes]:
        """Moves the file to its path, durably. Returns its size in bytes and its SHA-256."""
        self._open.flush()
        os.fsync(self._open.fileno())
        self._open.close()
        with self._name_lock:
            self._check_not_aborted()
            self.part.replace(self._path)
        sync_folder(self._path.parent)
        return self.size_bytes, self._hash.digest()

    def abort(self) -> None:
        """Removes the part. Idempotent. May run while `begin` or `commit` waits for the disk: a file that is
        not at its path yet never gets there."""
        with self._name_lock:
            self._aborted = True
        if self._file:
            with contextlib.suppress(OSError):  # closing flushes the buffer, which fails on a full disk
                self._file.close()
        remove(self.part)

    def undo(self) -> None:
        """Removes the part, and the file at its path."""
        self.abort()
        remove(self._path)

    @property
    def _open(self) -> BinaryIO:
        if self._file is None:
            raise ValueError("the file is not open")
        return self._file

    def _check_not_aborted(self) -> None:
        if self._aborted:
            raise FileNotFoundError(errno.ENOENT, "the file was aborted", str(self.part))


def write_atomically(
    path: Path, data: bytes, *, private: bool = False, owner: tuple[int, int] | None = None
) -> None:
    """Writes a file durably; an existing one is replaced by the whole new one. A `private` one, and a folder
    that is made for it, can be read by its user alone. Root may give both to an `owner`, a user and a group
    id. Raises OSError."""
    file = AtomicFile(path)
    try:
        if private:
            path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        file.begin()
        if private:
            file.part.chmod(FILE_MODE)
        if owner:
            for made in (path.parent, file.part):
                os.chown(made, *owner)
        file.write(data)
        file.commit()
    finally:
        file.abort()


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
        if self._started < self._threads_max:
            self._start()
        self._queue.put(partial(_end, future, partial(copy_context().run, fn, *args, **kwargs)))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Does not wait: running jobs end with the process."""

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
        return asyncio.wrap_future(self.submit(work))


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


def _stop(queue: _Queue, threads: int) -> None:
    for _ in range(threads):
        queue.put(None)
