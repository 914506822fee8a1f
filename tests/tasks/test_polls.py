"""Long polls of nodes: shared queries, timeouts, cancellation."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from myna.actions.site import DisableNode, DrainNode, EnrollNode, RemoveNode
from tests.rig.actors import perform
from tests.rig.waiting import SOON_S, until
from tests.store.books import AUDIO
from tests.store.fixtures import each_database
from tests.tasks.task_service import FREE, TaskService, proof_of

Queries = list[tuple[str, tuple[object, ...]]]

MANY = 40
NOTIFICATIONS = 10
SHORT_S = 0.05
LONG_S = SOON_S
"""The maximum length of a poll and of any wait of these tests."""


@pytest.fixture
def queries(service: TaskService, monkeypatch: pytest.MonkeyPatch) -> Queries:
    """Records the queries outside transactions with their arguments."""
    found: Queries = []
    fetch = service.db.fetch

    async def noted(sql: str, *args: object) -> Sequence[Sequence[Any]]:
        found.append((sql, args))
        return await fetch(sql, *args)

    monkeypatch.setattr(service.db, "fetch", noted)
    return found


@pytest.fixture
def quick_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls of nodes that have changed are ended at once, not within a second."""
    monkeypatch.setattr("myna.farm.polls.CHECK_EVERY_S", SHORT_S)


def queue_queries(queries: Queries) -> int:
    """Number of queries of the queue."""
    return sum("FROM tasks" in sql for sql, _ in queries)


async def wait_for(condition: Callable[[], bool], what: str) -> None:
    async def true() -> bool:
        return condition()

    await until(true, what, LONG_S)


async def start_polls(
    service: TaskService, nodes: Sequence[int], wait_s: float = LONG_S
) -> list[asyncio.Task[Any]]:
    """Starts polls that wait for a job."""
    polls = [asyncio.create_task(service.tasks.lease(node, 1, wait_s)) for node in nodes]
    await asyncio.sleep(0)  # each task runs its first step
    return polls


async def cancel_all(polls: Sequence[asyncio.Task[Any]]) -> None:
    for poll in polls:
        poll.cancel()
    await asyncio.gather(*polls, return_exceptions=True)


async def test_many_open_polls_share_a_query_per_notification(service: TaskService, queries: Queries) -> None:
    """Each notification wakes all polls. On a slow machine there may be a few queries after it, but never one
    for each of MANY polls."""
    nodes = [await service.node() for _ in range(MANY)]
    polls = await start_polls(service, nodes)
    await service.ordered(await service.books.customer(), "a voice of no node")
    counted = 0
    for _ in range(NOTIFICATIONS):
        queries.clear()
        service.tasks.notify_nodes()
        await wait_for(lambda: queue_queries(queries) > 0, "the queue is queried")
        counted += queue_queries(queries)
    assert counted < NOTIFICATIONS * MANY / 8
    await cancel_all(polls)


async def test_only_nodes_able_to_do_a_job_query_the_queue(service: TaskService, queries: Queries) -> None:
    others, able = [await service.node("another voice") for _ in range(MANY)], await service.node()
    polls = await start_polls(service, [*others, able])
    queries.clear()
    await service.ordered(await service.books.customer())
    service.tasks.notify_nodes()
    assert len(await polls[-1]) == 1
    assert {args[0] for sql, args in queries if sql.startswith("\nWITH RECURSIVE") and args} == {able}
    await cancel_all(polls)


async def test_a_second_poll_of_a_node_ends_the_first(service: TaskService, quick_checks: None) -> None:
    node, customer = await service.node(), await service.books.customer()
    first, second = await start_polls(service, [node, node])
    await service.ordered(customer)
    service.tasks.notify_nodes()
    assert len(await second) == 1
    assert await asyncio.wait_for(first, LONG_S) == []


@pytest.mark.parametrize("change", [DisableNode, DrainNode, RemoveNode])
async def test_the_poll_of_a_disabled_draining_or_removed_node_ends(
    service: TaskService, quick_checks: None, change: type[DisableNode | DrainNode | RemoveNode]
) -> None:
    node = await service.node(name="it")
    (poll,) = await start_polls(service, [node])
    await perform(service.db, change(name="it"))
    assert await asyncio.wait_for(poll, LONG_S) == []


@each_database
async def test_the_poll_of_a_node_that_joins_again_ends(
    service: TaskService, queries: Queries, quick_checks: None
) -> None:
    await service.books.stop_clock()
    node = await service.node(name="it")
    (poll,) = await start_polls(service, [node])

    def checks() -> int:
        return sum("joined_at FROM nodes" in sql for sql, _ in queries)

    queries.clear()
    await wait_for(lambda: checks() > 1, "the poll has been seen")
    await service.books.move_clock(1)
    await service.nodes.join((await perform(service.nodes.db, EnrollNode(name="it", again=True))).token, "1")
    assert await asyncio.wait_for(poll, LONG_S) == []


@each_database
async def test_a_job_is_requeued_if_its_poll_ends_during_the_lease(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, customer = await service.node(), await service.books.customer()
    transaction, started, resumed = service.db.transaction, asyncio.Event(), asyncio.Event()

    async def slow(work: Any) -> Any:
        started.set()
        await resumed.wait()
        return await transaction(work)

    monkeypatch.setattr(service.db, "transaction", slow)  # before the order, since any query may lease it
    call = await service.ordered(customer)
    (poll,) = await start_polls(service, [node])
    await wait_for(started.is_set, "the job is being leased")
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    resumed.set()
    columns = "node_id, lease_until, length(token_hash), epoch, tries"
    query = f"SELECT {columns} FROM tasks WHERE call_id = $1"

    async def requeued() -> bool:
        return tuple((await service.books.sql(query, call.call_id))[0]) == (*FREE, 1, 0)

    await until(requeued, "the job is requeued")
    (job,) = await service.tasks.lease(node, 1, 5)
    assert await service.tasks.complete(node, proof_of(job), AUDIO)


@each_database
async def test_a_poll_raises_if_the_database_is_disconnected(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await service.node()
    (poll,) = await start_polls(service, [node])

    async def failing(*_: object) -> Any:
        raise service.db.unavailable[0]

    with monkeypatch.context() as patched:
        patched.setattr(service.db, "fetch", failing)
        with pytest.raises(service.db.unavailable):
            await asyncio.wait_for(poll, LONG_S)
    assert await service.tasks.lease(node, 1, 0.1) == []


async def test_a_poll_ends_at_its_timeout_while_its_lease_is_stalled(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that are leased after the timeout are requeued."""
    node, transaction, resumed = await service.node(), service.db.transaction, asyncio.Event()
    customer, served = await service.books.customer(), 0

    async def stalled(work: Any) -> Any:
        nonlocal served
        served += 1
        await resumed.wait()
        monkeypatch.setattr(service.db, "transaction", transaction)
        return await transaction(work)

    monkeypatch.setattr("myna.farm.polls.LATE_MAX_S", SHORT_S)
    monkeypatch.setattr(service.db, "transaction", stalled)
    call = await service.ordered(customer)
    while not served:
        assert await asyncio.wait_for(service.tasks.lease(node, 1, SHORT_S), LONG_S) == []
    resumed.set()

    async def requeued() -> bool:
        columns = "epoch, status, tries"
        rows = await service.books.sql(f"SELECT {columns} FROM tasks WHERE call_id = $1", call.call_id)
        return rows == [(1, 0, 0)]

    await until(requeued, "the job is requeued")


async def test_a_cancelled_query_ends_no_poll(service: TaskService, monkeypatch: pytest.MonkeyPatch) -> None:
    node, customer, cancelled = await service.node(), await service.books.customer(), asyncio.Event()
    transaction = service.db.transaction

    async def failing(_: Any) -> Any:
        cancelled.set()
        monkeypatch.setattr(service.db, "transaction", transaction)
        raise asyncio.CancelledError

    monkeypatch.setattr(service.db, "transaction", failing)
    await service.ordered(customer)
    (poll,) = await start_polls(service, [node])
    assert await asyncio.wait_for(poll, LONG_S) == []
    assert cancelled.is_set()
    (poll,) = await start_polls(service, [node])
    assert len(await asyncio.wait_for(poll, LONG_S)) == 1
