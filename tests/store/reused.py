"""One PostgreSQL database, with its pool, for one test after another.

A new database costs 46 ms of CPU, and a new pool as much again, since its sessions know no table and have no
plan; deleting the rows that a test left costs 3. A test is given a database that equals a new one: the same
schema, statistics, functions and rows, and no session in a transaction. If that fails it is replaced.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from myna.store.database import Transaction
from myna.store.postgresql import Postgresql
from tests.rig.postgres import Postgres
from tests.store.books import Books

USES_MAX = 100
"""How many tests use a database: deleted rows stay in its files, since nothing vacuums them."""
SESSIONS_END_S = 1.0

_KEPT = ("schema_version", "schema_hashes", "schema_builds")
_TABLES = """SELECT relname FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname"""
_SEQUENCES = "SELECT oid::regclass::text FROM pg_class WHERE relkind = 'S'"
_CLOCK = "SELECT pg_get_functiondef('now_ms'::regproc)"
_BUSY = """SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
AND backend_type = 'client backend' AND state <> 'idle' AND pid <> pg_backend_pid()"""
_SCHEMA = """SELECT md5(string_agg(line, ' ' ORDER BY line)) FROM (
    SELECT concat_ws(' ', 'relation', oid, relfilenode, xmin, relpages, reltuples) AS line
    FROM pg_class WHERE relnamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(' ', 'column', attrelid, attnum, a.xmin)
    FROM pg_attribute a JOIN pg_class c ON c.oid = attrelid WHERE relnamespace = 'public'::regnamespace
    UNION ALL SELECT concat_ws(' ', 'function', oid, md5(prosrc)) FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT concat_ws(' ', 'trigger', oid, xmin) FROM pg_trigger
    UNION ALL SELECT concat_ws(' ', 'constraint', oid, xmin) FROM pg_constraint WHERE oid >= 16384
    UNION ALL SELECT concat_ws(' ', 'default', oid, xmin) FROM pg_attrdef
    UNION ALL SELECT concat_ws(' ', 'schema', oid) FROM pg_namespace WHERE nspname !~ '^pg_(toast_)?temp_'
    UNION ALL SELECT concat_ws(' ', 'migration', version, sha256) FROM schema_hashes
) lines"""
"""Changes with every change to a table, index, function or trigger, and with an ANALYZE."""


class ReusedBooks:
    """Lends its database to one test at a time. Its connections are of the event loop that opened it. They
    are open, so a test that patches the settings of a session opens its own: `Books.open_again`."""

    def __init__(self, server: Postgres) -> None:
        self._server = server
        self._url = ""
        self._uses = 0
        self._db: Postgresql
        self._schema = ""
        self._clock = ""
        self._clean = ""

    async def open(self) -> None:
        self._url = self._server.fresh_books()
        self._uses = 0
        self._db = await Postgresql.open(self._url)
        await self._db.ready()
        await self._db.ready(contended=True)
        await self._db.snapshot(self._remember)

    async def close(self) -> None:
        await self._db.close()
        self._server.drop(self._url)

    @contextlib.asynccontextmanager
    async def lent(self, folder: Path, *, damaged: bool = False) -> AsyncIterator[Books]:
        """Books that equal new ones. At the end an audit must find nothing, as in `books_of`."""
        before = asyncio.all_tasks()
        books = Books(self._url, folder)
        books.db = self._db
        try:
            yield books
            assert damaged or await books.audit() == []
        finally:
            await _end_tasks(before)
            self._uses += 1
            if self._uses >= USES_MAX or not await self._cleaned():
                await self.close()
                await self.open()

    async def _remember(self, connection: Any) -> None:
        self._schema = (await connection.fetch(_SCHEMA))[0][0]
        self._clock = (await connection.fetch(_CLOCK))[0][0]
        tables = [row[0] for row in await connection.fetch(_TABLES) if row[0] not in _KEPT]
        script = ["SET LOCAL session_replication_role = replica"]  # no trigger and no foreign key
        script += [f"DELETE FROM {table}" for table in tables]
        for table in tables:
            ((rows,),) = await connection.fetch(f"SELECT json_agg(t)::text FROM {table} t")
            if rows:
                quoted = rows.replace("'", "''")
                script.append(
                    f"INSERT INTO {table} SELECT * FROM json_populate_recordset(NULL::{table}, '{quoted}')"
                )
        names = [row[0] for row in await connection.fetch(_SEQUENCES)]
        script.append("SELECT " + ", ".join(f"setval('{name}', 1, false)" for name in names))
        self._clean = ";\n".join(script)

    async def _cleaned(self) -> bool:
        try:
            return await self._db.transaction(self._clean_in)
        except (*self._db.unavailable, *self._db.locked):  # the test closed the pool or left a lock
            return False

    async def _clean_in(self, connection: Transaction) -> bool:
        await connection.fetch("SET LOCAL lock_timeout = '200ms'")
        if (await connection.fetch(_CLOCK))[0][0] != self._clock:
            await connection.run_script(f"DROP SEQUENCE IF EXISTS ticks; {self._clock}")
        await connection.run_script(self._clean)
        return bool(
            (await connection.fetch(_SCHEMA))[0][0] == self._schema and await _nobody_works(connection)
        )


async def _nobody_works(connection: Transaction) -> bool:
    """Whether each other session of the database is idle, which the end of a connection may take a moment."""
    until = asyncio.get_running_loop().time() + SESSIONS_END_S
    while (await connection.fetch(_BUSY))[0][0]:
        if asyncio.get_running_loop().time() > until:
            return False
        await asyncio.sleep(0.005)
    return True


async def _end_tasks(before: set[asyncio.Task[Any]]) -> None:
    """Cancels what a test left running, as the end of its own event loop would."""
    left = [task for task in asyncio.all_tasks() - before if not _of_the_runner(task)]
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)


def _of_the_runner(task: asyncio.Task[Any]) -> bool:
    """Whether AnyIO runs a fixture or a test by it."""
    return "TestRunner" in str(getattr(task.get_coro(), "__qualname__", ""))
