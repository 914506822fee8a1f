"""A long-running snapshot, such as a dump's, keeps all later row versions of a balance. A batch finds the
current one without reading the others."""

import asyncpg
import pytest

from myna.store.postgresql import Postgresql
from tests.store.books import Books, charge_of, keep_of, refund_of

pytestmark = pytest.mark.anyio

CHANGES = 5000
CHANGE = f"""
DO $$ BEGIN
    FOR change IN 1..{CHANGES} LOOP
        UPDATE accounts SET balance = balance;
        UPDATE key_usage SET calls = calls;
        COMMIT;
    END LOOP;
END $$
"""
ENTRIES_MAX = 10
"""Index entries that a batch may read; a statement that reads all versions reads fifty or more."""


async def read(books: Books) -> dict[str, int]:
    """The number of entries that each index has returned until now."""
    assert isinstance(books.db, Postgresql)
    writer = await books.db._writer.connection()
    await writer.fetch("SELECT pg_stat_force_next_flush()")
    await writer.fetch("SELECT 1")
    return dict(await books.sql("SELECT indexrelname, idx_tup_read FROM pg_stat_user_indexes"))


async def test_a_batch_reads_only_the_current_balance(postgres_books: Books) -> None:
    books = postgres_books
    customer = await books.customer(units=100)
    calls = [await books.opened(customer) for _ in range(3)]
    await books.end(keep_of(calls[0]))
    dump = await asyncpg.connect(books.url)
    session = await asyncpg.connect(books.url)
    async with dump.transaction(isolation="repeatable_read"):
        await dump.fetch("SELECT * FROM accounts")
        await session.execute("SET synchronous_commit = off")
        await session.execute(CHANGE)
        before = await read(books)

        await books.db.commit_batch([keep_of(calls[1]), refund_of(calls[2])], [charge_of(customer)])

        after = await read(books)
        for index in ("accounts_pkey", "key_usage_pkey"):
            assert after[index] - before[index] <= ENTRIES_MAX, index
        found = await session.fetch("SELECT 1 FROM accounts WHERE id = $1", customer.account_id)
        assert len(found) == 1
    await dump.close()
    await session.close()
    assert await books.balance(customer) == 97
    assert await books.counters(customer) == (4, 2, 3)
