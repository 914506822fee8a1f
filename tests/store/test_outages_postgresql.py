"""PostgreSQL becomes unavailable, or its connections die, during an operation, which is sent again and
counts once."""

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from myna.errors import CommitInDoubt, DatabaseUnavailable
from myna.settings import POSTGRESQL_CONNECTIONS
from myna.store import postgresql, postgresql_batch
from myna.store.batch import CallState, Charged, EndOutcome
from myna.store.database import Queries, Transaction, in_time
from myna.store.group_commit import GroupCommit
from myna.store.postgresql import Postgresql
from myna.store.postgresql_session import shares
from tests.rig import postgres as rig
from tests.rig.disks import temporary_folder
from tests.rig.waiting import SOON_S, until
from tests.store.books import Books, Customer, books_of, charge_of, charged_of, keep_of, refund_of
from tests.store.postgres_proxy import PostgresProxy, proxy_to
from tests.store.stalls import committing, ends_as, stalled_commits


@pytest.fixture
def books(postgres_books: Books) -> Books:
    return postgres_books


async def spend(commits: GroupCommit, customer: Customer) -> None:
    """One call from charge to keep."""
    call = charge_of(customer)
    assert isinstance(await commits.charge(call, SOON_S), Charged)
    assert await commits.end(keep_of(call), SOON_S) is EndOutcome.DONE


@pytest.mark.parametrize("lost", ["charge", "keep", "refund"])
async def test_a_commit_whose_reply_was_lost_counts_once(books: Books, lost: str) -> None:
    """The server committed, and its reply is lost. The same ids are sent again."""
    customer = await books.customer(units=10)
    async with proxy_to(books.url) as proxy:
        db = await Postgresql.open(proxy.url)
        async with committing(db) as commits:
            await spend(commits, customer)
            call = charge_of(customer, units=3)

            if lost == "charge":
                proxy.drop_next_reply()
            assert await commits.charge(call, SOON_S) == charged_of(customer, 6)
            if lost != "charge":
                proxy.drop_next_reply()
            end = refund_of(call) if lost == "refund" else keep_of(call)
            assert await commits.end(end, SOON_S) is EndOutcome.DONE

            assert proxy.dropped == 1
        await db.close()
    assert await books.balance(customer) == (9 if lost == "refund" else 6)
    assert await books.counters(customer) == ((2, 1, 1) if lost == "refund" else (2, 2, 4))


async def test_a_charge_in_doubt_is_refunded_after_its_cancellation(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends during its COMMIT, then its account is locked, then it is cancelled."""
    customer = await books.customer()
    call = charge_of(customer)
    async with proxy_to(books.url) as proxy:
        db = await Postgresql.open(proxy.url)
        commit, done = db.commit_batch, []

        async def counted(*operations: Any, **contended: Any) -> Any:
            done.append(await commit(*operations, **contended))
            return done[-1]

        monkeypatch.setattr(db, "commit_batch", counted)
        async with committing(db) as commits:
            async with stalled_commits(books) as stalled:
                waiting = asyncio.ensure_future(commits.charge(call, 60))
                await stalled()
                proxy.disconnect()
                await until(lambda: len(done) >= 2, "the charge sent again finds its account busy")
                waiting.cancel()
                await asyncio.gather(waiting, return_exceptions=True)
                tries = len(done)
                await until(lambda: len(done) > tries, "the charge is on its way once more")

            await ends_as(books, call.call_id, CallState.REFUNDED)
        await db.close()
    assert await books.balance(customer) == 10


async def test_a_batch_is_retried_when_its_backend_is_terminated_during_commit(books: Books) -> None:
    customer = await books.customer()
    async with committing(books.db) as commits:
        call = charge_of(customer)
        async with stalled_commits(books) as stalled:
            waiting = asyncio.ensure_future(commits.charge(call, SOON_S))
            pid = await stalled()
            await books.sql("SELECT pg_terminate_backend($1)", pid)
        assert await waiting == charged_of(customer, 9)
        assert await commits.end(keep_of(call), SOON_S) is EndOutcome.DONE
    assert await books.balance(customer) == 9


async def test_charges_wait_for_a_server_that_restarts(tmp_path: Path) -> None:
    above = temporary_folder()
    with tempfile.TemporaryDirectory(prefix=rig.PREFIX, dir=above, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        owner = rig.owned(folder)
        url, _, process = rig.start_in(folder, durability=rig.NOT_DURABLE)
        try:
            async with books_of(url, tmp_path) as books:
                process = await spend_across_a_stop(books, process, folder)
        finally:
            process.send_signal(signal.SIGQUIT)
            process.wait(60)
            os.close(owner)


async def spend_across_a_stop(
    books: Books, process: subprocess.Popen[bytes], folder: Path
) -> subprocess.Popen[bytes]:
    customer = await books.customer(units=10)
    async with committing(books.db) as commits:
        await spend(commits, customer)
        open_call = await books.opened(customer)
        process.send_signal(signal.SIGQUIT)
        process.wait(60)

        charge = charge_of(customer)
        charging = asyncio.ensure_future(commits.charge(charge, 60))
        keeping = asyncio.ensure_future(commits.end(keep_of(open_call), 60))
        with pytest.raises((TimeoutError, CommitInDoubt)):  # whether the dead connection took it or not
            await commits.charge(charge_of(customer), 0.2)
        process = await asyncio.to_thread(started_again, process, folder)

        assert isinstance(await charging, Charged)
        assert await keeping is EndOutcome.DONE
        assert await commits.end(refund_of(charge), SOON_S) is EndOutcome.DONE
    assert await books.balance(customer) == 8
    return process


def started_again(process: subprocess.Popen[bytes], folder: Path) -> subprocess.Popen[bytes]:
    again = subprocess.Popen(process.args, stdin=subprocess.DEVNULL, cwd="/", stderr=subprocess.DEVNULL)
    rig.wait_ready(again, folder / "data" / "postmaster.pid", folder / "log")
    return again


@pytest.mark.parametrize(("silent_s", "said"), [(30.0, 1), (0.0, 3)])
async def test_a_listener_survives_unexpected_errors_and_logs_them_rarely(
    postgres_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    silent_s: float,
    said: int,
) -> None:
    monkeypatch.setattr(postgresql, "LISTEN_RETRY_S", 0.05)
    monkeypatch.setattr(postgresql, "LISTEN_LOG_EVERY_S", silent_s)
    connect, rung, failures = asyncpg.connect, asyncio.Event(), 0

    async def failing(*_: Any, **__: Any) -> Any:
        nonlocal failures
        failures += 1
        if failures == 3:
            monkeypatch.setattr(asyncpg, "connect", connect)
        raise asyncpg.InternalServerError("no such luck")

    db = await Postgresql.open(postgres_url)
    monkeypatch.setattr(asyncpg, "connect", failing)
    stop = await db.listen("news", rung.set)
    await asyncio.wait_for(rung.wait(), SOON_S)
    assert caplog.text.count("listening to 'news' fails") == said
    await stop()
    await db.close()


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


async def test_charges_continue_after_the_batch_connection_died(books: Books, brief: None) -> None:
    """The batch in flight is sent again on a new connection, well before the pool's 30 s are over."""
    customer = await books.customer()
    async with proxy_to(books.url) as proxy:
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
    assert await books.balance(customer) == 8
