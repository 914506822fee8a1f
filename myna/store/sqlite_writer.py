"""What SQLite's writer does between two transactions: it hands its lock to a command, and makes checkpoints.

SQLite may starve one of two busy writers. So a command takes the file lock `write.lock` and creates the file
`write.request` while it has the lock. The serving writer checks between two transactions whether that file
exists, and if so waits until the lock is free. The check takes a microsecond; taking the lock would take a
hundred.

Checkpoints copy the write-ahead log into the database file without stopping the writer. A thread with its own
connection copies most of it. Under continuous writing that alone never reaches the end of the log, and the
log restarts only after all of it was copied. So once the log is long, the writer copies the small rest
between two transactions, and its next transaction restarts the log. Neither waits for readers: the log grows
while a long read needs it.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
from filelock import FileLock

YIELD_S = 1.0
"""How long the serving writer waits at most."""
WAIT_S = 10.0
POLL_S = 0.005
log = logging.getLogger(__name__)
CHECKPOINT_EVERY_S = 0.5
LONG_LOG_PAGES = 4096
"""The length (16 MiB) from which the writer copies the rest, so that the log restarts."""
CLOSE_MAX_S = 5.0
KEPT_LOG_BYTES = 64 * 2**20
"""A longer log file is truncated to this when it restarts."""


class WriterHandover:
    """The lock and the request file in a data folder."""

    def __init__(self, folder: Path) -> None:
        self._lock = FileLock(folder / "write.lock", thread_local=False)
        self._request = folder / "write.request"
        self._request_path = str(self._request)  # checked before every commit, where a Path is too slow

    @contextlib.contextmanager
    def acquire(self) -> Iterator[None]:
        """For a command: requests the write lock. Raises TimeoutError after WAIT_S."""
        with self._lock.acquire(timeout=WAIT_S):
            with contextlib.suppress(OSError):  # a full disk: the command then competes for SQLite's own lock
                self._request.touch()
            try:
                yield
            finally:
                self._request.unlink(missing_ok=True)

    def yield_lock(self) -> None:
        """For the serving writer: waits while a command has the lock, YIELD_S at most.

        A request whose lock is free was left by a killed process; it is removed.
        """
        if not os.path.exists(self._request_path):  # noqa: PTH110
            return
        try:
            with self._lock.acquire(timeout=YIELD_S, poll_interval=POLL_S):
                self._request.unlink(missing_ok=True)
        except OSError:  # a timeout, or a lock file of another user: calls must not wait longer
            return


class Checkpoints:
    """The thread. `connect` opens its connection; `to_writer` queues a job on the writer's thread."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        to_writer: Callable[[Callable[[apsw.Connection], object]], None],
    ) -> None:
        self._connect = connect
        self._to_writer = to_writer
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sqlite-checkpoints", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and its connection. Returns after CLOSE_MAX_S if the disk stalls."""
        self._stopped.set()
        self._thread.join(CLOSE_MAX_S)

    def _run(self) -> None:
        connection = self._connect()
        while not self._stopped.wait(CHECKPOINT_EVERY_S):
            if checkpoint(connection) > LONG_LOG_PAGES:
                self._to_writer(checkpoint)
        connection.close()


def checkpoint(db: apsw.Connection) -> int:
    """Copies all pages that no reader needs any more. Returns the length of the log in pages, 0 on
    failure."""
    try:
        pages, _ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.BusyError:  # another checkpoint runs
        return 0
    except apsw.Error as error:  # such as a full disk: the writer's callers get the error; retried later
        log.warning("a checkpoint failed: %s", type(error).__name__)
        return 0
    return pages
