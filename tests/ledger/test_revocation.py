"""No process admits a call that begins after a revocation returned."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import pytest

from myna import accounts, keys
from myna.store.batch import Charged
from myna.store.database import Database
from tests.ledger.desk import Desk, desk_on
from tests.store.books import KEY_REFUSED, Books, Holder, charge_of
from tests.store.stalls import until

pytestmark = pytest.mark.anyio

LANES = 6


async def revoke(db: Database, holder: Holder) -> None:
    await keys.revoke(db, holder.key_id)


async def disable(db: Database, holder: Holder) -> None:
    await accounts.set_enabled(db, holder.name, False)


@pytest.mark.parametrize("refuse", [revoke, disable])
async def test_calls_after_a_revocation_are_refused_under_load(
    books: Books, refuse: Callable[[Database, Holder], Awaitable[None]]
) -> None:
    """Two writers, as two processes have them, and a third connection that revokes."""
    holder = await books.holder(units=100_000)
    other = await books.open_again() if books.url else books.db
    third = await books.open_again() if books.url else books.db
    charged: list[float] = []
    refused: list[float] = []

    async def well_on() -> bool:
        return len(charged) >= 100

    async with desk_on(books.db) as one, desk_on(other) as two:

        async def lane(desk: Desk) -> None:
            while len(refused) < 100:
                began = time.monotonic()
                outcome = await desk.commits.charge(charge_of(holder), 60)
                if isinstance(outcome, Charged):
                    charged.append(began)
                else:
                    assert outcome == KEY_REFUSED
                    refused.append(began)

        lanes = asyncio.gather(*[lane(desk) for desk in (one, two) for _ in range(LANES)])
        await until(well_on, "a hundred calls are charged")
        await refuse(third, holder)
        returned = time.monotonic()
        await lanes
    for db in {other, third} - {books.db}:
        await db.close()
    assert [began for began in charged if began > returned] == []
    assert await books.balance(holder) == 100_000 - len(charged)
