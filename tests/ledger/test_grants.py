"""Grants change balances: never below zero, never twice."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from myna.accounts import accounts
from myna.actions.accounts import GrantFirstUnits, GrantUnits
from myna.errors import CommandError
from myna.store.batch import Charged
from myna.store.postgresql import Postgresql
from myna.store.queries.accounts import AccountRow
from tests.ledger.ledger_service import LedgerService
from tests.rig.actors import perform
from tests.store.books import Books, books_of, charge_of
from tests.store.fixtures import each_database
from tests.store.postgres_proxy import proxy_to


@each_database
async def test_a_grant_adds_units_and_a_negative_one_removes_what_there_is(books: Books) -> None:
    customer = await books.customer(units=5)
    assert (await perform(books.db, GrantUnits(name=customer.name, units=7, memo="a gift"))).balance == 12
    assert await books.sql("SELECT units FROM ledger WHERE memo = 'a gift'") == [(7,)]
    with pytest.raises(CommandError, match="has 12 units; 13 can't be taken"):
        await perform(books.db, GrantUnits(name=customer.name, units=-13))
    assert (await perform(books.db, GrantUnits(name=customer.name, units=-12))).balance == 0


@pytest.mark.parametrize("units", [0, accounts.UNITS_MAX + 1, -accounts.UNITS_MAX - 1, accounts.UNITS_MAX])
async def test_a_grant_out_of_range_is_refused(books: Books, units: int) -> None:
    customer = await books.customer(units=5)
    with pytest.raises(CommandError):
        await perform(books.db, GrantUnits(name=customer.name, units=units))
    assert await books.balance(customer) == 5


@each_database
async def test_concurrent_grants_and_charges_spend_a_unit_once(books: Books, service: LedgerService) -> None:
    customer = await books.customer(units=10)
    taking = [perform(books.db, GrantUnits(name=customer.name, units=-1)) for _ in range(15)]
    charging = [service.commits.charge(charge_of(customer), 10) for _ in range(15)]

    results = await asyncio.gather(*taking, *charging, return_exceptions=True)

    assert sum(isinstance(result, AccountRow | Charged) for result in results) == 10
    assert await books.balance(customer) == 0


async def test_a_grant_whose_reply_was_lost_is_in_doubt(postgres_url: str, tmp_path: Path) -> None:
    """The COMMIT happened and its reply was lost: an operator who tries again would grant twice."""
    async with books_of(postgres_url, tmp_path) as books, proxy_to(postgres_url) as proxy:
        customer = await books.customer(units=5)
        db = await Postgresql.open(proxy.url)
        proxy.drop_reply_to(b"COMMIT")
        with pytest.raises(CommandError, match="is unknown"):
            await perform(db, GrantUnits(name=customer.name, units=3))
        assert proxy.dropped == 1
        await db.close()
        assert await books.balance(customer) == 8


async def test_a_committed_grant_is_reported_if_the_database_is_lost_afterwards(
    postgres_url: str, tmp_path: Path
) -> None:
    """An operator who reads "try again" would grant twice."""
    async with books_of(postgres_url, tmp_path) as books, proxy_to(postgres_url) as proxy:
        customer = await books.customer(units=5)
        db = await Postgresql.open(proxy.url)
        committed = db.transaction

        async def lose_reply(work: Any) -> Any:
            result = await committed(work)
            await proxy.close()
            return result

        db.transaction = lose_reply  # type: ignore[method-assign]
        assert (await perform(db, GrantUnits(name=customer.name, units=3))).balance == 8
        await db.close()


@each_database
async def test_of_many_first_grants_at_once_one_counts(books: Books) -> None:
    customer = await books.customer(units=0)
    await asyncio.gather(*[perform(books.db, GrantFirstUnits(name=customer.name, units=7)) for _ in range(8)])
    assert await books.balance(customer) == 7
