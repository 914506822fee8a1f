"""Checkpoints: what SQLite's log holds is moved into its file beside the writer, not in its way.

The bulk goes on a thread and a connection of its own. Under continuous writing that alone would never reach
the end of the log, and only a log that was moved whole starts over. So once it has grown long, the writer
moves the little that is left between two of its transactions, and its next one starts the log over.
Neither ever waits for a reader; a log that a long reader holds up grows until that reader is done.
"""

import logging
import threading
from collections.abc import Callable

import apsw

log = logging.getLogger(__name__)

EVERY_S = 0.5
LONG_PAGES = 4096
"""From here on (16 MiB) the log is to start over."""
KEPT_BYTES = 64 * 2**20
"""A log that grew beyond is cut back to this when it starts over."""


class Checkpoints:
    """The thread. `open_own` gives it a connection, `to_writer` hands a job to the writer's thread."""

    def __init__(
        self,
        open_own: Callable[[], apsw.Connection],
        to_writer: Callable[[Callable[[apsw.Connection], None]], None],
    ) -> None:
        self._open_own, self._to_writer = open_own, to_writer
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sqlite-checkpoints", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and its connection."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        own = self._open_own()
        while not self._over.wait(EVERY_S):
            if move(own) > LONG_PAGES:
                self._to_writer(_finish)
        own.close()


def move(db: apsw.Connection) -> int:
    """Moves what no reader needs any more; how many pages the log holds, moved or not."""
    try:
        pages, _ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
    except apsw.BusyError:  # another checkpoint runs: the next round will do
        return 0
    except apsw.Error as error:  # a full disk, say: the writer's callers are told, this tries again
        log.warning("a checkpoint failed: %s", type(error).__name__)
        return 0
    return pages


def _finish(db: apsw.Connection) -> None:
    move(db)
