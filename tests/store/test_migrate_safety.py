"""Migrations with conflicts: concurrent starts, an edited file, a table that another session locks."""

import asyncio
from hashlib import sha256
from pathlib import Path

import asyncpg
import pytest

from myna.errors import CommandError
from myna.store import migrate as migrations
from myna.store.migrate import migrate, newest
from myna.store.postgresql import Postgresql
from tests.store.books import Books

pytestmark = pytest.mark.anyio

STARTS = 16
NEXT = 9999
ADDED = (NEXT, "ALTER TABLE accounts ADD COLUMN of_a_test BIGINT")


async def test_many_processes_may_start_on_an_empty_database(postgres_url: str) -> None:
    started = await asyncio.gather(*[Postgresql.open(postgres_url) for _ in range(STARTS)])
    found = await asyncio.gather(*[migrate(db) for db in started], return_exceptions=True)
    assert found == [newest("postgresql")] * STARTS
    for db in started:
        await db.close()


async def test_a_migration_that_was_edited_after_it_ran_is_refused(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    (number, sql), *others = migrations.known(books.db.dialect)
    monkeypatch.setattr(migrations, "known", lambda _: [(number, sql + "-- a remark\n"), *others])
    with pytest.raises(CommandError, match=r"^Migration 0001 was edited after it ran on this database"):
        await migrate(books.db)
    monkeypatch.undo()
    assert await migrate(books.db) == newest(books.db.dialect)


def test_no_migration_of_a_published_version_was_edited() -> None:
    """A database that ran such a migration would refuse this build. Lines for new files are added to the
    list; none is changed. Format: as of `sha256sum`."""
    published = (Path(__file__).parent / "migrations.sha256").read_text().splitlines()
    files = sorted(Path(migrations.__file__).parent.glob("migrations/[0-9]*.sql"))
    assert [f"{sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files] == published


async def test_missing_hashes_are_recorded_by_the_next_migration(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    await books.sql("DROP TABLE schema_hashes")
    await migrate(books.db)
    rows = await books.sql("SELECT version FROM schema_hashes ORDER BY version")
    assert [row[0] for row in rows] == [number for number, _ in migrations.known(books.db.dialect)]
    edited = [(number, f"{sql}\n") for number, sql in migrations.known(books.db.dialect)]
    monkeypatch.setattr(migrations, "known", lambda _: edited)
    with pytest.raises(CommandError, match="was edited"):
        await migrate(books.db)


async def test_a_migration_fails_with_advice_while_a_table_is_locked(
    postgres_books: Books, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = [*migrations.known("postgresql"), ADDED]
    monkeypatch.setattr(migrations, "known", lambda _: every)
    monkeypatch.setattr(migrations, "LOCKED_MAX_S", 0.0)
    monkeypatch.setattr(Postgresql, "schema_lock_timeout", "SET LOCAL lock_timeout = '100ms'")
    other = await asyncpg.connect(postgres_books.url)
    async with other.transaction():
        await other.fetch("SELECT * FROM accounts")
        with pytest.raises(CommandError, match=r"another session has locked a table.*Stop the servers"):
            await migrate(postgres_books.db)
        monkeypatch.setattr(migrations, "LOCKED_MAX_S", 60.0)
        again = asyncio.create_task(migrate(postgres_books.db))
        await asyncio.sleep(0)
    assert await again == NEXT
    await other.close()
