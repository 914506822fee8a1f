"""PostgreSQL: two connections for batches, a small pool for everything else."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from myna.errors import DatabaseUnavailable, Unavailable, sentences
from myna.lib.telemetry import metrics
from myna.store.batch import REPORT_QUERY_MAX_MS, Charge, ChargeOutcome, End, EndOutcome
from myna.store.database import Queries
from myna.store.postgresql_batch import BatchWriter, LockPolicy, commit
from myna.store.postgresql_session import (
    COMMAND_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    DIRECT,
    PROCESS_LOCK,
    Access,
    shares,
)
from myna.store.rows import in_arrays
from myna.store.schema import SchemaWatch
from myna.store.tables import PostgresqlTables
from myna.store.transaction_queue import OWNER_READS_WAITING_MAX, TransactionQueue

T = TypeVar("T")

log = logging.getLogger(__name__)

IDLE_TIMEOUT_MS = 10_000
"""How long a transaction may be idle. After that the locks of a process that was stopped, or whose machine
failed, are released."""
LOCK_WAIT_MS = 2_000
"""How long a transaction waits for a lock. It occupies one of a few connections for that time."""
SESSION = {
    "jit": "off",
    "idle_in_transaction_session_timeout": str(IDLE_TIMEOUT_MS),
    "lock_timeout": str(LOCK_WAIT_MS),
}
REPORT_SESSION = SESSION | {"statement_timeout": str(REPORT_QUERY_MAX_MS)}
SNAPSHOT = "ISOLATION LEVEL REPEATABLE READ READ ONLY"
CANCEL_TIMEOUT_S = 1.0
"""How long it may take to cancel a query whose caller stopped waiting."""
CLOSE_TIMEOUT_S = 2.0
LISTEN_RETRY_S = 0.5
LISTEN_CHECK_S = 30.0
"""How often a listener checks its connection: a half-open one reports no error."""
LISTEN_LOG_EVERY_S = 30.0
"""How often a failing listener logs."""
LONG_TIMEOUT_S = 6 * 3600.0
"""For queries on whole tables: snapshots, migrations."""
_INTERRUPTED = (asyncio.CancelledError, TimeoutError)
"""Raised while a query is still running."""
IN_DOUBT_WAIT_S = 30.0
"""How long to retry for the outcome of a transaction while the server does not answer."""
IN_DOUBT_RUN_MAX_S = 3.0
"""How long a transaction in doubt may still run before its session is terminated."""
IN_DOUBT_POLL_S = 0.2
_ENDED: Final = ("committed", "aborted")
"""The results of pg_xact_status for a transaction that has ended."""
_END_SESSION = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE backend_xid = $1::text::xid8::xid AND datname = current_database()"""
_CONNECTIONS_MAX = """SELECT least(
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
    (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()),
    (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = current_user))"""
WRITERS_WAIT_S = 10.0
WRITERS_POLL_S = 0.05


class LockTimedOut(TimeoutError):
    """Another session has locked a row or a table that the transaction needs. Nothing was done."""


class PostgresqlConnection:
    """A connection of the pool: see `database.Transaction`."""

    ascii_only = ' COLLATE "C"'
    queue_lock = "SELECT pg_advisory_xact_lock(77121111)"
    skip_locked = " FOR UPDATE SKIP LOCKED"

    def __init__(self, raw: Any, timeout_s: float = COMMAND_TIMEOUT_S) -> None:
        self._raw = raw
        self._timeout_s = timeout_s

    async def fetch(self, sql: str, *args: object) -> Sequence[Sequence[Any]]:
        return await self._raw.fetch(sql, *args, timeout=self._timeout_s)  # type: ignore[no-any-return]

    async def with_rows(
        self, head: str, rows: Sequence[Sequence[Any]], tail: str, *types: str
    ) -> Sequence[Sequence[Any]]:
        return await in_arrays(self.fetch, head, rows, tail, types)

    async def run_script(self, sql: str) -> None:
        await self._raw.execute(sql, timeout=LONG_TIMEOUT_S)

    async def transaction_id(self) -> int:
        return int((await self.fetch("SELECT pg_current_xact_id()::text"))[0][0])

    @property
    def tables(self) -> PostgresqlTables:
        return PostgresqlTables(self._raw)

    async def end(self, ends: Sequence[End]) -> list[EndOutcome]:
        return (await commit(self._raw, ends, [], LockPolicy.ALL, self._timeout_s))[0]


class Postgresql:
    """See `database.Database`."""

    dialect = "postgresql"
    ascii_only = PostgresqlConnection.ascii_only
    schema_lock = "SELECT set_config('lock_timeout', '0', true), pg_advisory_xact_lock(77121110)"
    schema_lock_timeout = "SET LOCAL lock_timeout = '2s'"
    exclude_processes = f"""SELECT pg_try_advisory_xact_lock({PROCESS_LOCK}),
    (SELECT string_agg(DISTINCT host(s.client_addr), ', ') FROM pg_locks l JOIN pg_stat_activity s USING (pid)
     WHERE l.locktype = 'advisory' AND l.objid = {PROCESS_LOCK} AND s.datname = current_database())"""
    single_process = False
    in_process = False
    unavailable: tuple[type[Exception], ...] = (
        DatabaseUnavailable,
        OSError,
        TimeoutError,
        asyncpg.InterfaceError,
        asyncpg.InternalClientError,
        asyncpg.PostgresConnectionError,
        asyncpg.InvalidTransactionStateError,  # the server is read-only during a failover
        asyncpg.InvalidAuthorizationSpecificationError,
        asyncpg.InvalidCatalogNameError,
        asyncpg.InsufficientPrivilegeError,
        asyncpg.InvalidSQLStatementNameError,  # a pooler that pools transactions, unknown to the settings
        asyncpg.DuplicatePreparedStatementError,
        asyncpg.TransactionRollbackError,
        asyncpg.InsufficientResourcesError,
        asyncpg.OperatorInterventionError,
        asyncpg.PostgresSystemError,
    )
    locked: tuple[type[Exception], ...] = (asyncpg.LockNotAvailableError, LockTimedOut)

    def __init__(self, url: str, access: Access, pool: Any, reports: Any) -> None:
        self._url = url
        self._access = access
        self.schema = SchemaWatch(self.dialect)
        self._pool = pool
        self._reports = reports
        self._writer = BatchWriter(url, "myna-writer", LockPolicy.NONE, self.schema, access)
        self._contended_writer = BatchWriter(url, "myna-contended", LockPolicy.ACCOUNT, self.schema, access)
        self._closing: set[asyncio.Task[None]] = set()
        share = shares(access.connections)
        self._transactions = TransactionQueue(share.transactions)
        self._reads = TransactionQueue(share.reports, OWNER_READS_WAITING_MAX)

    @classmethod
    async def open(cls, url: str, access: Access = DIRECT) -> "Postgresql":
        """Opens one connection, and the others, up to their number, when they are used."""
        share = shares(access.connections)
        pool = await access.open_pool(url, "myna", SESSION, 1, share.pool)
        reports = await access.open_pool(url, "myna-reports", REPORT_SESSION, 0, share.reports)
        return cls(url, access, pool, reports)

    async def fetch(self, sql: str, *args: object) -> Sequence[Sequence[Any]]:
        async with self._connection() as raw:
            return await raw.fetch(sql, *args)  # type: ignore[no-any-return]

    async def has_schema(self) -> bool:
        return bool(await self.fetch("SELECT 1 WHERE to_regclass('schema_version') IS NOT NULL"))

    async def connections_max(self) -> int:
        return int((await self.fetch(_CONNECTIONS_MAX))[0][0])

    async def transaction(self, work: Callable[[PostgresqlConnection], Awaitable[T]]) -> T:
        try:
            async with self._transactions.turn(), self._transaction() as raw:
                return await work(PostgresqlConnection(raw))
        except asyncpg.LockNotAvailableError as error:
            raise LockTimedOut(str(error)) from error

    async def committed(self, transaction_id: int) -> bool:
        """Terminates a session that stays in the transaction, since its connection is dead."""
        began = time.monotonic()
        while True:
            try:
                if (status := await self._status(transaction_id)) in _ENDED:
                    return status == "committed"
                if status and time.monotonic() >= began + IN_DOUBT_RUN_MAX_S:
                    await self.fetch(_END_SESSION, str(transaction_id))
            except self.unavailable as error:
                log.debug("can't query the outcome of a transaction: %r", error)
            if time.monotonic() >= began + IN_DOUBT_WAIT_S:
                raise TimeoutError("the outcome of a transaction is unknown")
            await asyncio.sleep(IN_DOUBT_POLL_S)

    async def _status(self, transaction_id: int) -> str | None:
        """None if the server does not know the status: the transaction is too old, or its id was not assigned
        yet, as after a failover to a server that had not received it."""
        try:
            ((status,),) = await self.fetch("SELECT pg_xact_status($1::text::xid8)", str(transaction_id))
        except asyncpg.InvalidParameterValueError:
            return None
        return None if status is None else str(status)

    async def snapshot(
        self, work: Callable[[PostgresqlConnection], Awaitable[T]], *, query_max_s: float | None = None
    ) -> T:
        async with self._transaction(SNAPSHOT) as raw:
            return await work(PostgresqlConnection(raw, query_max_s or LONG_TIMEOUT_S))

    async def read(self, work: Callable[[Queries], Awaitable[T]]) -> T:
        try:
            async with self._reads.turn(), self._transaction(SNAPSHOT, self._reports) as raw:
                return await work(PostgresqlConnection(raw))
        except asyncpg.QueryCanceledError:
            raise Unavailable(sentences.REPORT_SLOW) from None

    async def writers_ended(self) -> bool:
        """A transaction gets its id with its first write or row lock. So each transaction that has written by
        now has an id below this statement's."""
        ((number,),) = await self.fetch("SELECT pg_current_xact_id()::text::bigint")
        until = time.monotonic() + WRITERS_WAIT_S
        while time.monotonic() < until:
            ((oldest,),) = await self.fetch("SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint")
            if oldest >= number:
                return True
            await asyncio.sleep(WRITERS_POLL_S)
        return False

    def rolled_back(self, error: Exception) -> bool:
        """After a lost reply the outcome of COMMIT is unknown."""
        return isinstance(error, DatabaseUnavailable)

    async def ready(self, *, contended: bool = False) -> None:
        await (self._contended_writer if contended else self._writer).connection()

    async def commit_batch(
        self, ends: Sequence[End], charges: Sequence[Charge], *, contended: bool = False
    ) -> tuple[list[EndOutcome], list[ChargeOutcome]]:
        writer = self._contended_writer if contended else self._writer
        try:
            return await writer.commit(ends, charges)
        except self.unavailable:
            await writer.drop()
            raise
        except asyncpg.PostgresError as error:
            await self._check_schema(error)
            raise

    @contextlib.asynccontextmanager
    async def _transaction(self, mode: str = "", pool: Any = None) -> AsyncIterator[Any]:
        """A connection of the pool in a transaction. Where a query was interrupted, the connection is closed,
        which ends the transaction: a ROLLBACK might never be answered."""
        async with self._connection(pool) as raw:
            await raw.execute(self._access.begin(REPORT_SESSION if pool else SESSION, mode))
            try:
                yield raw
            except _INTERRUPTED:
                raise
            except BaseException:
                await raw.execute("ROLLBACK;")
                raise
            await raw.execute("COMMIT;")

    @contextlib.asynccontextmanager
    async def _connection(self, pool: Any = None) -> AsyncIterator[Any]:
        """A connection of the pool, or of another one."""
        pool = pool or self._pool
        began = time.monotonic()
        raw = await pool.acquire()
        metrics.observed[metrics.DATABASE_WAIT_SECONDS].append(time.monotonic() - began)
        try:
            yield raw
        except _INTERRUPTED:
            closing = asyncio.create_task(self._cancel_and_close(pool, raw), name="interrupted-query")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            raise
        except asyncpg.PostgresError as error:
            await pool.release(raw)
            await self._check_schema(error)
            raise
        except BaseException:
            await pool.release(raw)
            raise
        await pool.release(raw)

    async def _check_schema(self, error: Exception) -> None:
        """Raises DatabaseUnavailable if a statement failed since the schema is not this build's any more."""
        if self.schema.watching and not isinstance(error, (*self.unavailable, *self.locked)):
            with contextlib.suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
                await self.schema.check(self._pool)

    async def _cancel_and_close(self, pool: Any, raw: Any) -> None:
        """Closes a connection after its interrupted query was cancelled. If the cancel gets no answer, the
        connection is dead and others of the pool may be: all are replaced."""
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT_S):
                await raw.execute("SELECT 1")
        except TimeoutError:
            await pool.expire_connections()
        except self.unavailable:
            pass  # it was closed, or its transaction failed
        finally:
            with contextlib.suppress(asyncpg.InterfaceError):  # it was closed already
                raw.terminate()
            await pool.release(raw)

    async def listen(self, channel: str, notify: Callable[[], None]) -> Callable[[], Awaitable[None]] | None:
        if not self._access.listens_at(self._url):
            return None
        listening = asyncio.create_task(self._listen(channel, notify), name=f"listen-{channel}")

        async def stop() -> None:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

        return stop

    async def _listen(self, channel: str, notify: Callable[[], None]) -> None:
        """Listens on a separate connection and reconnects when it is lost."""
        next_log_at = 0.0
        while True:
            try:
                await self._listen_once(channel, notify)
            except self.unavailable:
                pass  # the next query reports it
            except Exception:
                if time.monotonic() >= next_log_at:
                    log.exception("listening to %r fails; retrying", channel)
                    next_log_at = time.monotonic() + LISTEN_LOG_EVERY_S
            await asyncio.sleep(LISTEN_RETRY_S)

    async def _listen_once(self, channel: str, notify: Callable[[], None]) -> None:
        """Returns when the connection is lost. Raises one of `unavailable` if the server is silent."""
        connection = await asyncpg.connect(
            self._access.listens_at(self._url),
            timeout=CONNECT_TIMEOUT_S,
            command_timeout=CONNECT_TIMEOUT_S,
            server_settings={"application_name": "myna-listener"},
        )
        lost = asyncio.Event()
        connection.add_termination_listener(lambda *_: lost.set())
        try:
            await connection.add_listener(channel, lambda *_: notify())
            notify()  # one may have been missed while disconnected
            while not lost.is_set():
                try:
                    async with asyncio.timeout(LISTEN_CHECK_S):
                        await lost.wait()
                except TimeoutError:
                    await connection.execute("SELECT 1")
        finally:
            connection.terminate()

    async def close(self) -> None:
        await self._writer.drop()
        await self._contended_writer.drop()
        with contextlib.suppress(TimeoutError):  # the pool then terminates its connections
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await asyncio.gather(self._pool.close(), self._reports.close())
