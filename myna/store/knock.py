"""How the command line gets in while a server writes without a pause.

SQLite lets one of two busy writers starve. So whoever has a moment's work takes the `knock` lock and leaves a
mark beside it for as long; the serving writer looks for the mark between two transactions, which costs a
microsecond where a lock costs a hundred, and steps aside until the lock is free.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock

YIELD_S = 1.0
"""How long the serving writer steps aside at most."""
WAIT_S = 10.0
POLL_S = 0.005


class Knock:
    """The lock and the mark in a data folder."""

    def __init__(self, folder: Path) -> None:
        self._lock = FileLock(folder / "knock.lock", thread_local=False)
        self._mark = folder / "knock"
        self._mark_name = str(
            self._mark
        )  # asked for before every commit: a Path would cost more than the look

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """For the one who comes in. Raises TimeoutError when others have held it for WAIT_S."""
        with self._lock.acquire(timeout=WAIT_S):
            with contextlib.suppress(OSError):  # a full disk: then it takes turns as SQLite lets it
                self._mark.touch()
            try:
                yield
            finally:
                self._mark.unlink(missing_ok=True)

    def make_way(self) -> None:
        """For the serving writer: waits while somebody knocks, then goes on regardless.

        A mark whose lock is free was left by a process that was killed; it is taken away.
        """
        if not os.path.exists(self._mark_name):  # noqa: PTH110
            return
        try:
            with self._lock.acquire(timeout=YIELD_S, poll_interval=POLL_S):
                self._mark.unlink(missing_ok=True)
        except OSError:  # held too long, or not ours to open: the calls don't wait for that
            return
