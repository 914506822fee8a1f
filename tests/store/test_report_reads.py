"""The reads of reports: one snapshot, no writes, and a limit for each query."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from myna.actions.accounts import AddAccount
from myna.errors import Unavailable
from myna.store import sqlite
from myna.store.database import Queries
from myna.store.queries import accounts as store
from tests.rig.actors import perform
from tests.store.books import Books

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
BALANCES = "SELECT balance FROM accounts"


async def test_a_query_is_stopped_at_its_limit_and_the_next_one_runs(books: Books) -> None:
    customer = await books.customer(units=7)

    async def endless(db: Queries) -> Sequence[Sequence[Any]]:
        return await db.fetch(ENDLESS)

    with pytest.raises(Unavailable, match="shorter period"):
        await books.db.read(endless)
    rows = await books.db.read(lambda db: db.fetch(BALANCES))
    assert [tuple(row) for row in rows] == [(await books.balance(customer),)]


async def test_all_queries_of_a_report_see_one_snapshot(books: Books) -> None:
    customer = await books.customer(units=7)
    begun, changed = asyncio.Event(), asyncio.Event()
    seen: list[int] = []

    if not books.url:  # on SQLite `work` must not suspend: another thread changes the balance in between
        loop = asyncio.get_running_loop()

        async def read(db: Queries) -> None:
            for _ in range(2):
                seen.append((await db.fetch(BALANCES))[0][0])
                if len(seen) == 1:
                    asyncio.run_coroutine_threadsafe(books.opened(customer), loop).result()
    else:

        async def read(db: Queries) -> None:
            seen.append((await db.fetch(BALANCES))[0][0])
            begun.set()
            await changed.wait()
            seen.append((await db.fetch(BALANCES))[0][0])

    reading = asyncio.ensure_future(books.db.read(read))
    if books.url:
        await begun.wait()
        await books.opened(customer)
        changed.set()
    await reading

    assert seen == [7, 7]
    assert await books.balance(customer) == 6


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        ("kim", ["KIM"]),
        ("ÉLODIE", []),
        ("éLODIE", ["élodie"]),
        ("\u212aIM", ["\u212aim"]),
        ("CAROL@", ["carol"]),
    ],
)
async def test_accounts_are_found_by_ascii_in_any_case(books: Books, prefix: str, found: list[str]) -> None:
    """PostgreSQL's `lower` would change other letters too, and the Kelvin sign, U+212A, to k."""
    for name in ("KIM", "élodie", "\u212aim", "carol"):
        await perform(books.db, AddAccount(name=name, email=f"{name}@example.org"))
    rows = await books.db.read(lambda db: store.search(db, prefix, 1 << 40, 10))
    assert [row.name for row in rows] == found


async def test_a_report_changes_nothing(books: Books) -> None:
    await books.customer(units=7)

    with pytest.raises(Exception, match=r"readonly|read-only|read only"):
        await books.db.read(lambda db: db.fetch("UPDATE accounts SET balance = 0"))


async def test_no_limit_of_a_query_interrupts_the_statements_of_its_transaction(
    sqlite_books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite counts the steps of a statement over all its runs: every 3,333rd BEGIN is looked at."""
    monkeypatch.setattr(sqlite, "REPORT_QUERY_MAX_MS", 0)
    refused = 0
    for _ in range(7000):
        try:
            await sqlite_books.db.read(lambda db: db.fetch("SELECT 1"))
        except Unavailable:
            refused += 1
    assert refused < 100
