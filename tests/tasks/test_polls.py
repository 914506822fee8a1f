"""Polls of nodes: what many of them cost, and what one that ends leaves behind."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tests.store.books import AUDIO
from tests.store.stalls import until
from tests.tasks.works import FREE, Works, shown

pytestmark = pytest.mark.anyio

Asked = list[tuple[str, tuple[object, ...]]]

MANY = 40
NOTIFICATIONS = 10
SHORT_S = 0.05
LONG_S = 60.0
"""How long a poll of these tests may last, and whatever they wait for."""


@pytest.fixture
def asked(works: Works, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """The queries outside transactions, each with its arguments."""
    found: Asked = []
    fetch = works.desk.db.fetch

    async def noted(sql: str, *args: object) -> Sequence[Sequence[Any]]:
        found.append((sql, args))
        return await fetch(sql, *args)

    monkeypatch.setattr(works.desk.db, "fetch", noted)
    return found


def looks(asked: Asked) -> int:
    """How often the queue was looked at."""
    return sum("FROM tasks" in sql for sql, _ in asked)


async def holds(condition: Callable[[], bool], what: str) -> None:
    async def true() -> bool:
        return condition()

    await until(true, what, LONG_S)


async def polls_of(works: Works, nodes: Sequence[int], wait_s: float = LONG_S) -> list[asyncio.Task[Any]]:
    """Polls that have begun to wait."""
    polls = [asyncio.create_task(works.tasks.lease(node, 1, wait_s)) for node in nodes]
    await asyncio.sleep(0)  # each begins at its first step
    return polls


async def ended(polls: Sequence[asyncio.Task[Any]]) -> None:
    for poll in polls:
        poll.cancel()
    await asyncio.gather(*polls, return_exceptions=True)


async def test_many_open_polls_cost_no_more_looks_than_one(works: Works, asked: Asked) -> None:
    """Each notification wakes all who look. However slow the machine is, the first look after it is one of
    a few; it would be one of MANY if each poll looked for itself."""
    nodes = [await works.node() for _ in range(MANY)]
    polls = await polls_of(works, nodes)
    await works.ordered(await works.books.holder(), "a voice that none of them has")
    counted = 0
    for _ in range(NOTIFICATIONS):
        asked.clear()
        works.tasks.notify_nodes()
        await holds(lambda: looks(asked) > 0, "somebody looks")
        counted += looks(asked)
    assert counted < NOTIFICATIONS * MANY / 8
    await ended(polls)


async def test_a_job_is_looked_for_by_none_who_could_not_do_it(works: Works, asked: Asked) -> None:
    others, able = [await works.node("another voice") for _ in range(MANY)], await works.node()
    polls = await polls_of(works, [*others, able])
    asked.clear()
    await works.ordered(await works.books.holder())
    works.tasks.notify_nodes()
    assert len(await polls[-1]) == 1
    assert {args[0] for sql, args in asked if sql.startswith("\nWITH RECURSIVE") and args} == {able}
    await ended(polls)


async def test_a_second_poll_takes_the_place_of_the_first(works: Works) -> None:
    node, holder = await works.node(), await works.books.holder()
    first, second = await polls_of(works, [node, node])
    await works.ordered(holder)
    works.tasks.notify_nodes()
    assert len(await second) == 1
    assert await asyncio.wait_for(first, LONG_S) == []


async def test_the_first_to_wait_is_the_first_to_get_a_job(works: Works) -> None:
    nodes, holder = [await works.node() for _ in range(3)], await works.books.holder()
    polls = await polls_of(works, nodes)
    for poll in polls:
        await works.ordered(holder)
        works.tasks.notify_nodes()
        assert len(await poll) == 1
        assert sum(poll.done() for poll in polls) == polls.index(poll) + 1


@pytest.mark.parametrize("verb", ["disable", "drain", "remove"])
async def test_the_poll_of_a_node_that_may_not_work_any_more_ends(works: Works, verb: str) -> None:
    node = await works.node(name="it")
    (poll,) = await polls_of(works, [node])
    await getattr(works.nodes, verb)("it")
    assert await asyncio.wait_for(poll, LONG_S) == []


async def test_the_poll_of_a_node_that_joined_anew_ends(works: Works, asked: Asked) -> None:
    await works.books.stop_clock()
    node = await works.node(name="it")
    (poll,) = await polls_of(works, [node])

    def checks() -> int:
        return sum("joined_at FROM nodes" in sql for sql, _ in asked)

    asked.clear()
    await holds(lambda: checks() > 1, "the poll has been seen")
    await works.books.move_clock(1)
    await works.nodes.join((await works.nodes.enroll("it", again=True)).token, "1")
    assert await asyncio.wait_for(poll, LONG_S) == []


async def test_a_job_whose_poll_ended_while_it_was_leased_is_queued_again(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, holder = await works.node(), await works.books.holder()
    transaction, begun, goes_on = works.desk.db.transaction, asyncio.Event(), asyncio.Event()

    async def slow(work: Any) -> Any:
        begun.set()
        await goes_on.wait()
        return await transaction(work)

    monkeypatch.setattr(works.desk.db, "transaction", slow)  # before the order: any look may lease it
    call = await works.ordered(holder)
    (poll,) = await polls_of(works, [node])
    await holds(begun.is_set, "the job is being leased")
    poll.cancel()
    await asyncio.gather(poll, return_exceptions=True)
    goes_on.set()
    columns = "node_id, lease_until, length(token_hash), epoch, tries"
    query = f"SELECT {columns} FROM tasks WHERE call_id = $1"

    async def queued_again() -> bool:
        return tuple((await works.books.sql(query, call.call_id))[0]) == (*FREE, 1, 0)

    await until(queued_again, "the job is queued again")
    (job,) = await works.tasks.lease(node, 1, 5)
    assert await works.tasks.complete(node, shown(job), AUDIO)


async def test_a_poll_whose_time_ends_while_nothing_can_be_leased_ends(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, begun, goes_on = await works.node(), asyncio.Event(), asyncio.Event()

    async def nothing(_: Any) -> list[Any]:
        begun.set()
        await goes_on.wait()
        return []

    async def poll() -> list[Any]:
        """Again and again, until its time ends while something is leased for it."""
        found: list[Any] = []
        while not begun.is_set():
            found = await works.tasks.lease(node, 1, SHORT_S)
        return found

    await works.ordered(await works.books.holder())
    with monkeypatch.context() as patched:
        patched.setattr(works.desk.db, "transaction", nothing)
        polling = asyncio.create_task(poll())
        await holds(begun.is_set, "the job is being leased")
        await asyncio.sleep(SHORT_S)  # the poll began before: the same loop has ended its time by then
        goes_on.set()
        assert await asyncio.wait_for(polling, LONG_S) == []


async def test_who_waits_is_told_when_the_database_is_disconnected(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await works.node()
    (poll,) = await polls_of(works, [node])

    async def gone(*_: object) -> Any:
        raise works.desk.db.unavailable[0]

    with monkeypatch.context() as patched:
        patched.setattr(works.desk.db, "fetch", gone)
        with pytest.raises(works.desk.db.unavailable):
            await asyncio.wait_for(poll, LONG_S)
    assert await works.tasks.lease(node, 1, 0.1) == []


async def test_a_poll_never_waits_for_a_lease_that_does_not_end(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time is over, and the jobs that come at last are queued again."""
    node, transaction, goes_on = await works.node(), works.desk.db.transaction, asyncio.Event()
    holder, served = await works.books.holder(), 0

    async def stalled(work: Any) -> Any:
        nonlocal served
        served += 1
        await goes_on.wait()
        monkeypatch.setattr(works.desk.db, "transaction", transaction)
        return await transaction(work)

    monkeypatch.setattr("myna.farm.polls.LATE_MAX_S", SHORT_S)
    monkeypatch.setattr(works.desk.db, "transaction", stalled)
    call = await works.ordered(holder)
    while not served:
        assert await asyncio.wait_for(works.tasks.lease(node, 1, SHORT_S), LONG_S) == []
    goes_on.set()

    async def queued_again() -> bool:
        columns = "epoch, status, tries"
        rows = await works.books.sql(f"SELECT {columns} FROM tasks WHERE call_id = $1", call.call_id)
        return rows == [(1, 0, 0)]

    await until(queued_again, "the job is queued again")


async def test_a_poll_that_ends_late_without_a_job_ends_no_other(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, begun, goes_on = await works.node(), asyncio.Event(), asyncio.Event()

    async def nothing(_: Any) -> None:
        begun.set()
        await goes_on.wait()

    async def poll() -> None:
        while not begun.is_set():
            await works.tasks.lease(node, 1, SHORT_S)

    (other,) = await polls_of(works, [await works.node("another voice")])
    await works.ordered(await works.books.holder())
    with monkeypatch.context() as patched:
        patched.setattr(works.desk.db, "transaction", nothing)
        patched.setattr("myna.farm.polls.LATE_MAX_S", SHORT_S)
        await asyncio.wait_for(poll(), LONG_S)
        goes_on.set()
        await asyncio.sleep(SHORT_S)
    assert not other.done()
    await works.ordered(await works.books.holder(), "another voice")
    works.tasks.notify_nodes()
    assert len(await asyncio.wait_for(other, LONG_S)) == 1


async def test_a_query_that_is_cancelled_ends_no_later_poll(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, holder, cancelled = await works.node(), await works.books.holder(), asyncio.Event()
    transaction = works.desk.db.transaction

    async def gone(_: Any) -> Any:
        cancelled.set()
        monkeypatch.setattr(works.desk.db, "transaction", transaction)
        raise asyncio.CancelledError

    monkeypatch.setattr(works.desk.db, "transaction", gone)
    await works.ordered(holder)
    (poll,) = await polls_of(works, [node])
    assert await asyncio.wait_for(poll, LONG_S) == []
    assert cancelled.is_set()
    (poll,) = await polls_of(works, [node])
    assert len(await asyncio.wait_for(poll, LONG_S)) == 1
