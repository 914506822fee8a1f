"""The interface of a database, and the only place that chooses between SQLite and PostgreSQL.

The SQL of the store is written once, in the subset that both understand. Parameters are `$1`, `$2`, …; the
time is `now_ms()` in Unix milliseconds, by PostgreSQL's clock, or by this process's on SQLite. Only the batch
of charges is written for each dialect.

A store function is `async` and takes a `Queries` or a `Transaction`. On SQLite it never suspends, so the
writer's thread runs a transaction without interruption.
"""

import asyncio
import pkgutil
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from myna.errors import DatabaseUnavailable
from myna.settings import Settings
from myna.store.batch import Charge, ChargeOutcome, End, EndOutcome
from myna.store.rows import Queries as Queries
from myna.store.rows import Row as Row
from myna.store.schema import SchemaWatch
from myna.store.tables import TableQueries, Tables

T = TypeVar("T")
_SQLITE = "myna.store.sqlite:Sqlite"
_POSTGRESQL = "myna.store.postgresql:Postgresql"
_ACCESS = "myna.store.postgresql_session:Access"
"""Imported on demand: the other database's driver costs a tenth of a command's run time, and 3.6 MB."""


class Transaction(Queries, Protocol):
    """An open transaction."""

    queue_lock: str
    """The statement that lets only one transaction at a time lease jobs."""
    skip_locked: str
    """Suffix of a SELECT: locks its rows and skips locked ones. Empty where there is only one writer."""

    async def with_rows(self, head: str, rows: Sequence[Row], tail: str, *types: str) -> Sequence[Row]:
        """Runs `head`, the rows as a table, and `tail`, in as many statements as it takes: none without rows.
        Returns the rows of all. `types` has the type of each column, none if all are bigint."""

    async def run_script(self, sql: str) -> None:
        """Runs several statements without parameters, such as a migration."""

    async def transaction_id(self) -> int:
        """The argument for `Database.committed`."""

    @property
    def tables(self) -> Tables:
        """The catalogue and all rows."""

    async def end(self, ends: Sequence[End]) -> list[EndOutcome]:
        """Keeps and refunds calls in this transaction, which must have locked their accounts."""


class Database(Queries, Protocol):
    """One of the two databases. `fetch` reads committed data; `transaction` and `commit_batch` write."""

    dialect: str
    schema_lock: str
    """The statement that lets one of several starting processes migrate while the others wait."""
    schema_lock_timeout: str
    """The statement after it that limits how long a migration waits for a table: the statements of other
    sessions on that table wait as long."""
    exclude_processes: str
    """The query that keeps serving processes from connecting until the end of the transaction. Returns
    whether none is connected, and from which addresses others are."""
    schema: SchemaWatch
    single_process: bool
    """Only one process serves from it, so calls that are open when it starts were left by a dead process."""
    in_process: bool
    """Transactions run in this process and compete with its event loop for the interpreter."""
    unavailable: tuple[type[Exception], ...]
    """Raised when the database does not answer: the outcome of a statement that was sent is unknown."""
    locked: tuple[type[Exception], ...]
    """Raised when another session locks a row or a table for too long: nothing was done."""

    async def has_schema(self) -> bool:
        """Whether `migrate` ever ran on it."""

    async def connections_max(self) -> int | None:
        """How many connections the server, the database and the role allow; None without such limits."""

    async def transaction(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Runs `work` in one transaction, committed when it returns, rolled back when it raises."""

    async def committed(self, transaction_id: int) -> bool:
        """Whether this process's last transaction, which ended with an error, was committed. Waits until it
        has ended, and ends it if its connection is dead. Raises `unavailable`."""

    async def snapshot(
        self, work: Callable[[TableQueries], Awaitable[T]], *, query_max_s: float | None = None
    ) -> T:
        """Runs `work` on one snapshot of the data, without stopping writers. A query on PostgreSQL that takes
        longer than `query_max_s` (None: six hours) raises TimeoutError."""

    async def read(self, work: Callable[[Queries], Awaitable[T]]) -> T:
        """Runs `work` on one snapshot of the data, on a connection for reports: no call waits for it.
        A query that takes longer than `REPORT_QUERY_MAX_MS` raises Unavailable."""

    async def writers_ended(self) -> bool:
        """Waits for every transaction that has written by now; False if one takes too long."""

    def rolled_back(self, error: Exception) -> bool:
        """Whether a batch that failed with this error, one of `unavailable`, certainly was not committed."""

    async def ready(self, *, contended: bool = False) -> None:
        """Connects if `commit_batch` has no connection. After an error here nothing was sent. Raises
        DatabaseUnavailable if the schema is not this build's."""

    async def commit_batch(
        self, ends: Sequence[End], charges: Sequence[Charge], *, contended: bool = False
    ) -> tuple[list[EndOutcome], list[ChargeOutcome]]:
        """Runs one transaction for many callers. Returns after COMMIT, with outcomes in the order given.

        The outcome is BUSY where another session has locked a row. `contended` is for such operations: they
        have a separate connection, on which a batch may wait for an account.
        """

    async def listen(self, channel: str, notify: Callable[[], None]) -> Callable[[], Awaitable[None]] | None:
        """Calls `notify` for each notification on the channel and after each reconnect. Returns a function
        that stops it, or None if the database has no notifications."""

    async def close(self) -> None: ...


async def in_time(db: Database, query: Awaitable[T], wait_s: float) -> T:
    """The query's result. Raises DatabaseUnavailable after `wait_s` seconds or when the database fails."""
    try:
        async with asyncio.timeout(wait_s):
            return await query
    except (*db.unavailable, *db.locked):  # both databases list TimeoutError
        raise DatabaseUnavailable from None


async def connect(settings: Settings, *, serving: bool = False) -> Database:
    """Opens the site's database: the file in the data folder, or the server of MYNA_DATABASE_URL.

    `serving` is true in the process that serves; on SQLite its writer yields to commands.
    """
    opened: Database
    if settings.on_sqlite:
        opened = await pkgutil.resolve_name(_SQLITE).open(settings.sqlite_file, serving=serving)
    else:
        access = pkgutil.resolve_name(_ACCESS)(
            connections=settings.postgresql_connections,
            pooled_transactions=settings.postgresql_pooling == "transaction",
            listen_url=settings.database_listen_url,
        )
        opened = await pkgutil.resolve_name(_POSTGRESQL).open(settings.database_url, access)
    return opened
