"""Every table of the schema is in a backup, and each build's schema is the same in both databases."""

import hashlib
from pathlib import Path

import pytest

from myna.store import migrate
from myna.store.database import Database, Transaction, connect
from myna.store.tables import tables
from myna.store.tables.tables import Table, TableQueries
from tests.store.books import Books, charge_of, idempotency_key_of

pytestmark = pytest.mark.anyio
HASHED_KEYS = 13
"""The migration that hashes idempotency keys."""


async def copied(db: TableQueries) -> dict[str, Table]:
    return {table.name: table for table in await tables.tables_to_copy(db)}


async def test_all_tables_except_the_migrations_are_copied(books: Books) -> None:
    everything = await books.db.snapshot(lambda db: db.tables.layout())
    found = await books.db.snapshot(copied)
    assert {table.name for table in everything} - found.keys() == {"schema_version", "schema_hashes"}


async def test_a_new_table_is_copied_after_those_it_references(books: Books) -> None:
    sql = "CREATE TABLE a_new_one (id BIGINT PRIMARY KEY, key_id BIGINT REFERENCES keys (id))"
    await books.db.transaction(lambda connection: connection.run_script(sql))
    order = [table.name for table in await books.db.snapshot(tables.tables_to_copy)]
    assert order.index("accounts") < order.index("keys") < order.index("a_new_one")


async def columns(url: str, folder: Path) -> list[dict[str, dict[str, str]]]:
    """The tables and columns of each earlier build's schema."""
    db: Database = await connect(url or "sqlite:", folder)

    async def build(connection: Transaction) -> list[dict[str, dict[str, str]]]:
        await migrate.build(db, connection, 0)
        scripts, found = dict(migrate.known(db.dialect)), []
        for version in range(1, migrate.latest() + 1):
            await connection.run_script(scripts.get(version, ""))
            found.append({name: dict(table.columns) for name, table in (await copied(connection)).items()})
        return found

    try:
        return await db.transaction(build)
    finally:
        await db.close()


async def test_a_version_of_the_schema_has_the_same_columns_in_both_databases(
    postgres_url: str, tmp_path: Path
) -> None:
    """Otherwise a backup of one could not be restored into the other."""
    assert await columns("", tmp_path) == await columns(postgres_url, tmp_path)


async def test_an_older_schema_is_completed_with_its_rows(
    database_url: str, tmp_path: Path, books: Books
) -> None:
    """As during a restore of an older backup."""
    await books.db.transaction(lambda connection: connection.tables.drop_all())

    async def build(connection: Transaction) -> None:
        await migrate.build(books.db, connection, 1)
        await tables.clear(connection)
        row = (7, "old", "", 0, 0, 0, 5)
        columns = ("id", "name", "email", "operator", "disabled_at", "balance", "created_at")
        await connection.tables.load("accounts", columns, [row])
        await connection.tables.load("site", ("version",), [(3,)])
        await connection.tables.set_counters({"accounts": 9})
        await migrate.complete(books.db, connection, 1)

    await books.db.transaction(build)
    assert await migrate.migrate(books.db) == migrate.newest(books.db.dialect)
    assert [tuple(row) for row in await books.db.fetch("SELECT id, name FROM accounts")] == [(7, "old")]
    assert (await books.customer()).account_id == 10


async def test_idempotency_keys_of_an_older_schema_are_replaced_by_their_hashes(books: Books) -> None:
    """A retry after the migration finds its stored response."""
    await books.charge(
        charge_of(await books.customer(units=5), idempotency_key=idempotency_key_of("caf\xe9"))
    )
    ((sql,),) = [[sql] for number, sql in migrate.known(books.db.dialect) if number == HASHED_KEYS]
    await books.db.transaction(lambda connection: connection.run_script(sql))
    expected = hashlib.sha256("caf\xe9".encode("latin-1")).hexdigest()
    assert await books.sql("SELECT key FROM reservations") == [(expected,)]
