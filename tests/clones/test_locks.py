"""The account's row is also the lock of its voices: it is locked first, which prevents deadlocks."""

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from myna.actions.media import CLONES_MAX
from myna.errors import CommandError
from tests.clones.conftest import CloneSetup
from tests.rig.waiting import until
from tests.store.books import Books

WAITING = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
LOCK = "UPDATE accounts SET balance = balance WHERE id = $1"


@pytest.fixture
def books(postgres_books: Books) -> Books:
    return postgres_books


@pytest.fixture
async def session(books: Books) -> AsyncIterator[asyncpg.Connection]:
    """Another process's connection."""
    connection = await asyncpg.connect(books.url)
    yield connection
    await connection.close()


async def session_waits(books: Books) -> None:
    async def waits() -> bool:
        return bool(await books.sql(WAITING))

    await until(waits, "a session waits for a lock")


async def test_a_deletion_locks_accounts_first(clone_setup: CloneSetup, session: asyncpg.Connection) -> None:
    """As does a node that completes it: locks are taken in one order, which prevents a deadlock."""
    books, customer = clone_setup.books, await clone_setup.books.customer()
    voice_id = await clone_setup.queued(customer)
    await clone_setup.ordered(customer, voice_id)
    async with session.transaction():
        await session.execute(LOCK, customer.account_id)
        deleting = asyncio.ensure_future(clone_setup.delete(voice_id))
        await session_waits(books)
        await session.execute("UPDATE clones SET preview = 'p' WHERE voice_id = $1", voice_id)
    deleted = await deleting
    assert (deleted.preview, deleted.refunded) == ("p", 1)


async def test_a_clone_is_counted_after_the_account_lock_is_released(
    clone_setup: CloneSetup, session: asyncpg.Connection
) -> None:
    books, customer = clone_setup.books, await clone_setup.books.customer()
    for _ in range(CLONES_MAX - 1):
        await clone_setup.queued(customer)
    async with session.transaction():
        await session.execute(LOCK, customer.account_id)
        cloning = asyncio.ensure_future(clone_setup.clone(customer))
        await session_waits(books)
        await session.execute(
            "INSERT INTO clones (voice_id, account_id, name, language, transcript, sample, sample_bytes,"
            " sample_sha256, sample_ms, consent_by, consent_text, consent_at, created_at)"
            " SELECT 'the last one', account_id, name, language, transcript, sample, sample_bytes,"
            " sample_sha256, sample_ms, consent_by, consent_text, consent_at, created_at FROM clones LIMIT 1"
        )
    with pytest.raises(CommandError, match="the maximum"):
        await cloning
