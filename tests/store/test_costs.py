"""The cost of a batch and of the queue's queries does not grow with the books."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from myna.actions.site import DrainNode
from myna.store.database import Transaction
from myna.store.postgresql_batch import BatchWriter
from myna.store.queries import clones, tasks
from myna.store.queries.farm import able, queue
from myna.store.sqlite import SqliteConnection, clock_ms
from myna.wire.farm import TRIES_MAX
from tests.rig.actors import perform
from tests.store.books import AUDIO, Books, books_of, charge_of, keep_of, refund_of
from tests.store.conftest import scans
from tests.tasks.task_service import TaskService, proof_of, task_service_on

STEPS = 50
"""SQLite counts in units of this many instructions of its virtual machine."""
FEW, MANY = 5, 500
ONE_TO = "WITH RECURSIVE g(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < $1) "
DONE_TASKS = (
    ONE_TO
    + "INSERT INTO tasks (account_id, call_id, status, voice_id, speed, text, chars, audio, created_at)"
    " SELECT i, CAST('done' || i AS BLOB), 2, 'a voice', 1, 'x', 1, 'a' || i || '.mp3', 1 FROM g"
)
QUEUED_TASKS = (
    ONE_TO
    + "INSERT INTO tasks (account_id, call_id, status, voice_id, speed, text, chars, created_at, deadline)"
    " SELECT i, CAST('queued' || i AS BLOB), 0, 'another voice', 1, 'x', 1, 1, 1 << 50 FROM g"
)
CLONES = (
    ONE_TO + "INSERT INTO clones (voice_id, account_id, name, language, transcript, sample, sample_bytes,"
    " sample_sha256, sample_ms, consent_by, consent_text, consent_at, status, preview, created_at)"
    " SELECT 'clone-' || i, 1, 'n', 'zh', 't', 's' || i, 1, CAST(i AS BLOB), 1, 'c', 'c', 1, 2, 'p' || i, 1"
    " FROM g"
)
Question = Callable[[Transaction], Awaitable[object]]
QUESTIONS: dict[str, Question] = {
    "a node's next job": lambda db: queue.next_jobs(db, 1, 1),
    "a sample for a job": lambda db: clones.leased_sample(db, 1, b"s" * 32),
    "whether a file is named": lambda db: tasks.files_in_use(db, ["f" * 32 + ".mp3"]),
    "leases that ran out": lambda db: queue.requeue_expired(db, TRIES_MAX, 100),
    "voices whose last lease ran out": lambda db: queue.fail_exhausted_clones(db, TRIES_MAX, "r"),
    "voices that no other node makes": lambda db: able.fail_refused_clones(db, 1, "r"),
}


@pytest.fixture
async def service(tmp_path: Path) -> AsyncIterator[TaskService]:
    async with books_of("", tmp_path) as books, task_service_on(books) as opened:
        yield opened
        for table in ("tasks", "clones"):  # the inserted rows have no ledger entries
            await books.sql(f"DELETE FROM {table} WHERE status <> 1")


async def steps(books: Books, question: Question) -> int:
    """The number of steps that the query takes."""
    own = SqliteConnection(books.folder / "myna.sqlite", clock_ms, read_only=False)
    counted: list[None] = []

    def count() -> bool:
        counted.append(None)
        return False

    own.raw.set_progress_handler(count, STEPS)
    await question(own)
    own.raw.close()
    return len(counted)


async def fill(books: Books, number: int) -> None:
    for sql in (DONE_TASKS, QUEUED_TASKS, CLONES):
        await books.sql(sql, number)


@pytest.mark.parametrize("what", QUESTIONS)
async def test_the_cost_of_a_query_does_not_depend_on_other_rows(service: TaskService, what: str) -> None:
    books: Any = service.books
    maker, customer = await service.node(clones=["zh"]), await books.customer()
    await service.clone(customer, sample=b"s" * 32)
    await service.tasks.complete(maker, proof_of(await service.leased(maker)), AUDIO)
    await perform(service.nodes.db, DrainNode(name=(await service.nodes.list())[0].node.name))
    await service.node()
    await fill(books, FEW)
    few = await steps(books, QUESTIONS[what])
    for table in ("tasks", "clones"):
        await books.sql(f"DELETE FROM {table} WHERE created_at = 1")
    await fill(books, MANY)
    assert await steps(books, QUESTIONS[what]) <= few + 5


CHANGES = 5000
CHANGE = f"""
DO $$ BEGIN
    FOR change IN 1..{CHANGES} LOOP
        UPDATE accounts SET balance = balance;
        UPDATE key_usage SET calls = calls;
        COMMIT;
    END LOOP;
END $$
"""
ENTRIES_MAX = 10
"""Index entries that a batch may read; a statement that reads all versions reads fifty or more."""


async def test_a_batch_reads_only_the_current_balance(new_postgres_books: Books, writer: BatchWriter) -> None:
    books = new_postgres_books
    customer = await books.customer(units=100)
    calls = [await books.opened(customer) for _ in range(3)]
    await books.end(keep_of(calls[0]))
    dump = await asyncpg.connect(books.url)
    session = await asyncpg.connect(books.url)
    async with dump.transaction(isolation="repeatable_read"):
        await dump.fetch("SELECT * FROM accounts")
        await session.execute("SET synchronous_commit = off")
        await session.execute(CHANGE)
        before = await scans(writer)

        await writer.commit([keep_of(calls[1]), refund_of(calls[2])], [charge_of(customer)])

        after = await scans(writer)
        for index in ("accounts_pkey", "key_usage_pkey"):
            assert after[index][1] - before[index][1] <= ENTRIES_MAX, index
        found = await session.fetch("SELECT 1 FROM accounts WHERE id = $1", customer.account_id)
        assert len(found) == 1
    await dump.close()
    await session.close()
    assert await books.balance(customer) == 97
    assert await books.counters(customer) == (4, 2, 3)


FILL = (
    "INSERT INTO calls (id, account_id, key_id, pays, units, state, created_at, deadline)"
    " SELECT decode(lpad(to_hex(n), 32, '0'), 'hex'), 1, 1, 1, 1, 1, 0, 0"
    " FROM generate_series(1, $1::int) AS g(n)"
)
OPEN_CALLS = "SELECT count(*) FROM calls WHERE state = 0"


async def test_a_vacuum_empties_the_index_of_open_calls_if_few_pages_changed(
    new_postgres_books: Books, writer: BatchWriter
) -> None:
    """It would leave the indexes alone where less than 2 % of the table's pages have something to remove."""
    books, ended, calls = new_postgres_books, 30_000, 300
    customer = await books.customer(units=calls)
    await books.sql(FILL, ended)
    raw = await writer.connection()
    await raw.execute("ALTER TABLE calls SET (autovacuum_enabled = off)")
    await raw.execute("VACUUM ANALYZE calls")
    batch = [charge_of(customer) for _ in range(calls)]
    await books.charge(*batch)
    await books.end(*[keep_of(call) for call in batch])

    await raw.execute("VACUUM calls")

    _, before = (await scans(writer))["calls_open"]
    await raw.fetch(OPEN_CALLS)
    _, after = (await scans(writer))["calls_open"]
    assert after == before
    await books.sql("DELETE FROM calls WHERE created_at = 0")
