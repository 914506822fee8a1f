"""Checkpoints: copies SQLite's write-ahead log into the database file without stopping the writer.

A thread with its own connection copies most of it. Under continuous writing that alone never reaches the end
of the log, and the log restarts only after all of it was copied. So once the log is long, the writer copies
the small rest between two transactions, and its next transaction restarts the log. Neither waits for readers:
the log grows while a long read needs it.
"""

import logging
import threading
from collections.abc import Callable

import apsw

log = logging.getLogger(__name__)

EVERY_S = 0.5
LONG_PAGES = 4096
"""The length (16 MiB) from which the writer copies the rest, so that the log restarts."""
CLOSE_MAX_S = 5.0
KEPT_BYTES = 64 * 2**20
"""A longer log file is truncated to this when it restarts."""


class Checkpoints:
    """The thread. `connect` opens its connection; `to_writer` queues a job on the writer's thread."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        to_writer: Callable[[Callable[[apsw.Connection], None]], None],
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
        while not self._stopped.wait(EVERY_S):
            if checkpoint(connection) > LONG_PAGES:
                self._to_writer(_checkpoint)
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


def _checkpoint(db: apsw.Connection) -> None:
    checkpoint(db)
