"""Stalls a database in the middle of a COMMIT, and waits for conditions."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import apsw
import asyncpg

from myna.store.batch import CallState
from myna.store.database import Database
from myna.store.group_commit import GroupCommit
from tests.rig.waiting import SOON_S, until
from tests.store.books import Books

STALL = """
CREATE TABLE stall (n bigint);
CREATE FUNCTION wait_in_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    WHILE EXISTS (SELECT 1 FROM stall) LOOP PERFORM pg_sleep(0.005); END LOOP;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER stalls AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION wait_in_commit();
INSERT INTO stall VALUES (1);
"""
END_STALL = "DROP TRIGGER stalls ON ledger; DROP FUNCTION wait_in_commit; DROP TABLE stall"
"""A deferred trigger runs in the COMMIT, after everything else of the transaction."""
STALLED = "SELECT pid FROM pg_stat_activity WHERE application_name = 'myna-writer' AND wait_event = 'PgSleep'"


async def ends_as(books: Books, call_id: bytes, state: CallState) -> None:
    """Returns once the call has this state."""

    async def ended() -> bool:
        return await books.state(call_id) == state

    await until(ended, f"the call is {state.name}")


@contextlib.asynccontextmanager
async def locked(books: Books, sql: str, *args: object) -> AsyncIterator[Any]:
    """Another session, whose open transaction has the locks of this statement."""
    session = await asyncpg.connect(books.url)
    try:
        async with session.transaction():
            await session.execute(sql, *args)
            yield session
    finally:
        await session.close()


@contextlib.asynccontextmanager
async def committing(db: Database) -> AsyncIterator[GroupCommit]:
    """The group commit of a process, which runs."""
    commits = GroupCommit(db, queue_max=2000)
    commits.start()
    yield commits
    await commits.close(SOON_S)


async def queued(commits: GroupCommit, count: int) -> None:
    """Returns once `count` operations wait for a batch."""

    await until(lambda: commits.waiting == count, f"{count} operations wait")


@contextlib.asynccontextmanager
async def stalled_commits(books: Books) -> AsyncIterator[Callable[[], Awaitable[int]]]:
    """Inside, no batch with a ledger entry finishes its COMMIT (on SQLite: not even begins its transaction).

    Yields a function that waits for such a batch and returns the process id of its PostgreSQL backend, 0 on
    SQLite.
    """
    if books.url:
        async with _stalled_postgresql(books.url) as stopped:
            yield stopped
        return
    file = apsw.Connection(str(books.folder / "myna.sqlite"))
    file.execute("BEGIN IMMEDIATE")

    async def at_once() -> int:
        return 0

    yield at_once
    file.execute("ROLLBACK")
    file.close()


@contextlib.asynccontextmanager
async def _stalled_postgresql(url: str) -> AsyncIterator[Callable[[], Awaitable[int]]]:
    other = await asyncpg.connect(url)
    await other.execute(STALL)

    async def stopped() -> int:
        found: list[int] = []

        async def there() -> bool:  # it polls the table, so it is not asleep at every check
            found.extend(row[0] for row in await other.fetch(STALLED))
            return bool(found)

        await until(there, "a batch is in its COMMIT")
        return found[0]

    yield stopped
    await other.execute("DELETE FROM stall")
    await other.execute(END_STALL)
    await other.close()
