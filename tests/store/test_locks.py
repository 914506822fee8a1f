"""The account's row is the lock of its data: a transaction that waited for it sees what was committed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import asyncpg
import pytest

from myna.accounts import caps
from myna.actions.accounts import DisableAccount
from myna.actions.keys import RevokeKey, SetKeyCap
from myna.store import postgresql_batch
from myna.store.batch import ChargeRefused, RefusalReason
from myna.store.database import Database
from tests.rig.actors import perform
from tests.store.books import KEY_REFUSED, Books, Customer, charge_of, charged_of
from tests.store.stalls import stalled_commits, until

pytestmark = pytest.mark.anyio

WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch waits for an account without a timeout, so that a test can observe it."""
    monkeypatch.setattr(postgresql_batch, "LOCK_TIMEOUT_MS", 30_000)


@pytest.fixture
async def other(postgres_books: Books, patience: None) -> AsyncIterator[Database]:
    """The connection of a second process."""
    db = await postgres_books.open_again()
    yield db
    await db.close()


async def session_waits(books: Books) -> None:
    async def waits() -> bool:
        return bool(await books.sql(WAITING))

    await until(waits, "a session waits for a lock")


async def test_two_processes_never_spend_one_unit_twice(postgres_books: Books, other: Database) -> None:
    books = postgres_books
    customer = await books.customer(units=1)
    async with stalled_commits(books) as stalled:
        first = asyncio.ensure_future(books.charge(charge_of(customer)))
        await stalled()
        second = asyncio.ensure_future(other.commit_batch([], [charge_of(customer)], contended=True))
        await session_waits(books)
    assert await first == [charged_of(customer, 0)]
    assert (await second)[1] == [ChargeRefused(RefusalReason.UNITS, 0)]


async def test_a_charge_that_waited_for_a_revocation_is_refused(
    postgres_books: Books, other: Database
) -> None:
    books = postgres_books
    customer = await books.customer()
    session = await asyncpg.connect(books.url)
    async with session.transaction():
        await session.execute("UPDATE accounts SET balance = balance WHERE id = $1", customer.account_id)
        await session.execute("UPDATE keys SET revoked_at = 1 WHERE id = $1", customer.key_id)
        charging = asyncio.ensure_future(other.commit_batch([], [charge_of(customer)], contended=True))
        await session_waits(books)
    await session.close()
    assert (await charging)[1] == [KEY_REFUSED]


async def test_a_renewal_of_a_cap_that_waited_for_another_keeps_what_was_charged_since(
    postgres_books: Books, other: Database
) -> None:
    books = postgres_books
    customer = await books.customer()
    await perform(books.db, SetKeyCap(key=str(customer.key_id), cap=str(caps.Cap(10, caps.Period.DAY))))
    session = await asyncpg.connect(books.url)
    async with session.transaction():
        await session.execute("UPDATE accounts SET balance = balance WHERE id = $1", customer.account_id)
        await session.execute("UPDATE key_caps SET ends_at = now_ms() + 60000, used = 7")
        renewing = asyncio.ensure_future(caps.renew(other, customer.key_hash, "UTC"))
        await session_waits(books)
    await renewing
    assert await session.fetchval("SELECT used FROM key_caps") == 7
    await session.execute("UPDATE key_caps SET used = 0")  # there is no call of these units
    await session.close()


async def revoke(db: Database, customer: Customer) -> None:
    await perform(db, RevokeKey(key=str(customer.key_id)))


async def disable(db: Database, customer: Customer) -> None:
    await perform(db, DisableAccount(name=customer.name, force=True))


@pytest.mark.parametrize("refuse", [revoke, disable])
async def test_a_revocation_waits_for_the_charges_before_it(
    postgres_books: Books, other: Database, refuse: Callable[[Database, Customer], Awaitable[None]]
) -> None:
    books = postgres_books
    customer = await books.customer()
    async with stalled_commits(books) as stalled:
        charging = asyncio.ensure_future(other.commit_batch([], [charge_of(customer)]))
        await stalled()
        refusing = asyncio.ensure_future(refuse(books.db, customer))
        await asyncio.wait([refusing], timeout=0.2)
        assert not refusing.done()
    assert (await charging)[1] == [charged_of(customer, 9)]
    await refusing
    assert await books.charge(charge_of(customer)) == [KEY_REFUSED]
