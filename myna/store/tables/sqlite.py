"""The catalogue and all rows of SQLite; see `tables.Tables`."""

from collections.abc import AsyncIterator, Iterable, Sequence

import apsw

from myna.store.rows import Row
from myna.store.tables.tables import Kind, Table

_KINDS: dict[str, Kind] = {
    "INTEGER": "integer",
    "BIGINT": "integer",
    "REAL": "real",
    "TEXT": "text",
    "BLOB": "bytes",
}


class SqliteTables:
    """The tables on one connection."""

    def __init__(self, raw: apsw.Connection) -> None:
        self._raw = raw

    async def layout(self) -> list[Table]:
        names = self._raw.execute(
            r"SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\'"
        ).fetchall()
        return [self._table(str(name)) for (name,) in names]

    def _table(self, name: str) -> Table:
        columns = self._raw.execute("SELECT name, type FROM pragma_table_info(?)", (name,)).fetchall()
        named = self._raw.execute('SELECT "table" FROM pragma_foreign_key_list(?)', (name,)).fetchall()
        kinds = {str(column): _KINDS[str(kind)] for column, kind in columns}
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
