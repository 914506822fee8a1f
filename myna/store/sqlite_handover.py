"""Hands SQLite's write lock to the command line while the server writes without a pause.

SQLite may starve one of two busy writers. So a command takes the file lock `write.lock` and creates the file
`write.request` while it has the lock. The serving writer checks between two transactions whether that file
exists, and if so waits until the lock is free. The check takes a microsecond; taking the lock would take a
hundred.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock

YIELD_S = 1.0
"""How long the serving writer waits at most."""
WAIT_S = 10.0
POLL_S = 0.005


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
