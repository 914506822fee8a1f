"""PostgreSQL's index of open calls has an entry for each call that ended since the last vacuum."""

import pytest

from tests.store.books import Books, charge_of, keep_of

pytestmark = pytest.mark.anyio

FILL = (
    "INSERT INTO calls (id, account_id, key_id, pays, units, state, created_at, deadline)"
    " SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), 1, 1, 1, 1, 1, 0, 0"
    " FROM generate_series(1, $1::int) AS g(n)"
)
OPEN_CALLS = "SELECT count(*) FROM calls WHERE state = 0"
ENTRIES = "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'calls_open'"


async def entries(books: Books) -> int:
    """The number of index entries that a query of open calls reads."""
    writer = await books.db._writer.connection()  # type: ignore[attr-defined]
    read = []
    for _ in range(2):
        await writer.fetch("SELECT pg_stat_force_next_flush()")
        ((before,),) = await writer.fetch(ENTRIES)
        read.append(int(before))
        await writer.fetch(OPEN_CALLS)
    return read[1] - read[0]


async def test_a_vacuum_empties_the_index_of_open_calls_if_few_pages_changed(
    postgres_books: Books,
) -> None:
    """It would leave the indexes alone where less than 2 % of the table's pages have something to remove."""
    books, ended, calls = postgres_books, 30_000, 300
    customer = await books.customer(units=calls)
    await books.sql(FILL, ended)
    writer = await books.db._writer.connection()  # type: ignore[attr-defined]
    await writer.execute("ALTER TABLE calls SET (autovacuum_enabled = off)")
    await writer.execute("VACUUM ANALYZE calls")
    batch = [charge_of(customer) for _ in range(calls)]
    await books.charge(*batch)
    await books.end(*[keep_of(call) for call in batch])

    await writer.execute("VACUUM calls")

    assert await entries(books) == 0
    await books.sql("DELETE FROM calls WHERE created_at = 0")


async def test_a_vacuum_of_calls_is_due_after_a_fiftieth_of_them(postgres_books: Books) -> None:
    ((options,),) = await postgres_books.sql("SELECT reloptions FROM pg_class WHERE relname = 'calls'")
    assert "autovacuum_vacuum_scale_factor=0.02" in options
