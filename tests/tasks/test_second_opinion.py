"""A final failure of one node is not final for the task while another able node is online."""

import asyncio

import pytest

from myna.farm.tasks import REFUSED_CLONE_WAIT_MS
from myna.store.batch import CallState
from myna.store.queries.farm import polls
from myna.wire.farm import TRIES_MAX, Job
from tests.store.books import AUDIO
from tests.tasks.works import DEADLINE_MS, FREE, VOICE, Works, failure, shown

pytestmark = pytest.mark.anyio

ONLINE_MS = 40_000
SWEPT_MS = 60_000


async def refuse(works: Works, node: int) -> Job:
    """The node leases its next job and reports a final failure."""
    job = await works.leased(node)
    await works.tasks.fail(node, failure(job, final=True))
    return job


async def failures(works: Works, *nodes: int) -> list[int]:
    found = dict(await works.books.sql("SELECT id, failures FROM nodes"))
    return [found[node] for node in nodes]


async def test_a_refused_task_is_completed_by_another_node(works: Works) -> None:
    holder, refuser, other = await works.books.holder(), await works.node(), await works.node()
    call = await works.ordered(holder)
    await refuse(works, refuser)
    assert (await works.status(call), await works.tries(call)) == (0, 1)
    assert await works.holder_of(call) == FREE
    assert await works.books.balance(holder) == 9
    assert await works.tasks.lease(refuser, 1, 0) == []
    assert await works.tasks.complete(other, shown(await works.leased(other)), AUDIO)
    assert await works.books.state(call.call_id) == CallState.KEPT


async def test_a_task_refused_by_all_nodes_is_refunded(works: Works) -> None:
    holder, nodes = await works.books.holder(), [await works.node() for _ in range(2)]
    call = await works.ordered(holder)
    for node in nodes:
        assert await works.status(call) == 0
        await refuse(works, node)
    assert await works.status(call) == 3
    assert await works.books.entries(call.call_id) == [(0, -1), (1, 1)]
    assert await works.books.balance(holder) == 10
    assert await failures(works, *nodes) == [0, 0]


async def test_refusals_use_tries(works: Works) -> None:
    holder, nodes = await works.books.holder(), [await works.node() for _ in range(TRIES_MAX + 1)]
    call = await works.ordered(holder)
    for node in nodes[:TRIES_MAX]:
        assert await works.status(call) == 0
        await refuse(works, node)
    assert await works.status(call) == 3
    assert await works.books.balance(holder) == 10


@pytest.mark.parametrize("why", ["offline", "disabled", "draining", "another voice", "a language"])
async def test_a_refused_task_without_another_able_node_is_refunded_at_once(works: Works, why: str) -> None:
    holder, refuser = await works.books.holder(), await works.node()
    voice, languages = (why if why == "another voice" else VOICE), (["zh"] if why == "a language" else [])
    other = await works.node(*([] if languages else [voice]), clones=languages, name="other")
    call = await works.ordered(holder)
    if why == "offline":
        await works.books.sql("UPDATE nodes SET heard_at = now_ms() - $2 WHERE id = $1", other, ONLINE_MS)
    if why == "disabled":
        await works.nodes.disable("other")
    if why == "draining":
        await works.nodes.drain("other")
    await refuse(works, refuser)
    assert await works.status(call) == 3
    assert await works.books.balance(holder) == 10


async def test_a_refused_voice_is_completed_by_another_node(works: Works) -> None:
    holder = await works.books.holder()
    refuser, other = [await works.node(clones=["zh"]) for _ in range(2)]
    voice_id = await works.clone(holder)
    await refuse(works, refuser)
    assert (await works.clone_row(voice_id))[0] == 0
    assert await works.tasks.lease(refuser, 1, 0) == []
    assert await works.tasks.complete(other, shown(await works.leased(other)), AUDIO)
    assert (await works.clone_row(voice_id))[:2] == (2, "")
    assert await failures(works, refuser, other) == [1, 0]


@pytest.mark.parametrize("other_online", [False, True])
async def test_a_refused_voice_fails_after_the_grace_period_without_another_node(
    works: Works, other_online: bool
) -> None:
    refuser, other = [await works.node(clones=["zh"]) for _ in range(2)]
    voice_id, never_refused = [await works.clone(await works.books.holder()) for _ in range(2)]
    await refuse(works, refuser)
    await works.books.sql("UPDATE nodes SET heard_at = 0 WHERE id = $1", other)
    await works.sweep_leases()
    assert await works.clone_row(voice_id) == (0, "it was too loud", "")  # the other node may be restarting

    await works.books.move_clock(REFUSED_CLONE_WAIT_MS + 1)
    if other_online:
        await works.books.sql("UPDATE nodes SET heard_at = now_ms() WHERE id = $1", other)
    await works.sweep_leases()
    assert await works.clone_row(voice_id) == (0 if other_online else 3, "it was too loud", "")
    assert await works.clone_row(never_refused) == (0, "", "")


async def test_a_refused_task_past_its_deadline_fails_with_the_reason_of_the_node(works: Works) -> None:
    holder, refuser = await works.books.holder(), await works.node()
    await works.node()
    call = await works.ordered(holder)
    await refuse(works, refuser)
    await works.books.move_clock(DEADLINE_MS + SWEPT_MS)
    assert await works.desk.ledger.sweep() == 1
    assert await works.books.task(call.call_id) == (3, "", 0, b"", "it was too loud")
    assert await works.books.balance(holder) == 10


@pytest.mark.parametrize("language", ["zh", "en"])
async def test_a_refused_voice_fails_if_no_other_node_clones_its_language(
    works: Works, language: str
) -> None:
    refuser, other = await works.node(clones=["zh"]), await works.node(clones=[language])
    voice_id = await works.clone(await works.books.holder())
    await refuse(works, refuser)
    assert (await works.clone_row(voice_id))[0] == (0 if language == "zh" else 3)
    if language == "zh":
        await refuse(works, other)
        assert (await works.clone_row(voice_id))[:2] == (3, "it was too loud")


async def test_a_refused_task_in_a_cloned_voice_is_leased_to_another_node(
    works: Works,
) -> None:
    holder, (refuser, other) = await works.books.holder(), [await works.node(clones=["zh"]) for _ in range(2)]
    voice_id = await works.clone(holder)
    await works.tasks.complete(other, shown(await works.leased(other)), AUDIO)
    call = await works.ordered(holder, voice_id)
    await refuse(works, refuser)
    assert await works.status(call) == 0
    assert await polls.able(works.desk.db) == {other}
    assert await works.tasks.complete(other, shown(await works.leased(other)), AUDIO)


async def test_a_refused_job_completed_by_another_node_is_a_failure_of_the_first(works: Works) -> None:
    await works.books.stop_clock()
    holder, refuser, other = await works.books.holder(), await works.node(), await works.node()
    for count in (1, 2):
        await works.ordered(holder)
        await refuse(works, refuser)
        assert await failures(works, refuser, other) == [count - 1, 0]
        assert await works.tasks.complete(other, shown(await works.leased(other)), AUDIO)
        assert await failures(works, refuser, other) == [count, 0]
    await works.ordered(holder)
    assert await works.tasks.lease(refuser, 1, 0) == []
    await works.books.move_clock(4000)
    assert len(await works.tasks.lease(refuser, 1, 0)) == 1


async def test_two_nodes_completing_each_others_refused_jobs_do_not_deadlock(works: Works) -> None:
    """Both transactions update both nodes."""
    holder, (one, other) = await works.books.holder(units=20), [await works.node() for _ in range(2)]
    for _ in range(5):
        calls = [await works.ordered(holder) for _ in range(2)]
        await refuse(works, one)
        await works.end_cooldown(other)
        first, second = await works.tasks.lease(other, 2, 0)
        await works.tasks.fail(other, failure(second, final=True))
        second = await works.leased(one)
        assert await asyncio.gather(
            works.tasks.complete(one, shown(second), AUDIO), works.tasks.complete(other, shown(first), AUDIO)
        ) == [True, True]
        assert [await works.status(call) for call in calls] == [2, 2]


async def test_a_refused_task_does_not_block_other_tasks_of_its_account_and_voice(works: Works) -> None:
    holder, refuser, other = await works.books.holder(), await works.node(), await works.node()
    first, second = [await works.ordered(holder) for _ in range(2)]
    refused = await refuse(works, refuser)
    assert (await works.leased(refuser)).id != refused.id
    assert (await works.leased(other)).id == refused.id
    assert [await works.status(call) for call in (first, second)] == [1, 1]


async def test_a_poll_is_not_woken_for_a_job_its_node_refused(works: Works) -> None:
    holder = await works.books.holder()
    refuser, other, cloner = await works.node(), await works.node(), await works.node(clones=["zh"])
    await works.ordered(holder)
    assert await polls.able(works.desk.db) == {refuser, other}
    await refuse(works, refuser)
    assert await polls.able(works.desk.db) == {other}
    second_cloner = await works.node(clones=["zh"])
    await works.clone(holder)
    assert await polls.able(works.desk.db) == {other, cloner, second_cloner}
    await refuse(works, cloner)
    assert await polls.able(works.desk.db) == {other, second_cloner}
