"""The constraints and triggers of the schema."""

import contextlib

import apsw
import asyncpg
import pytest

from myna.store.queries import ledger
from tests.store.books import AUDIO, Books, charge_of, keep_of, refund_of, speech

REFUSED = (apsw.Error, asyncpg.PostgresError)
"""The exceptions by which a database refuses a statement."""


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger SET units = 0",
        "UPDATE ledger SET memo = 'forged'",
        "DELETE FROM ledger",
        "UPDATE activity SET command = 'forged'",
        "DELETE FROM activity",
    ],
)
async def test_the_ledger_is_append_only_and_so_is_the_activity(books: Books, statement: str) -> None:
    await books.customer(units=7)
    rows = "SELECT units, memo FROM ledger", "SELECT command FROM activity ORDER BY id"
    before = [await books.sql(sql) for sql in rows]
    assert all(before)
    with pytest.raises(REFUSED, match="append-only"):
        await books.sql(statement)
    assert [await books.sql(sql) for sql in rows] == before


@pytest.mark.parametrize("table", ["ledger", "activity"])
async def test_the_ledger_cannot_be_truncated_on_postgresql(postgres_books: Books, table: str) -> None:
    """Nor can the activity."""
    with pytest.raises(asyncpg.RaiseError, match="append-only"):
        await postgres_books.sql(f"TRUNCATE {table}")


async def test_no_statement_makes_a_balance_negative(books: Books) -> None:
    customer = await books.customer(units=7)
    with pytest.raises(REFUSED, match=r"balance"):
        await books.sql("UPDATE accounts SET balance = balance - 8 WHERE id = $1", customer.account_id)
    assert await books.balance(customer) == 7


async def test_a_call_has_one_entry_of_a_kind(books: Books) -> None:
    call = await books.opened(await books.customer())
    with pytest.raises(REFUSED, match=r"(?i)unique"):
        await books.sql(
            "INSERT INTO ledger (call_id, kind, account_id, units, created_at) VALUES ($1, 0, 1, -1, 1)",
            call.call_id,
        )


@pytest.mark.parametrize("completed", [True, False])
@pytest.mark.parametrize("status", [0, 1, 2, 3])
async def test_an_ended_task_never_changes_its_status(books: Books, completed: bool, status: int) -> None:
    call = await books.opened(await books.customer(), task=speech())
    await books.end(keep_of(call, None, AUDIO) if completed else refund_of(call))
    before = await books.task(call.call_id)
    with pytest.raises(REFUSED, match="does not move"):
        await books.sql("UPDATE tasks SET status = $1", status)
    assert await books.task(call.call_id) == before


async def test_a_failed_batch_changes_nothing(books: Books) -> None:
    customer = await books.customer(units=10)
    call = await books.opened(customer)
    with pytest.raises(REFUSED):
        await books.db.commit_batch([refund_of(call)], [charge_of(customer), charge_of(customer, units=-5)])
    assert await books.balance(customer) == 9
    assert await books.state(call.call_id) == 0
    assert await books.sql("SELECT count(*) FROM calls") == [(1,)]


async def test_a_negative_grant_is_limited_by_the_balance(books: Books) -> None:
    customer = await books.customer(units=5)

    async def grant(units: int) -> int | None:
        return await books.db.transaction(
            lambda connection: ledger.grant(connection, customer.account_id, units, "a memo")
        )

    assert await grant(-6) is None
    assert await grant(-5) == 0
    assert await grant(3) == 3
    rows = await books.sql("SELECT units FROM ledger WHERE memo = 'a memo' ORDER BY units")
    assert rows == [(-5,), (3,)]


@pytest.mark.parametrize("accounts", [1, 2])
async def test_no_batch_makes_a_balance_negative(books: Books, accounts: int) -> None:
    """The batch's own decision, the condition of its statement and the schema's check each prevent it."""
    customers = [await books.customer(units=2) for _ in range(accounts)]
    with contextlib.suppress(*REFUSED, AssertionError):
        await books.charge(*[charge_of(customer, units=3) for customer in customers])
    assert [await books.balance(customer) for customer in customers] == [2] * accounts


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE calls SET state = 3",
        "UPDATE tasks SET status = 4",
        "INSERT INTO ledger (call_id, kind, account_id, units, created_at) SELECT id, 4, 1, 1, 1 FROM calls",
    ],
)
async def test_unknown_states_and_kinds_are_refused(books: Books, statement: str) -> None:
    call = await books.opened(await books.customer(), task=speech())
    with pytest.raises(REFUSED, match=r"(?i)check"):
        await books.sql(statement)
    assert await books.state(call.call_id) == 0
