"""The reads of reports on SQLite: a separate thread and connection, with a limit for each query.

Every call would wait for a query on the event loop's connection. A query here is interrupted at its limit:
the connection calls back while it runs.
"""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import apsw

from myna.errors import Unavailable, sentences
from myna.store.batch import REPORT_QUERY_MAX_MS

T = TypeVar("T")
Job = Callable[[], None]
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
    """Runs one report after another. The thread starts with the first one and never keeps the process."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: LimitedConnection | None = None

    async def run(self, work: Callable[[LimitedConnection], T]) -> T:
        """Runs `work` in the thread, on one snapshot."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run_jobs, name="sqlite-reports", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                result = self._in_snapshot(work)
            except Exception as error:  # the caller handles it
                loop.call_soon_threadsafe(_set_exception, future, error)
            else:
                loop.call_soon_threadsafe(_set_result, future, result)

        self._jobs.put(job)
        return await future

    def close(self, wait_s: float) -> None:
        """Ends the thread after its current job; waits for it."""
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(wait_s)

    def _run_jobs(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
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


def _set_result(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():  # the caller was not cancelled
        future.set_result(result)


def _set_exception(future: "asyncio.Future[T]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
