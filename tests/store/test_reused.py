"""A PostgreSQL database that several tests use is as new for each, or another one."""

import os
from pathlib import Path

import pytest

from tests.rig.postgres import OWNER, PREFIX, Postgres, owned, remove_leftovers
from tests.store.books import Books, books_of, speech
from tests.store.reused import ReusedBooks

pytestmark = pytest.mark.anyio

CHANGES = {
    "a default": "ALTER TABLE accounts ALTER COLUMN email SET DEFAULT 'x'",
    "a function": "CREATE FUNCTION new() RETURNS bigint LANGUAGE sql AS 'SELECT 1'",
    "statistics": "ANALYZE settings",
}


async def rows(books: Books) -> dict[str, list[tuple[object, ...]]]:
    layout = await books.db.snapshot(lambda db: db.tables.layout())
    found = {table.name: await books.sql(f"SELECT * FROM {table.name}") for table in layout}
    return found | {"clock": await books.sql("SELECT pg_get_functiondef('now_ms'::regproc)")}


async def test_a_used_database_is_as_new(postgres: Postgres, tmp_path: Path) -> None:
    url = postgres.fresh_books()
    async with books_of(url, tmp_path) as new:
        expected = await rows(new)
    postgres.drop(url)
    reused = ReusedBooks(postgres)
    await reused.open()
    names = set()
    for _ in range(3):
        async with reused.lent(tmp_path) as books:
            assert await rows(books) == expected
            customer = await books.customer()
            assert (customer.account_id, customer.key_id) == (1, 1)
            await books.opened(customer, task=speech())
            await books.tick_clock()
            await books.stop_clock()
            await books.sql("UPDATE settings SET value = 'x'")
            names.add(books.url)
    await reused.close()
    assert len(names) == 1


@pytest.mark.parametrize("change", CHANGES)
async def test_a_changed_database_is_replaced(postgres: Postgres, tmp_path: Path, change: str) -> None:
    reused = ReusedBooks(postgres)
    await reused.open()
    async with reused.lent(tmp_path) as books:
        await books.sql(CHANGES[change])
        changed = books.url
    async with reused.lent(tmp_path) as books:
        assert books.url != changed
    await reused.close()


def test_the_folders_of_dead_processes_are_removed(tmp_path: Path) -> None:
    dead, alive = tmp_path / f"{PREFIX}dead", tmp_path / f"{PREFIX}alive"
    for folder in (dead, alive):
        folder.mkdir()
        descriptor = owned(folder)
        if folder == dead:
            os.close(descriptor)
    remove_leftovers(tmp_path)
    assert [path.parent for path in tmp_path.glob(f"*/{OWNER}")] == [alive]
    os.close(descriptor)
