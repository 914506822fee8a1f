"""No migration runs under a serving process, and a process that meets another schema charges nothing."""

import contextlib
import logging
from collections.abc import AsyncIterator

import asyncpg
import pytest

from myna.errors import CommandError, DatabaseUnavailable
from myna.store import migrate as migrations
from myna.store import schema
from myna.store.batch import Charged
from myna.store.database import Transaction
from myna.store.group_commit import GroupCommit
from myna.store.migrate import migrate
from myna.store.postgresql import Postgresql
from myna.store.postgresql_session import PROCESS_LOCK
from myna.store.schema import newest
from tests.rig.waiting import SOON_S
from tests.store.books import Books, charge_of
from tests.store.stalls import until

pytestmark = pytest.mark.anyio

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
