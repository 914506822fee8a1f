"""The schema of each build is the same in both databases and in a backup. No migration runs under a serving
process, and a process that meets another schema charges nothing."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path

import asyncpg
import pytest

from myna import config
from myna.errors import CommandError, DatabaseUnavailable
from myna.settings import Settings
from myna.store import migrate as migrations
from myna.store import schema, tables
from myna.store.batch import Charged
from myna.store.database import Database, Transaction, connect
from myna.store.group_commit import GroupCommit
from myna.store.migrate import migrate
from myna.store.postgresql import Postgresql
from myna.store.postgresql_session import PROCESS_LOCK
from myna.store.queries import config as store
from myna.store.schema import newest
from myna.store.tables import Table, TableQueries
from tests.rig.waiting import SOON_S, until
from tests.store.books import Books, charge_of


async def copied(db: TableQueries) -> dict[str, Table]:
    return {table.name: table for table in await tables.tables_to_copy(db)}


async def test_all_tables_except_the_migrations_are_copied(books: Books) -> None:
    everything = await books.db.snapshot(lambda db: db.tables.layout())
    found = await books.db.snapshot(copied)
    of_migrations = {"schema_version", "schema_hashes", "schema_builds"}
    assert {table.name for table in everything} - found.keys() == of_migrations


async def test_a_new_table_is_copied_after_those_it_references(books: Books) -> None:
    sql = "CREATE TABLE a_new_one (id BIGINT PRIMARY KEY, key_id BIGINT REFERENCES keys (id))"
    await books.db.transaction(lambda connection: connection.run_script(sql))
    order = [table.name for table in await books.db.snapshot(tables.tables_to_copy)]
    assert order.index("accounts") < order.index("keys") < order.index("a_new_one")


async def columns(url: str, folder: Path) -> list[dict[str, dict[str, str]]]:
    """The tables and columns of each earlier build's schema."""
    db: Database = await connect(Settings(data=str(folder), database_url=url or ""))

    async def build(connection: Transaction) -> list[dict[str, dict[str, str]]]:
        await migrations.build(db, connection, 0)
        scripts, found = dict(schema.known(db.dialect)), []
        for version in range(schema.BASELINE, schema.latest() + 1):
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
        await migrations.build(books.db, connection, schema.BASELINE)
        await connection.fetch("INSERT INTO schema_hashes VALUES ($1, 'of 0.26')", schema.BASELINE)
        await tables.clear(connection)
        row = (7, "old", "", 0, 0, 0, 5)
        columns = ("id", "name", "email", "operator", "disabled_at", "balance", "created_at")
        await connection.tables.load("accounts", columns, [row])
        await connection.tables.load("site", ("version",), [(3,)])
        await connection.tables.load("audit_state", ("calls",), [(0,)])
        await connection.tables.load("rollup_state", ("counted_since", "filled"), [(5, 1)])
        await connection.tables.set_counters({"accounts": 9})
        await migrations.complete(books.db, connection, schema.BASELINE)

    await books.db.transaction(build)
    assert await migrate(books.db) == schema.newest(books.db.dialect)
    assert [tuple(row) for row in await books.db.fetch("SELECT id, name FROM accounts")] == [(7, "old")]
    assert (await books.customer()).account_id == 10


async def test_a_schema_before_the_baseline_is_refused(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "BASELINE", FAR)
    with pytest.raises(
        CommandError, match=r"^Schema \d+ is too old.*: upgrade the site with Myna 0\.9999 first"
    ):
        await migrate(books.db)


async def test_books_that_the_reports_lack_in_part_are_refused(books: Books) -> None:
    await books.db.transaction(lambda connection: connection.fetch("UPDATE rollup_state SET filled = 0"))
    with pytest.raises(CommandError, match=r"^The reports don't have all entries"):
        await migrate(books.db)


STARTS = 16
FAR = 9999
ADDED = (FAR, "ALTER TABLE accounts ADD COLUMN of_a_test BIGINT")


async def test_many_processes_may_start_on_an_empty_database(postgres_url: str) -> None:
    started = await asyncio.gather(*[Postgresql.open(postgres_url) for _ in range(STARTS)])
    found = await asyncio.gather(*[migrate(db) for db in started], return_exceptions=True)
    assert found == [newest("postgresql")] * STARTS
    for db in started:
        await db.close()


async def test_a_migration_that_was_edited_after_it_ran_is_refused(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline, (number, sql), *others = schema.known(books.db.dialect)
    monkeypatch.setattr(schema, "known", lambda _: [baseline, (number, sql + "-- a remark\n"), *others])
    with pytest.raises(CommandError, match=r"^Migration 0027 was edited after it ran on this database"):
        await migrate(books.db)
    monkeypatch.undo()
    assert await migrate(books.db) == newest(books.db.dialect)


def test_no_migration_of_a_published_version_was_edited() -> None:
    """A database that ran such a migration would refuse this build. Lines for new ones are added to the list;
    none is changed."""
    published = (Path(__file__).parent / "migrations.sha256").read_text().splitlines()
    known = [(each, dialect) for dialect in ("postgresql", "sqlite") for each in schema.known(dialect)]
    found = [f"{sha256(sql.encode()).hexdigest()}  {number:04} {dialect}" for (number, sql), dialect in known]
    assert sorted(found, key=lambda line: line[64:]) == published


async def test_missing_hashes_are_recorded_by_the_next_migration(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    await books.sql("DROP TABLE schema_hashes")
    await migrate(books.db)
    rows = await books.sql("SELECT version FROM schema_hashes ORDER BY version")
    assert [row[0] for row in rows] == [number for number, _ in schema.known(books.db.dialect)[1:]]
    edited = [(number, f"{sql}\n") for number, sql in schema.known(books.db.dialect)]
    monkeypatch.setattr(schema, "known", lambda _: edited)
    with pytest.raises(CommandError, match="was edited"):
        await migrate(books.db)


async def test_a_migration_fails_with_advice_while_a_table_is_locked(
    new_postgres_books: Books, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [*schema.known("postgresql"), ADDED]
    monkeypatch.setattr(schema, "known", lambda _: every)
    monkeypatch.setattr(migrations, "LOCKED_MAX_S", 0.0)
    monkeypatch.setattr(Postgresql, "schema_lock_timeout", "SET LOCAL lock_timeout = '100ms'")
    other = await asyncpg.connect(new_postgres_books.url)
    async with other.transaction():
        await other.fetch("SELECT * FROM accounts")
        with pytest.raises(CommandError, match=r"another session has locked a table.*Stop the servers"):
            await migrate(new_postgres_books.db)
        monkeypatch.setattr(migrations, "LOCKED_MAX_S", 60.0)
        again = asyncio.create_task(migrate(new_postgres_books.db))
        await asyncio.sleep(0)
    assert await again == FAR
    await other.close()


async def test_a_new_site_keeps_audio_for_90_days(books: Books) -> None:
    assert config.settings_of(await store.load(books.db)).audio_keep_days == 90


NEXT = newest("postgresql") + 1
BREAKS = "ALTER FUNCTION commit_batch RENAME TO commit_batch_of_another_build"
WRITERS = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE application_name = 'myna-writer' AND datname = current_database()"""


@pytest.fixture
async def serving(new_postgres_books: Books) -> AsyncIterator[Postgresql]:
    """The database as a serving process has it."""
    opened = await Postgresql.open(new_postgres_books.url)
    await opened.ready()
    await opened.ready(contended=True)
    yield opened
    await opened.close()


async def test_a_database_is_not_migrated_under_a_serving_process(
    new_postgres_books: Books, serving: Postgresql, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = [*schema.known("postgresql"), (NEXT, "CREATE TABLE added (n bigint)")]
    monkeypatch.setattr(schema, "known", lambda _: added)
    monkeypatch.setattr(migrations, "SESSIONS_END_S", 0.0)
    with pytest.raises(CommandError, match=r"older Myna serve from it \(connected from .+\)\. Stop them"):
        await migrate(new_postgres_books.db)
    assert await new_postgres_books.sql("SELECT to_regclass('added')::text") == [(None,)]
    monkeypatch.setattr(migrations, "SESSIONS_END_S", SOON_S)
    await serving.close()  # its sessions take a moment to end
    assert await migrate(new_postgres_books.db) == NEXT
    assert await new_postgres_books.sql("SELECT to_regclass('added')::text") == [("added",)]


async def test_a_migration_that_only_adds_runs_under_processes_that_it_serves(
    new_postgres_books: Books, serving: Postgresql, monkeypatch: pytest.MonkeyPatch
) -> None:
    customer = await new_postgres_books.customer()
    added = f"-- Serves builds of schema {NEXT - 1} and later.\nCREATE TABLE added (n bigint)"
    known = schema.known
    with monkeypatch.context() as newer:
        newer.setattr(schema, "known", lambda dialect: [*known(dialect), (NEXT, added)])
        assert await migrate(new_postgres_books.db) == NEXT
    await serving.schema.check(serving)
    _, (charged,) = await serving.commit_batch([], [charge_of(customer)])
    assert isinstance(charged, Charged)
    assert await migrate(serving) == NEXT, "the older build can start again"
    await new_postgres_books.sql("DELETE FROM schema_builds WHERE version = $1", NEXT)
    with pytest.raises(DatabaseUnavailable):
        await serving.schema.check(serving)
    with pytest.raises(CommandError, match="Use a newer Myna"):
        await migrate(serving)


async def test_a_process_does_not_start_during_a_migration(new_postgres_books: Books) -> None:
    other = await asyncpg.connect(new_postgres_books.url)
    async with other.transaction():
        await other.fetch(f"SELECT pg_advisory_xact_lock({PROCESS_LOCK})")
        with pytest.raises(new_postgres_books.db.unavailable):
            await new_postgres_books.db.ready()
    await new_postgres_books.db.ready()
    await other.close()


@pytest.mark.parametrize("reconnects", [False, True])
async def test_a_charge_is_refused_uncharged_once_the_schema_is_another_one(
    new_postgres_books: Books, serving: Postgresql, reconnects: bool, caplog: pytest.LogCaptureFixture
) -> None:
    customer = await new_postgres_books.customer()
    commits = GroupCommit(serving, queue_max=10)
    commits.start()
    await new_postgres_books.sql("INSERT INTO schema_version (version) VALUES ($1)", NEXT)
    await new_postgres_books.sql(WRITERS if reconnects else BREAKS)

    async def noticed() -> bool:
        with contextlib.suppress(DatabaseUnavailable):
            await serving.ready()
            return False
        return True

    if reconnects:
        await until(noticed, "the writer has lost its connection")
    with caplog.at_level(logging.ERROR), pytest.raises(TimeoutError):  # the ledger answers 503, uncharged
        await commits.charge(charge_of(customer), 0.5)
    assert serving.schema.changed.is_set()
    expected = f"the database has schema {NEXT}, this process needs {NEXT - 1}: it answers 503 and ends"
    assert [record.message for record in caplog.records if record.levelno == logging.ERROR] == [expected]
    await commits.close(0.1)
    assert await new_postgres_books.balance(customer) == 10


async def test_reads_and_transactions_fail_as_unavailable_once_the_schema_is_another_one(
    new_postgres_books: Books, serving: Postgresql
) -> None:
    async def write(connection: Transaction) -> None:
        await connection.fetch("UPDATE dropped SET n = 1")

    with pytest.raises(asyncpg.UndefinedTableError):
        await serving.transaction(write)
    await new_postgres_books.sql("INSERT INTO schema_version (version) VALUES ($1)", NEXT)
    with pytest.raises(DatabaseUnavailable):
        await serving.fetch("SELECT n FROM dropped")
    with pytest.raises(DatabaseUnavailable):
        await serving.transaction(write)
    assert serving.schema.changed.is_set()
