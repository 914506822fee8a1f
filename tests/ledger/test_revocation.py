"""No process admits a call that begins after a revocation returned."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from myna.actions.accounts import DisableAccount
from myna.actions.keys import RevokeKey
from myna.store.batch import Charged
from myna.store.database import Database
from tests.ledger.ledger_service import LedgerService, ledger_service_on
from tests.rig.actors import perform
from tests.store.books import KEY_REFUSED, Books, Customer, charge_of
from tests.store.fixtures import each_database
from tests.store.stalls import until

pytestmark = pytest.mark.anyio

LANES = 6


async def revoke(db: Database, customer: Customer) -> None:
    await perform(db, RevokeKey(key=str(customer.key_id)))


async def disable(db: Database, customer: Customer) -> None:
    await perform(db, DisableAccount(name=customer.name, force=True))


@pytest.mark.parametrize("refuse", [revoke, disable])
@each_database
async def test_calls_after_a_revocation_are_refused_under_load(
    books: Books, refuse: Callable[[Database, Customer], Awaitable[None]]
) -> None:
    """Two writers, as two processes have them, and a third connection that revokes."""
    customer = await books.customer(units=100_000)
    other = await books.open_again() if books.url else books.db
    third = await books.open_again() if books.url else books.db
    charged: list[float] = []
    refused: list[float] = []

    async def many_charged() -> bool:
        return len(charged) >= 50

    async with ledger_service_on(books.db) as one, ledger_service_on(other) as two:

        async def lane(service: LedgerService) -> None:
            while len(refused) < 50:
                began = time.monotonic()
                outcome = await service.commits.charge(charge_of(customer), 60)
                if isinstance(outcome, Charged):
                    charged.append(began)
                else:
                    assert outcome == KEY_REFUSED
                    refused.append(began)

        lanes = asyncio.gather(*[lane(service) for service in (one, two) for _ in range(LANES)])
        await until(many_charged, "many calls are charged")
        await refuse(third, customer)
        returned = time.monotonic()
        await lanes
    for db in {other, third} - {books.db}:
        await db.close()
    assert [began for began in charged if began > returned] == []
    assert await books.balance(customer) == 100_000 - len(charged)
