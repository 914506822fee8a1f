"""The reads of reports on SQLite: a separate thread and connection, with a limit for each query.

Every call would wait for a query on the event loop's connection. A query here is interrupted at its limit:
the connection calls back while it runs.
"""

import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import apsw

from myna.errors import Unavailable, sentences
from myna.lib.files import DiskThreads
from myna.store.batch import REPORT_QUERY_MAX_MS

T = TypeVar("T")
_STEPS = 10_000
"""Steps of SQLite's virtual machine, some 0.3 ms, between two looks at the clock."""


class Connection(Protocol):
    """What a limited connection needs of `sqlite.SqliteConnection`."""

    raw: apsw.Connection

    async def fetch(self, sql: str, *args: object) -> Sequence[Sequence[Any]]: ...


class LimitedConnection:
    """A connection whose queries raise Unavailable after REPORT_QUERY_MAX_MS."""

    ascii_only = ""

    def __init__(self, connection: Connection) -> None:
        self.raw = connection.raw
        self._connection = connection
        self._until = 0.0
        self.raw.set_progress_handler(lambda: time.monotonic() > self._until, _STEPS)

    async def fetch(self, sql: str, *args: object) -> Sequence[Sequence[Any]]:
        self._until = time.monotonic() + REPORT_QUERY_MAX_MS / 1000
        try:
            return await self._connection.fetch(sql, *args)
        except apsw.InterruptError:
            raise Unavailable(sentences.REPORT_SLOW) from None


class ReportReader:
    """Runs one report after another, in a thread that begins with the first and never keeps the process."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._thread = DiskThreads(1)
        self._connection: LimitedConnection | None = None

    async def run(self, work: Callable[[LimitedConnection], T]) -> T:
        """Runs `work` in the thread, on one snapshot."""
        return await self._thread.run(partial(self._in_snapshot, work))

    def close(self, wait_s: float) -> None:
        """Closes the connection after the current report; waits for it."""
        with contextlib.suppress(TimeoutError):
            self._thread.submit(self._close).result(wait_s)

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.raw.close()

    def _in_snapshot(self, work: Callable[[LimitedConnection], T]) -> T:
        if self._connection is None:
            self._connection = LimitedConnection(self._connect())
        raw = self._connection.raw
        raw.execute("BEGIN")
        try:
            return work(self._connection)
        finally:
            raw.execute("ROLLBACK")
