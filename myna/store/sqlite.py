"""SQLite: one writer thread, one reading connection on the caller's thread, one file.

Reads are point look-ups and short pages that take a few microseconds: switching to another thread would cost
more. A long read (`snapshot`) and the reports (`read`) have a separate thread and connection.

Only one process serves. A command of the command line is a second writer for a short time: it requests the
write lock (`sqlite_writer.py`), and the serving writer yields it between two transactions.
"""

import asyncio
import contextlib
import math
import os
import queue
import re
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import apsw

from myna.errors import CommandError, Unavailable, sentences
from myna.lib.files import DiskThreads
from myna.store import sqlite_batch
from myna.store.batch import REPORT_QUERY_MAX_MS, Charge, ChargeOutcome, End, EndOutcome
from myna.store.database import Queries
from myna.store.rows import in_values
from myna.store.schema import SchemaWatch
from myna.store.sqlite_writer import KEPT_LOG_BYTES, Checkpoints, WriterHandover
from myna.store.tables import SqliteTables
from myna.store.transaction_queue import OWNER_READS_WAITING_MAX, TransactionQueue

T = TypeVar("T")
WriterJob = Callable[[apsw.Connection], object]

BUSY_TIMEOUT_MS = 5_000
_STEPS = 10_000
"""Steps of SQLite's virtual machine, some 0.3 ms, between two checks of the time."""
CLOSE_MAX_S = 5.0
"""How long `close` waits for the writer. On a stalled disk its thread ends with the process."""


def clock_ms() -> int:
    """Unix time in milliseconds: what `now_ms()` returns, unless a test passes another clock."""
    return time.time_ns() // 1_000_000


@lru_cache(maxsize=512)
def numbered(sql: str) -> str:
    """Replaces `$1` by `?1`: SQLite takes `$1` as a name and numbers it by appearance."""
    return re.sub(r"\$(\d+)", r"?\1", sql)


def finish(work: Awaitable[T]) -> T:
    """Runs a coroutine that never suspends, as all store functions on SQLite, and returns its result."""
    coroutine = work.__await__()
    try:
        next(coroutine)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise RuntimeError("a transaction on SQLite may await nothing but its own queries")


class SqliteConnection:
    """A connection whose `fetch` never suspends."""

    ascii_only = ""
    queue_lock = "SELECT 1"  # BEGIN IMMEDIATE has locked the database
    skip_locked = ""

    def __init__(self, path: Path, clock: Callable[[], int], *, read_only: bool) -> None:
        self.raw = apsw.Connection(str(path))
        self.raw.set_busy_timeout(BUSY_TIMEOUT_MS)
        self.raw.create_scalar_function("now_ms", lambda *_: clock(), 0)
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "wal_autocheckpoint=0",
            f"journal_size_limit={KEPT_LOG_BYTES}",
            "mmap_size=268435456",
            "temp_store=MEMORY",
        ):
            self.raw.pragma(*pragma.split("="))
        self._clock = clock
        self.commits = 0
        if read_only:
            self.raw.pragma("query_only", True)

    async def fetch(self, sql: str, *args: object) -> Sequence[Sequence[Any]]:
        return self.raw.execute(numbered(sql), args).fetchall()

    async def with_rows(
        self, head: str, rows: Sequence[Sequence[Any]], tail: str, *_: str
    ) -> Sequence[Sequence[Any]]:
        return await in_values(self.fetch, head, rows, tail)

    async def run_script(self, sql: str) -> None:
        self.raw.execute(sql)

    async def transaction_id(self) -> int:
        return self.commits + 1

    @property
    def tables(self) -> SqliteTables:
        return SqliteTables(self.raw)

    async def end(self, ends: Sequence[End]) -> list[EndOutcome]:
        return sqlite_batch.run(self.raw, ends, [], self._clock())[0]


class ReportConnection(SqliteConnection):
    """The connection of reports, which have a thread of their own: every call would wait for a query on the
    event loop's connection. A query raises Unavailable after REPORT_QUERY_MAX_MS: SQLite calls back while it
    runs one."""

    def __init__(self, path: Path, clock: Callable[[], int]) -> None:
        super().__init__(path, clock, read_only=True)
        self._until = math.inf  # BEGIN and ROLLBACK are never interrupted
        self.raw.set_progress_handler(lambda: time.monotonic() > self._until, _STEPS)

    async def fetch(self, sql: str, *args: object) -> Sequence[Sequence[Any]]:
        self._until = time.monotonic() + REPORT_QUERY_MAX_MS / 1000
        try:
            return await super().fetch(sql, *args)
        except apsw.InterruptError:
            raise Unavailable(sentences.REPORT_SLOW) from None
        finally:
            self._until = math.inf


class Sqlite:
    """See `database.Database`."""

    dialect = "sqlite"
    ascii_only = SqliteConnection.ascii_only
    schema_lock = "SELECT 1"  # BEGIN IMMEDIATE has locked the database
    schema_lock_timeout = "SELECT 1"
    exclude_processes = "SELECT 1, ''"  # a process that serves has locked the data folder
    single_process = True
    in_process = True
    unavailable: tuple[type[Exception], ...] = (
        TimeoutError,
        apsw.BusyError,
        apsw.FullError,
        apsw.IOError,
        apsw.CantOpenError,
        apsw.ReadOnlyError,  # a file system is remounted read-only after a disk error
        apsw.ProtocolError,
    )
    locked: tuple[type[Exception], ...] = ()
    _rolled_back: tuple[type[Exception], ...] = (
        apsw.BusyError,
        apsw.FullError,
        apsw.CantOpenError,
        apsw.ReadOnlyError,
        apsw.ProtocolError,
    )

    def __init__(self, path: Path, *, serving: bool, clock: Callable[[], int]) -> None:
        self._path = path
        self._serving = serving
        self._clock = clock
        self.schema = SchemaWatch(self.dialect)
        self._inode = path.stat().st_ino
        self._handover = WriterHandover(path.parent)
        self._jobs: queue.SimpleQueue[WriterJob | None] = queue.SimpleQueue()
        self._writer = SqliteConnection(path, clock, read_only=False)
        self._synced = True
        self._reader = SqliteConnection(path, clock, read_only=True)
        self._reports: ReportConnection | None = None
        """Opened in its thread for the first report."""
        self._reports_thread = DiskThreads(1)
        self._checkpoints = Checkpoints(self._open_for_checkpoints, self._jobs.put) if serving else None
        self._transactions = TransactionQueue(1)
        self._reads = TransactionQueue(1, OWNER_READS_WAITING_MAX)
        self._thread = threading.Thread(target=self._run_jobs, name="sqlite-writer", daemon=True)
        self._thread.start()

    @classmethod
    async def open(cls, path: Path, *, serving: bool, clock: Callable[[], int] = clock_ms) -> "Sqlite":
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # a new file, and the files that SQLite adds, are private
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
        return cls(path, serving=serving, clock=clock)

    async def fetch(self, sql: str, *args: object) -> Sequence[Sequence[Any]]:
        return await self._reader.fetch(sql, *args)

    async def has_schema(self) -> bool:
        return bool(await self.fetch("SELECT 1 FROM sqlite_master WHERE name = 'schema_version'"))

    async def connections_max(self) -> None:
        """A file has no limit."""

    async def transaction(self, work: Callable[[SqliteConnection], Awaitable[T]]) -> T:
        async with self._transactions.turn():
            return await self._on_writer(lambda: self._transact(lambda: finish(work(self._writer))))

    async def committed(self, transaction_id: int) -> bool:
        """Runs after the writer's current job."""
        return await self._on_writer(lambda: self._writer.commits >= transaction_id)

    async def snapshot(
        self, work: Callable[[SqliteConnection], Awaitable[T]], *, query_max_s: float | None = None
    ) -> T:
        def read() -> T:
            connection = SqliteConnection(self._path, self._clock, read_only=True)
            try:
                connection.raw.execute("BEGIN")
                return finish(work(connection))
            finally:
                connection.raw.close()

        return await asyncio.to_thread(read)

    async def read(self, work: Callable[[Queries], Awaitable[T]]) -> T:
        def report() -> T:
            if self._reports is None:
                self._reports = ReportConnection(self._path, self._clock)
            self._reports.raw.execute("BEGIN")
            try:
                return finish(work(self._reports))
            finally:
                self._reports.raw.execute("ROLLBACK")

        async with self._reads.turn():
            return await self._reports_thread.run(report)

    async def writers_ended(self) -> bool:
        """There is one writer, so none is left."""
        return True

    async def ready(self, *, contended: bool = False) -> None:
        """Does nothing: the file is open."""

    def commit_batch(
        self, ends: Sequence[End], charges: Sequence[Charge], *, contended: bool = False
    ) -> Coroutine[Any, Any, tuple[list[EndOutcome], list[ChargeOutcome]]]:
        # A call that is open when the power fails is refunded, so its charge may be lost with it. The sync of
        # the call's end covers the charge too, which is earlier in the log. A task's id is told at once.
        synced = bool(ends)
        for charge in charges:
            synced = synced or charge.task is not None
        return self._on_writer(
            lambda: self._transact(
                lambda: sqlite_batch.run(self._writer.raw, ends, charges, self._clock()), synced=synced
            )
        )

    def rolled_back(self, error: Exception) -> bool:
        """An error before the last page was written rolls back. After a failed sync the outcome is
        unknown."""
        is_write = getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_WRITE
        return is_write or isinstance(error, self._rolled_back)

    async def listen(self, channel: str, notify: Callable[[], None]) -> None:
        """SQLite has no notifications; `Notifications` polls."""
        return

    async def close(self) -> None:
        if self._checkpoints:
            await asyncio.to_thread(self._checkpoints.close)
        with contextlib.suppress(TimeoutError):
            await asyncio.to_thread(self._reports_thread.submit(self._close_reports).result, CLOSE_MAX_S)
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join, CLOSE_MAX_S)
        self._reader.raw.close()

    async def _on_writer(self, job: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def run(_: apsw.Connection) -> None:
            if future.cancelled():
                return
            try:
                result = job()
            except Exception as error:  # the caller handles it
                loop.call_soon_threadsafe(_set_exception, future, error)
            else:
                loop.call_soon_threadsafe(_set_result, future, result)

        self._jobs.put(run)
        return await future

    def _run_jobs(self) -> None:
        """The writer's thread: runs one job after another until it gets None."""
        while (job := self._jobs.get()) is not None:
            job(self._writer.raw)
        self._writer.raw.close()

    def _transact(self, run: Callable[[], T], *, synced: bool = True) -> T:
        if not self._serving:
            with self._handover.acquire():
                self._check_in_place()
                return self._begin_and_commit(run, synced=synced)
        self._handover.yield_lock()
        return self._begin_and_commit(run, synced=synced)

    def _check_in_place(self) -> None:
        """Raises CommandError if `myna move` replaced the file while this command waited."""
        try:
            inode = self._path.stat().st_ino
        except FileNotFoundError:
            inode = 0
        if inode != self._inode:
            raise CommandError("The database was moved meanwhile: nothing was changed in it.")

    def _begin_and_commit(self, run: Callable[[], T], *, synced: bool) -> T:
        if synced is not self._synced:  # a transaction that has begun keeps its mode
            self._writer.raw.pragma("synchronous", "FULL" if synced else "NORMAL")
            self._synced = synced
        self._writer.raw.execute("BEGIN IMMEDIATE")
        try:
            result = run()
            self._writer.raw.execute("COMMIT")
            self._writer.commits += 1
        except BaseException:
            if self._writer.raw.in_transaction:
                self._writer.raw.execute("ROLLBACK")
            raise
        return result

    def _close_reports(self) -> None:
        if self._reports is not None:
            self._reports.raw.close()

    def _open_for_checkpoints(self) -> apsw.Connection:
        return SqliteConnection(self._path, self._clock, read_only=False).raw


def _set_result(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _set_exception(future: "asyncio.Future[T]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
