"""All rows of the database, for backup and restore.

Tables and columns come from the database's catalogue, so a migration needs no change here. Rows do not depend
on the dialect: those of one database can be loaded into the other.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from graphlib import TopologicalSorter
from typing import Literal, Protocol

from msgspec import Struct

from myna.store.rows import Queries, Row

Kind = Literal["integer", "real", "text", "bytes"]
NOT_COPIED = frozenset({"schema_version", "schema_hashes", "schema_builds"})
"""`migrate` writes these tables in each database."""
NOT_KEPT = frozenset({"sessions", "links", "sign_in_failures", "oidc_attempts", "form_submissions"})
"""A backup has no rows of these tables: a restore would make closed sessions and used links valid again."""


class Table(Struct, frozen=True):
    """A table of the catalogue. `references` are the tables that its foreign keys reference."""

    name: str
    columns: dict[str, Kind]
    references: frozenset[str] = frozenset()


class Tables(Protocol):
    """The catalogue and the rows of one connection, for either dialect."""

    async def layout(self) -> list[Table]:
        """All tables of this database."""

    def stream(self, sql: str) -> AsyncIterator[Row]:
        """The rows of a query, with few in memory at a time."""

    async def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Inserts rows with their ids."""

    async def counters(self) -> dict[str, int]:
        """The last generated id of each table that generates ids, 0 for none."""

    async def set_counters(self, last: dict[str, int]) -> None:
        """Sets the last generated ids."""

    async def drop_all(self) -> None:
        """Drops all tables and functions."""

    async def begin_load(self) -> None:
        """Allows the transaction to be idle for long, since files are copied during it."""


class TableQueries(Queries, Protocol):
    """A connection with access to all rows. Loading needs a transaction."""

    @property
    def tables(self) -> Tables: ...


async def tables_to_copy(db: TableQueries) -> list[Table]:
    """The tables of a backup, each after those that it references."""
    known = {table.name: table for table in await db.tables.layout() if table.name not in NOT_COPIED}
    order = TopologicalSorter({name: sorted(table.references) for name, table in sorted(known.items())})
    return [known[name] for name in order.static_order()]


async def count(db: Queries, table: str) -> int:
    """The number of rows in the table."""
    ((rows,),) = await db.fetch(f"SELECT count(*) FROM {table}")
    return int(rows)


async def clear(db: TableQueries) -> None:
    """Deletes the rows that migrations inserted, before rows are loaded."""
    for table in reversed(await tables_to_copy(db)):
        await db.fetch(f"DELETE FROM {table.name}")


AUDIO = "SELECT audio FROM tasks WHERE audio <> '' AND audio_removed_at = 0"
PREVIEWS = "SELECT preview FROM clones WHERE preview <> ''"
SAMPLES = "SELECT sample FROM clones WHERE sample <> ''"


async def is_referenced(db: Queries, name: str) -> bool:
    """Whether a row references the file of this name."""
    audio, previews = f"{AUDIO} AND audio = $1", f"{PREVIEWS} AND preview = $1"
    samples = f"{SAMPLES} AND sample = $1"
    return bool(await db.fetch(f"{audio} UNION ALL {previews} UNION ALL {samples}", name))
