"""Half-open connections, as after a cut cable: the peer answers nothing, not even an error."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from myna.errors import DatabaseUnavailable
from myna.settings import POSTGRESQL_CONNECTIONS
from myna.store import postgresql, postgresql_batch
from myna.store.database import Queries, Transaction, in_time
from myna.store.group_commit import GroupCommit
from myna.store.postgresql import Postgresql
from myna.store.postgresql_session import shares
from tests.store.books import Books, charge_of, charged_of
from tests.store.postgres_proxy import PostgresProxy, proxy_to
from tests.store.stalls import until

pytestmark = pytest.mark.anyio

POOL = shares(POSTGRESQL_CONNECTIONS).pool
DEADLINE_S = 0.2
IN_TIME_S = 20.0
"""Well below the 30 s that a query may take, and the same again for its cancel."""


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short waits for an answer."""
    monkeypatch.setattr(postgresql, "CANCEL_TIMEOUT_S", 0.2)
    monkeypatch.setattr(postgresql, "CLOSE_TIMEOUT_S", 0.2)
    monkeypatch.setattr(postgresql_batch, "COMMAND_TIMEOUT_S", 0.5)


@pytest.fixture
async def proxy(postgres_url: str, brief: None) -> AsyncIterator[PostgresProxy]:
    async with proxy_to(postgres_url) as opened:
        yield opened


@pytest.fixture
async def db(proxy: PostgresProxy) -> AsyncIterator[Postgresql]:
    """Its pool is full of connections."""
    opened = await Postgresql.open(proxy.url)
    everybody = asyncio.Barrier(POOL)

    async def meet(connection: Queries) -> None:
        await connection.fetch("SELECT 1")
        await everybody.wait()

    await asyncio.gather(*[opened.snapshot(meet) for _ in range(POOL)])
    yield opened
    await asyncio.wait_for(opened.close(), IN_TIME_S)


async def read(db: Postgresql) -> None:
    await in_time(db, db.fetch("SELECT 1"), DEADLINE_S)


async def change(db: Postgresql) -> None:
    async def work(connection: Transaction) -> None:
        await connection.fetch("SELECT 1")

    await in_time(db, db.transaction(work), DEADLINE_S)


@pytest.mark.parametrize("use", [read, change])
async def test_a_dead_connection_is_given_up_at_the_deadline_and_replaced(
    db: Postgresql, proxy: PostgresProxy, use: type[read]
) -> None:
    proxy.silence()
    async with asyncio.timeout(IN_TIME_S):
        with pytest.raises(DatabaseUnavailable):
            await use(db)

    async def connected() -> bool:
        with contextlib.suppress(DatabaseUnavailable):
            await use(db)
            return True
        return False

    await until(connected, "the pool has connections that live", IN_TIME_S)


async def test_charges_continue_after_the_batch_connection_died(postgres_books: Books, brief: None) -> None:
    """The batch in flight is sent again on a new connection, well before the pool's 30 s are over."""
    customer = await postgres_books.customer()
    async with proxy_to(postgres_books.url) as proxy:
        db = await Postgresql.open(proxy.url)
        commits = GroupCommit(db, queue_max=100)
        commits.start()
        await commits.charge(charge_of(customer), IN_TIME_S)
        proxy.silence()
        charge = charge_of(customer)
        charged = await commits.charge(charge, 2 * IN_TIME_S)
        assert charged == charged_of(customer, 8)
        await commits.close(IN_TIME_S)
        await db.close()
    assert await postgres_books.balance(customer) == 8
