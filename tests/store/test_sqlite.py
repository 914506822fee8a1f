"""SQLite: a long lock, commands beside the writer, a growing log, the permissions of its files."""

import asyncio
import contextlib
import os
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import apsw
import pytest
from filelock import FileLock

from myna.store import sqlite, sqlite_writer
from myna.store.batch import Charged, EndOutcome
from myna.store.group_commit import GroupCommit
from myna.store.migrate import migrate
from myna.store.sqlite import Sqlite
from myna.store.sqlite_writer import Checkpoints, WriterHandover
from tests.rig.commands import CommandLine, Ended
from tests.rig.waiting import SOON_S, until
from tests.store.books import Books, Customer, charge_of, charged_of, keep_of
from tests.store.stalls import committing, stalled_commits

COMMAND_MAX_S = 60.0


@pytest.fixture
async def commits(sqlite_books: Books) -> AsyncIterator[GroupCommit]:
    async with committing(sqlite_books.db) as made:
        yield made


async def test_charges_wait_for_a_locked_database(
    sqlite_books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_MS", 20)
    customer = await sqlite_books.customer()
    db = await sqlite_books.open_again()
    async with committing(db) as commits, stalled_commits(sqlite_books):
        charging = asyncio.ensure_future(commits.charge(charge_of(customer), SOON_S))
        await asyncio.wait([charging], timeout=0.3)
        assert not charging.done()
    assert await charging == charged_of(customer, 9)
    await db.close()


async def test_a_handover_lock_that_fails_or_stays_locked_stops_no_call(
    sqlite_books: Books, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "YIELD_S", 0.05)
    customer = await sqlite_books.customer()
    lock, mark = sqlite_books.folder / "write.lock", sqlite_books.folder / "write.request"
    lock.unlink(missing_ok=True)
    lock.mkdir()
    mark.touch()
    assert await commits.charge(charge_of(customer), SOON_S) == charged_of(customer, 9)
    lock.rmdir()
    with FileLock(lock):
        mark.touch()
        assert await commits.charge(charge_of(customer), SOON_S) == charged_of(customer, 8)


@contextlib.asynccontextmanager
async def load(commits: GroupCommit, customer: Customer, lanes: int = 64) -> AsyncIterator[list[int]]:
    """Full load from `lanes` callers; counts the calls in the list's only number."""
    over = asyncio.Event()
    counted = [0]

    async def lane() -> None:
        while not over.is_set():
            call = charge_of(customer)
            assert isinstance(await commits.charge(call, SOON_S), Charged)
            assert await commits.end(keep_of(call), SOON_S) is EndOutcome.DONE
            counted[0] += 1

    running = asyncio.gather(*[lane() for _ in range(lanes)])
    yield counted
    over.set()
    await running


async def test_a_command_writes_while_the_server_is_under_full_load(
    sqlite_books: Books, commits: GroupCommit, commands: CommandLine
) -> None:
    customer = await sqlite_books.customer(units=1_000_000)
    poor = await sqlite_books.customer(units=0)
    env = {**os.environ, "MYNA_DATA": str(sqlite_books.folder)}

    def grant() -> tuple[float, Ended]:
        began = time.monotonic()
        ended = commands.run(["account", "grant", poor.name, "1", "--json"], env, sqlite_books.folder)
        return time.monotonic() - began, ended

    await asyncio.to_thread(commands.run, ["version"], env, sqlite_books.folder)  # imports once
    async with load(commits, customer) as counted:
        took_s = []
        for granted in range(4):
            least = 25 * (granted + 1)
            await until(lambda least=least: counted[0] > least, "the server is under load")
            seconds, ended = await asyncio.to_thread(grant)
            assert ended.code == 0, ended
            took_s.append(seconds)
    assert max(took_s) < COMMAND_MAX_S, took_s
    assert await sqlite_books.balance(poor) == 4


def restarts(log: Path) -> int:
    """How often the write-ahead log began anew: the sequence number in its header."""
    return int.from_bytes(log.read_bytes()[12:16])


async def test_the_log_restarts_under_continuous_writing(
    sqlite_books: Books, commits: GroupCommit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_EVERY_S", 0.02)
    monkeypatch.setattr(sqlite_writer, "LONG_LOG_PAGES", 100)
    customer = await sqlite_books.customer(units=1_000_000)
    log = sqlite_books.folder / "myna.sqlite-wal"
    before = restarts(log)

    async with load(commits, customer, lanes=16):
        await until(lambda: restarts(log) >= before + 3, "the log restarted three times")


def test_the_writer_copies_what_the_thread_could_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader stands for the writes that come while the thread copies."""
    monkeypatch.setattr(sqlite_writer, "CHECKPOINT_EVERY_S", 0.001)
    monkeypatch.setattr(sqlite_writer, "LONG_LOG_PAGES", 3)
    log = tmp_path / "db.sqlite-wal"

    def connect() -> apsw.Connection:
        connection = apsw.Connection(str(tmp_path / "db.sqlite"))
        connection.execute("SELECT * FROM sqlite_schema").fetchall()
        return connection

    writer, reader = connect(), connect()
    writer.execute("PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x)").fetchall()
    reader.execute("BEGIN; SELECT * FROM t").fetchall()
    for _ in range(5):
        writer.execute("INSERT INTO t VALUES (1)")
    jobs: queue.SimpleQueue[Callable[[apsw.Connection], None]] = queue.SimpleQueue()
    thread = Checkpoints(connect, jobs.put)
    job = jobs.get(timeout=SOON_S)
    thread.close()
    reader.execute("COMMIT")
    writer.execute("INSERT INTO t VALUES (1)")
    before = restarts(log)
    job(writer)
    writer.execute("INSERT INTO t VALUES (1)")
    assert restarts(log) == before + 1
    reader.close()
    writer.close()


def test_without_a_request_the_writer_takes_no_lock(tmp_path: Path) -> None:
    WriterHandover(tmp_path).yield_lock()
    assert list(tmp_path.iterdir()) == []


def test_the_writer_waits_until_the_command_releases_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_writer, "YIELD_S", 60.0)
    inside, out = threading.Event(), threading.Event()

    def command() -> None:
        with WriterHandover(tmp_path).acquire():
            inside.set()
            out.wait(60)

    thread = threading.Thread(target=command)
    thread.start()
    assert inside.wait(60)
    yielding = threading.Thread(target=WriterHandover(tmp_path).yield_lock)
    yielding.start()
    yielding.join(0.1)
    assert yielding.is_alive()
    out.set()
    yielding.join(60)
    assert not yielding.is_alive()
    thread.join(60)
    assert not (tmp_path / "write.request").exists()


def test_the_request_of_a_killed_process_is_removed(tmp_path: Path) -> None:
    (tmp_path / "write.request").touch()
    WriterHandover(tmp_path).yield_lock()
    assert not (tmp_path / "write.request").exists()


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_a_new_database_is_private_whatever_the_umask(tmp_path: Path, umask: int) -> None:
    file = tmp_path / "above" / "data" / "myna.sqlite"
    db = await Sqlite.open(file, serving=True)
    await migrate(db)
    written = [file, *(file.with_name(file.name + end) for end in ("-wal", "-shm"))]
    assert {mode(path) for path in written} == {0o600}
    await db.close()
    assert mode(file.parent) == 0o700
