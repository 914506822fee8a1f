"""The catalogue and all rows of PostgreSQL; see `tables.Tables`. Rows are loaded by COPY."""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from myna.store.rows import Row
from myna.store.tables.tables import Kind, Table

LONG_TIMEOUT_S = 6 * 3600.0
_PREFETCHED = 500
_KINDS: dict[str, Kind] = {
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


class PostgresqlTables:
    """The tables on one connection, within a transaction."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    async def layout(self) -> list[Table]:
        columns: dict[str, dict[str, Kind]] = {}
        for table, column, kind in await self._raw.fetch(_COLUMNS):
            columns.setdefault(table, {})[column] = _KINDS[kind]
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
