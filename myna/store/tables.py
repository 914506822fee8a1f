"""All rows of a database, for backup, restore and move.

Tables and columns come from the database's catalogue, so a migration needs no change here. Rows do not depend
on the dialect: those of one database can be loaded into the other.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from myna.store.rows import Queries, Row, fetch_only, has_row

if TYPE_CHECKING:  # a process imports the driver of its own database only
    import apsw

Kind = Literal["integer", "real", "text", "bytes"]
NOT_COPIED = frozenset({"schema_version", "schema_hashes", "schema_builds"})
"""`migrate` writes these tables in each database."""
NOT_KEPT = frozenset({"sessions", "links", "sign_in_failures", "oidc_attempts", "form_submissions"})
"""A backup has no rows of these tables: a restore would make closed sessions and used links valid again."""
AUDIO = "SELECT audio FROM tasks WHERE audio <> '' AND audio_removed_at = 0"
PREVIEWS = "SELECT preview FROM clones WHERE preview <> ''"
SAMPLES = "SELECT sample FROM clones WHERE sample <> ''"
_SQLITE_KINDS: dict[str, Kind] = {
    "INTEGER": "integer",
    "BIGINT": "integer",
    "REAL": "real",
    "TEXT": "text",
    "BLOB": "bytes",
}
LONG_TIMEOUT_S = 6 * 3600.0
_PREFETCHED = 500
_POSTGRESQL_KINDS: dict[str, Kind] = {
    "bigint": "integer",
    "integer": "integer",
    "double precision": "real",
    "text": "text",
    "bytea": "bytes",
}
_COLUMNS = """SELECT c.table_name, c.column_name, c.data_type FROM information_schema.columns c
JOIN information_schema.tables t USING (table_schema, table_name)
WHERE t.table_schema = current_schema() AND t.table_type = 'BASE TABLE'
ORDER BY c.table_name, c.ordinal_position"""
_REFERENCES = """SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint
WHERE contype = 'f' AND connamespace = current_schema()::regnamespace"""
_IDENTITIES = """SELECT table_name, pg_get_serial_sequence(quote_ident(table_name), column_name) AS sequence
FROM information_schema.columns WHERE table_schema = current_schema() AND is_identity = 'YES'"""
_FUNCTIONS = """SELECT oid::regprocedure::text FROM pg_proc p
WHERE pronamespace = current_schema()::regnamespace AND NOT EXISTS (
    SELECT 1 FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')"""
"""All functions that do not belong to an extension."""


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
    return await fetch_only(db, int, f"SELECT count(*) FROM {table}")


async def clear(db: TableQueries) -> None:
    """Deletes the rows that migrations inserted, before rows are loaded."""
    for table in reversed(await tables_to_copy(db)):
        await db.fetch(f"DELETE FROM {table.name}")


async def is_referenced(db: Queries, name: str) -> bool:
    """Whether a row references the file of this name."""
    audio, previews = f"{AUDIO} AND audio = $1", f"{PREVIEWS} AND preview = $1"
    samples = f"{SAMPLES} AND sample = $1"
    return await has_row(db, f"{audio} UNION ALL {previews} UNION ALL {samples}", name)


class SqliteTables:
    """The tables on one connection."""

    def __init__(self, raw: "apsw.Connection") -> None:
        self._raw = raw

    async def layout(self) -> list[Table]:
        names = self._raw.execute(
            r"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'"
        ).fetchall()
        return [self._table(str(name)) for (name,) in names]

    def _table(self, name: str) -> Table:
        columns = self._raw.execute("SELECT name, type FROM pragma_table_info(?)", (name,)).fetchall()
        named = self._raw.execute('SELECT "table" FROM pragma_foreign_key_list(?)', (name,)).fetchall()
        kinds = {str(column): _SQLITE_KINDS[str(kind)] for column, kind in columns}
        return Table(name, kinds, frozenset(str(other) for (other,) in named))

    async def stream(self, sql: str) -> AsyncIterator[Row]:
        for row in self._raw.execute(sql):
            yield row

    async def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        placeholders = ", ".join("?" * len(columns))
        self._raw.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({placeholders})", rows)

    async def counters(self) -> dict[str, int]:
        with_ids = self._raw.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE '%AUTOINCREMENT%'"
        ).fetchall()
        last = {str(row[0]): row[1] for row in self._raw.execute("SELECT name, seq FROM sqlite_sequence")}
        return {str(name): int(last.get(str(name), 0)) for (name,) in with_ids}

    async def set_counters(self, last: dict[str, int]) -> None:
        for name, value in last.items():
            self._raw.execute("DELETE FROM sqlite_sequence WHERE name = ?", (name,))
            self._raw.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (name, value))

    async def drop_all(self) -> None:
        self._raw.pragma("defer_foreign_keys", True)
        for table in await self.layout():
            self._raw.execute(f"DROP TABLE {table.name}")

    async def begin_load(self) -> None:
        """Does nothing: SQLite has no limit for idle transactions."""


class PostgresqlTables:
    """The tables on one connection, within a transaction."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    async def layout(self) -> list[Table]:
        columns: dict[str, dict[str, Kind]] = {}
        for table, column, kind in await self._raw.fetch(_COLUMNS):
            columns.setdefault(table, {})[column] = _POSTGRESQL_KINDS[kind]
        references: dict[str, set[str]] = {}
        for table, other in await self._raw.fetch(_REFERENCES):
            references.setdefault(table, set()).add(other)
        return [Table(name, kinds, frozenset(references.get(name, ()))) for name, kinds in columns.items()]

    async def stream(self, sql: str) -> AsyncIterator[Row]:
        async for row in self._raw.cursor(sql, prefetch=_PREFETCHED, timeout=LONG_TIMEOUT_S):
            yield row

    async def load(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
        await self._raw.copy_records_to_table(table, columns=columns, records=rows, timeout=LONG_TIMEOUT_S)

    async def counters(self) -> dict[str, int]:
        rows = await self._raw.fetch(
            f"SELECT table_name, pg_sequence_last_value(sequence::regclass) FROM ({_IDENTITIES}) i"
        )
        return {str(table): int(last or 0) for table, last in rows}

    async def set_counters(self, last: dict[str, int]) -> None:
        for table, sequence in await self._raw.fetch(_IDENTITIES):
            if last.get(table):
                await self._raw.fetch("SELECT setval($1::text::regclass, $2)", sequence, last[table])

    async def drop_all(self) -> None:
        tables = [table.name for table in await self.layout()]
        functions = [row[0] for row in await self._raw.fetch(_FUNCTIONS)]
        await self._raw.execute(f"DROP TABLE {', '.join(tables)} CASCADE")
        await self._raw.execute(f"DROP FUNCTION {', '.join(functions)} CASCADE")

    async def begin_load(self) -> None:
        await self._raw.execute("SET LOCAL idle_in_transaction_session_timeout = 0")
