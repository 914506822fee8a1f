"""SQLite: one writer thread, one reading connection on the caller's thread, one file.

Reads are point look-ups and short pages of a few microseconds: a hop to another thread would cost more than
they do. What reads for long (`snapshot`) gets a thread and a connection of its own.

Only one process serves. The command line is a second writer for moments: it knocks (`knock.py`), and the
serving writer steps aside between two transactions.
"""

import asyncio
import contextlib
import os
import queue
import re
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import apsw

from myna.store import sqlite_batch
from myna.store.batch import Charge, ChargeOutcome, End, EndOutcome
from myna.store.checkpoints import KEPT_BYTES, Checkpoints
from myna.store.knock import Knock

T = TypeVar("T")
WriterJob = Callable[[apsw.Connection], None]

BUSY_TIMEOUT_MS = 5_000


def clock_ms() -> int:
    """Unix time in milliseconds; the clock behind `now_ms()` unless a test hands in its own."""
    return time.time_ns() // 1_000_000


@lru_cache(maxsize=512)
def numbered(sql: str) -> str:
    """`$1` is a name to SQLite and would be numbered by appearance; `?1` is the number itself."""
    return re.sub(r"\$(\d+)", r"?\1", sql)


def finish(work: Awaitable[T]) -> T:
    """Runs a coroutine that never waits to its end. All store functions are such on SQLite."""
    coroutine = work.__await__()
    try:
        next(coroutine)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise RuntimeError("a transaction on SQLite may await nothing but its own queries")


class SqliteConnection:
    """A connection whose `fetch` answers at once."""

    queue_lock = "SELECT 1"  # BEGIN IMMEDIATE is one
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
            f"journal_size_limit={KEPT_BYTES}",
            "mmap_size=268435456",
            "temp_store=MEMORY",
        ):
            self.raw.pragma(*pragma.split("="))
        self._clock = clock
        if read_only:
            self.raw.pragma("query_only", True)

    async def fetch(self, sql: str, *args: object) -> Sequence[Sequence[Any]]:
        return self.raw.execute(numbered(sql), args).fetchall()

    async def run_script(self, sql: str) -> None:
        self.raw.execute(sql)

    async def end(self, ends: Sequence[End]) -> list[EndOutcome]:
        return sqlite_batch.run(self.raw, ends, [], self._clock())[0]


class Sqlite:
    """See `database.Database`."""

    dialect = "sqlite"
    schema_lock = "SELECT 1"  # BEGIN IMMEDIATE already is the lock
    single_process = True
    computes_here = True
    away: tuple[type[Exception], ...] = (
        TimeoutError,
        apsw.BusyError,
        apsw.FullError,
        apsw.IOError,
        apsw.CantOpenError,
        apsw.ReadOnlyError,  # as a file system becomes after an error of its disk
        apsw.ProtocolError,
    )

    def __init__(self, path: Path, *, serving: bool, clock: Callable[[], int]) -> None:
        self._path, self._serving, self._clock = path, serving, clock
        self._knock = Knock(path.parent)
        self._jobs: queue.SimpleQueue[WriterJob | None] = queue.SimpleQueue()
        self._writer = SqliteConnection(path, clock, read_only=False)
        self._reader = SqliteConnection(path, clock, read_only=True)
        self._checkpoints = Checkpoints(self._open_for_checkpoints, self._jobs.put) if serving else None
        self._thread = threading.Thread(target=self._work_off, name="sqlite-writer", daemon=True)
        self._thread.start()

    @classmethod
    async def open(cls, path: Path, *, serving: bool, clock: Callable[[], int] = clock_ms) -> "Sqlite":
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # a new one is for nobody else, and so is what SQLite adds
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o600))
        return cls(path, serving=serving, clock=clock)

    async def fetch(self, sql: str, *args: object) -> Sequence[Sequence[Any]]:
        return await self._reader.fetch(sql, *args)

    async def has_schema(self) -> bool:
        return bool(await self.fetch("SELECT 1 FROM sqlite_master WHERE name = 'schema_version'"))

    async def transaction(self, work: Callable[[SqliteConnection], Awaitable[T]]) -> T:
        return await self._on_writer(lambda: self._transact(lambda: finish(work(self._writer))))

    async def snapshot(self, work: Callable[[SqliteConnection], Awaitable[T]]) -> T:
        def read() -> T:
            own = SqliteConnection(self._path, self._clock, read_only=True)
            try:
                own.raw.execute("BEGIN")
                return finish(work(own))
            finally:
                own.raw.close()

        return await asyncio.to_thread(read)

    async def commit_batch(
        self, ends: Sequence[End], charges: Sequence[Charge]
    ) -> tuple[list[EndOutcome], list[ChargeOutcome]]:
        return await self._on_writer(
            lambda: self._transact(lambda: sqlite_batch.run(self._writer.raw, ends, charges, self._clock()))
        )

    async def listen(self, channel: str, heard: Callable[[], None]) -> None:
        """The other process is the command line, and it isn't heard: whoever waits looks again shortly."""
        return

    async def close(self) -> None:
        if self._checkpoints:
            await asyncio.to_thread(self._checkpoints.close)
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        self._reader.raw.close()

    async def _on_writer(self, job: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def run(_: apsw.Connection) -> None:
            try:
                result = job()
            except Exception as error:  # whatever it is belongs to the one who waits
                loop.call_soon_threadsafe(_fail, future, error)
            else:
                loop.call_soon_threadsafe(_answer, future, result)

        self._jobs.put(run)
        return await future

    def _work_off(self) -> None:
        """The writer's thread: one job after the other."""
        while (job := self._jobs.get()) is not None:
            job(self._writer.raw)
        self._writer.raw.close()

    def _transact(self, run: Callable[[], T]) -> T:
        if not self._serving:
            with self._knock.held():
                return self._begin_and_commit(run)
        self._knock.make_way()
        return self._begin_and_commit(run)

    def _begin_and_commit(self, run: Callable[[], T]) -> T:
        self._writer.raw.execute("BEGIN IMMEDIATE")
        try:
            result = run()
            self._writer.raw.execute("COMMIT")
        except BaseException:
            if self._writer.raw.in_transaction:
                self._writer.raw.execute("ROLLBACK")
            raise
        return result

    def _open_for_checkpoints(self) -> apsw.Connection:
        return SqliteConnection(self._path, self._clock, read_only=False).raw


def _answer(future: "asyncio.Future[T]", result: T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: "asyncio.Future[T]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
