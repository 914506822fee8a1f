"""The database as the store sees it, and the only place that chooses between SQLite and PostgreSQL.

The SQL of the store is written once, in the subset both understand: parameters are `$1`, `$2`, …, time is
`now_ms()` (Unix milliseconds; the database's clock on PostgreSQL, the process's on SQLite, where they are
one machine). What differs by nature, the batch of charges and the schema, has one file for each dialect.

A store function is `async` and takes a `Reader` or a `Connection`. On SQLite such a function never really
waits, so a whole transaction is driven to its end on the writer's thread without a hop in between.
"""

import asyncio
import pkgutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from myna.errors import ConfigError, DatabaseAway
from myna.store.batch import Charge, ChargeOutcome, End, EndOutcome

T = TypeVar("T")
Row = Sequence[Any]
SQLITE_FILE = "myna.sqlite"
"""In the data folder."""
_SQLITE, _POSTGRESQL = "myna.store.sqlite:Sqlite", "myna.store.postgresql:Postgresql"
"""Each database's place. A process imports its own one's alone: the other's driver is a tenth of the time
that a command takes, and 3.6 MB."""


class Reader(Protocol):
    """Whatever a query can be put to."""

    async def fetch(self, sql: str, *args: object) -> Sequence[Row]: ...


class Connection(Reader, Protocol):
    """An open transaction."""

    queue_lock: str
    """The statement behind which only one transaction at a time takes from the queue of jobs."""
    skip_locked: str
    """Behind a SELECT: locks its rows and leaves out those that somebody else holds. Empty where there is but
    one writer."""

    async def run_script(self, sql: str) -> None:
        """Several statements without parameters, as a migration has them."""

    async def end(self, ends: Sequence[End]) -> list[EndOutcome]:
        """Keeps and refunds calls as part of this transaction. It must hold their accounts' rows already."""


class Database(Reader, Protocol):
    """One of the two databases. `fetch` reads what is committed; writes go through the other three."""

    dialect: str
    schema_lock: str
    """The statement by which one of several starting processes migrates and the others wait."""
    single_process: bool
    """Only one process serves from it, so whatever is open when that one starts was left by a dead one."""
    computes_here: bool
    """A transaction is computed in this process, in turns with its event loop, not in one beside it."""
    away: tuple[type[Exception], ...]
    """Raised when the database can't be asked now: the outcome of what was sent is unknown."""

    async def has_schema(self) -> bool:
        """Whether `migrate` ever ran here."""

    async def transaction(self, work: Callable[[Connection], Awaitable[T]]) -> T:
        """Runs `work` in one transaction, committed when it returns, rolled back when it raises."""

    async def snapshot(self, work: Callable[[Reader], Awaitable[T]]) -> T:
        """Runs `work` on one unchanging view of the data, without stopping writers."""

    async def commit_batch(
        self, ends: Sequence[End], charges: Sequence[Charge]
    ) -> tuple[list[EndOutcome], list[ChargeOutcome]]:
        """One transaction for many callers; returns after its COMMIT, results in the order given."""

    async def listen(self, channel: str, heard: Callable[[], None]) -> Callable[[], Awaitable[None]] | None:
        """Calls `heard` when some process committed what is told on this channel, and after every gap in the
        listening; returns what ends it. None where the database doesn't tell."""

    async def close(self) -> None: ...


async def in_time(db: Database, query: Awaitable[T], wait_s: float) -> T:
    """What the query gives, if it does within so many seconds. Raises DatabaseAway."""
    try:
        async with asyncio.timeout(wait_s):
            return await query
    except db.away:  # a TimeoutError is one of them, on both
        raise DatabaseAway from None


async def connect(url: str, data: Path, *, serving: bool = False) -> Database:
    """Opens `url`: `sqlite:` is the file in the data folder, `postgresql://…` a server.

    `serving` is true in the one process that serves; on SQLite its writer makes way for the command line.
    """
    if url == "sqlite:":
        return await _open(_SQLITE, data / SQLITE_FILE, serving=serving)
    if url.startswith(("postgresql://", "postgres://")):
        return await _open(_POSTGRESQL, url)
    raise ConfigError("MYNA_DATABASE_URL: must be empty (SQLite in the data folder) or postgresql://…")


async def _open(place: str, *where: object, **how: object) -> Database:
    opened: Database = await pkgutil.resolve_name(place).open(*where, **how)
    return opened
