"""The cost of the queue's frequent queries does not depend on rows that they don't return."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from myna.store.database import Transaction
from myna.store.queries import tasks
from myna.store.queries.farm import queue, refusals
from myna.store.sqlite import SqliteConnection, clock_ms
from myna.wire.farm import TRIES_MAX
from tests.rig.actors import TESTER
from tests.store.books import AUDIO, Books, books_of
from tests.tasks.task_service import TaskService, proof_of, task_service_on

pytestmark = pytest.mark.anyio

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
    "a sample for a job": lambda db: queue.leased_sample(db, 1, b"s" * 32),
    "whether a file is named": lambda db: tasks.files_in_use(db, ["f" * 32 + ".mp3"]),
    "leases that ran out": lambda db: queue.requeue_expired(db, TRIES_MAX, 100),
    "voices whose last lease ran out": lambda db: queue.fail_exhausted_clones(db, TRIES_MAX, "r"),
    "voices that no other node makes": lambda db: refusals.fail_refused_clones(db, 1, "r"),
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
    await service.nodes.drain((await service.nodes.list())[0].node.name, by=TESTER)
    await service.node()
    await fill(books, FEW)
    few = await steps(books, QUESTIONS[what])
    for table in ("tasks", "clones"):
        await books.sql(f"DELETE FROM {table} WHERE created_at = 1")
    await fill(books, MANY)
    assert await steps(books, QUESTIONS[what]) <= few + 5
