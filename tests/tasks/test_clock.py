"""Tasks over time: leases expire, tries are exhausted, deadlines pass, processes restart."""

import asyncio

import pytest

from myna.errors import StaleLease
from myna.farm.tasks import TRIES_EXHAUSTED
from myna.store.batch import CallState
from myna.wire.farm import TRIES_MAX
from tests.ledger.desk import desk_on
from tests.store.books import AUDIO, reserved
from tests.tasks.works import DEADLINE_MS, FREE, LEASE_MS, Works, failure, shown, works_on

pytestmark = pytest.mark.anyio


async def test_a_task_whose_lease_expired_is_requeued(works: Works) -> None:
    node = await works.node()
    call, job = await works.held(node)
    assert await works.sweep_leases() == (0, 0)
    await works.books.move_clock(LEASE_MS + 1)

    assert await works.sweep_leases() == (1, 0)

    assert (await works.status(call), await works.tries(call)) == (0, 1)
    assert await works.holder_of(call) == FREE
    again = await works.leased(await works.node())
    assert (again.id, again.epoch) == (job.id, 2)


async def test_beats_renew_a_lease(works: Works) -> None:
    node = await works.node()
    _, job = await works.held(node)
    for _ in range(5):
        await works.books.move_clock(LEASE_MS - 5000)
        assert await works.sweep_leases() == (0, 0)
        assert await works.beats(node, shown(job))
    assert await works.tasks.complete(node, shown(job), AUDIO)


async def test_a_task_whose_tries_are_exhausted_is_refunded(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call = await works.ordered(holder, idempotency_key=reserved())
    for _ in range(TRIES_MAX - 1):
        await works.let_lease_expire(node)
        assert await works.sweep_leases() == (1, 0)
    job = await works.leased(node)
    await works.books.move_clock(LEASE_MS + 1)

    assert await works.sweep_leases() == (0, 1)

    assert await works.books.task(call.call_id) == (3, "", 0, b"", TRIES_EXHAUSTED)
    assert await works.books.balance(holder) == 10
    assert await works.books.answer(call.call_id) == []
    assert await works.sweep_leases() == (0, 0)
    with pytest.raises(StaleLease):
        await works.tasks.complete(node, shown(job), AUDIO)


async def test_a_task_in_its_last_try_can_be_completed(works: Works) -> None:
    node = await works.node()
    call = await works.ordered(await works.books.holder())
    for _ in range(TRIES_MAX - 1):
        await works.let_lease_expire(node)
        await works.sweep_leases()
    job = await works.leased(node)
    assert await works.sweep_leases() == (0, 0)
    assert await works.tasks.complete(node, shown(job), AUDIO)
    assert await works.status(call) == 2


async def test_failed_and_expired_tries_count_alike(works: Works) -> None:
    node = await works.node()
    call = await works.ordered(await works.books.holder())
    await works.let_lease_expire(node)
    await works.sweep_leases()
    await works.tasks.fail(node, failure(await works.leased(node)))
    await works.tasks.fail(node, failure(await works.leased(node), handed_back=True))
    await works.tasks.fail(node, failure(await works.leased(node)))
    assert await works.status(call) == 3


async def test_a_queued_task_past_its_deadline_fails_and_is_refunded(works: Works) -> None:
    holder = await works.books.holder()
    call = await works.ordered(holder)
    assert await works.desk.ledger.sweep() == 0
    await works.books.move_clock(DEADLINE_MS + 1)
    assert await works.desk.ledger.sweep() == 1
    assert (await works.books.task(call.call_id))[::4] == (3, "not done in time")
    assert await works.books.balance(holder) == 10


async def test_a_leased_task_past_its_deadline_fails_and_is_refunded(works: Works) -> None:
    """Between the deadline and the sweep its lease is stale, since no lease lasts past the deadline."""
    holder, node = await works.books.holder(), await works.node()
    call, job = await works.held(node, holder, deadline_ms=LEASE_MS // 2)
    await works.books.move_clock(LEASE_MS // 2 + 1)
    assert not await works.beats(node, shown(job))
    with pytest.raises(StaleLease):
        await works.tasks.complete(node, shown(job), AUDIO)
    assert await works.desk.ledger.sweep() == 1
    assert await works.status(call) == 3
    assert await works.books.balance(holder) == 10


async def test_a_requeued_task_past_its_deadline_is_not_leased(works: Works) -> None:
    node = await works.node()
    call, _ = await works.held(node, deadline_ms=LEASE_MS // 2)
    await works.books.move_clock(LEASE_MS + 1)
    assert await works.sweep_leases() == (1, 0)
    assert await works.tasks.lease(node, 1, 0) == []
    assert await works.desk.ledger.sweep() == 1
    assert await works.status(call) == 3


async def test_many_expired_leases_are_requeued_together(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    for _ in range(8):
        await works.ordered(holder)
    await works.tasks.lease(node, 8, 0)
    await works.books.move_clock(LEASE_MS + 1)
    assert await works.sweep_leases() == (8, 0)
    assert len(await works.tasks.lease(node, 9, 0)) == 8


async def test_concurrent_sweeps_requeue_each_expired_lease_once(works: Works) -> None:
    node, holder = await works.node(), await works.books.holder(units=50)
    spent = await works.ordered(holder)
    for _ in range(TRIES_MAX - 1):
        await works.tasks.fail(node, failure(await works.leased(node)))
    await works.end_cooldown(node)
    for _ in range(10):
        await works.ordered(holder)
    await works.tasks.lease(node, 11, 0)
    await works.books.move_clock(LEASE_MS + 1)
    other = await works.books.open_again() if works.books.url else works.books.db
    async with works_on(works.books, other) as second:
        looks = await asyncio.gather(*[at.sweep_leases() for at in (works, second, works, second)])
    if other is not works.books.db:
        await other.close()
    assert sum(put_back for put_back, _ in looks) == 10
    assert await works.status(spent) == 3
    assert await works.books.balance(holder) == 40


async def test_a_restart_refunds_no_task_of_a_node(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    held, job = await works.held(node, holder)
    queued = await works.ordered(holder)
    dead = [await works.begun(holder), await works.books.opened(holder, config_version=await version(works))]
    async with desk_on(works.books.db) as another:
        assert await another.ledger.recover() == 2
        assert await another.ledger.recover() == 0
    assert [await works.books.state(call.call_id) for call in dead] == [CallState.REFUNDED] * 2
    assert [await works.status(call) for call in (held, queued)] == [1, 0]
    assert await works.tasks.complete(node, shown(job), AUDIO)


async def version(works: Works) -> int:
    ((number,),) = await works.books.sql("SELECT version FROM site")
    return int(number)


# ---- speech that the service began and nodes take over


async def test_speech_taken_over_by_nodes_is_queued(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call = await works.begun(holder, deadline_ms=5000)
    assert await works.tasks.lease(node, 1, 0) == []

    assert await works.tasks.queue_for_nodes(holder.account_id, call.call_id, 120.0, None)

    assert await works.status(call) == 0
    await works.books.move_clock(5001)  # past the call's first deadline
    assert await works.desk.ledger.sweep() == 0
    assert await works.tasks.complete(node, shown(await works.leased(node)), AUDIO)
    assert await works.books.counters(holder) == (1, 1, 1)


async def test_a_task_taken_over_by_nodes_has_a_new_deadline(works: Works) -> None:
    holder = await works.books.holder()
    call = await works.begun(holder)
    await works.tasks.queue_for_nodes(holder.account_id, call.call_id, 120.0, None)
    assert await works.books.sql(
        "SELECT t.deadline - c.deadline FROM tasks t JOIN calls c ON c.id = t.call_id"
    ) == [(0,)]
    await works.books.move_clock(121_000)
    assert await works.desk.ledger.sweep() == 1
    assert await works.books.balance(holder) == 10


@pytest.mark.parametrize(
    "draft, stored", [("{\x02}", True), ("{\x02 \x01}", False)], ids=["id", "id and audio"]
)
async def test_a_task_taken_over_by_nodes_stores_its_response(works: Works, draft: str, stored: bool) -> None:
    holder, node = await works.books.holder(), await works.node()
    call = await works.begun(holder, idempotency_key=reserved())
    await works.tasks.queue_for_nodes(holder.account_id, call.call_id, 120.0, draft)
    job = await works.leased(node)
    whole = draft.replace("\x02", str(job.id)).replace("\x01", AUDIO.name)
    assert await works.books.answer(call.call_id) == [(whole if stored else None,)]
    await works.tasks.complete(node, shown(job), AUDIO)
    assert await works.books.answer(call.call_id) == [(whole,)]


async def test_an_ended_call_is_not_taken_over_by_nodes(works: Works) -> None:
    holder = await works.books.holder()
    call = await works.begun(holder)
    await works.desk.ledger.refund_all({call.call_id: "swept"})
    before = await works.books.sql("SELECT * FROM calls")
    assert not await works.tasks.queue_for_nodes(holder.account_id, call.call_id, 120.0, None)
    assert await works.books.sql("SELECT * FROM calls") == before
    assert await works.status(call) == 3


async def test_a_leased_task_is_not_taken_over_again(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call, job = await works.held(node, holder)
    before = await works.books.sql("SELECT * FROM calls")
    assert not await works.tasks.queue_for_nodes(holder.account_id, call.call_id, 120.0, None)
    assert await works.books.sql("SELECT * FROM calls") == before
    assert await works.beats(node, shown(job))
    assert await works.tasks.complete(node, shown(job), AUDIO)


# ---- voices of accounts


async def test_a_completed_voice_is_ready_and_has_its_preview(works: Works) -> None:
    node, voice_id = await works.node(clones=["zh"]), await works.clone(await works.books.holder())
    job = await works.leased(node)
    assert [await works.tasks.complete(node, shown(job), AUDIO) for _ in range(2)] == [True, False]
    assert await works.clone_row(voice_id) == (2, "", AUDIO.name)
    assert await works.tasks.lease(node, 1, 0) == []


async def test_a_voice_with_a_final_failure_has_failed(works: Works) -> None:
    node, voice_id = await works.node(clones=["zh"]), await works.clone(await works.books.holder())
    job = await works.leased(node)
    await works.tasks.fail(node, failure(job, final=True))
    assert await works.clone_row(voice_id) == (3, "it was too loud", "")
    with pytest.raises(StaleLease):
        await works.tasks.complete(node, shown(job), AUDIO)


async def test_a_voice_has_three_tries(works: Works) -> None:
    node, voice_id = await works.node(clones=["zh"]), await works.clone(await works.books.holder())
    await works.tasks.fail(node, failure(await works.leased(node), handed_back=True))
    await works.tasks.fail(node, failure(await works.leased(node)))
    await works.let_lease_expire(node)
    assert await works.sweep_leases() == (1, 0)
    await works.let_lease_expire(node)
    assert (await works.clone_row(voice_id))[0] == 1
    assert await works.sweep_leases() == (0, 0)
    assert await works.clone_row(voice_id) == (3, TRIES_EXHAUSTED, "")


@pytest.mark.parametrize("change", [{"epoch": 7}, {"token": "0" * 32}])
async def test_a_voice_is_completed_only_under_its_lease(works: Works, change: dict[str, object]) -> None:
    node, voice_id = await works.node(clones=["zh"]), await works.clone(await works.books.holder())
    job = await works.leased(node)
    for who, held in ((node, shown(job, **change)), (await works.node(clones=["zh"]), shown(job))):
        with pytest.raises(StaleLease):
            await works.tasks.complete(who, held, AUDIO)
    await works.books.move_clock(LEASE_MS + 1)
    with pytest.raises(StaleLease):
        await works.tasks.complete(node, shown(job), AUDIO)
    assert (await works.clone_row(voice_id))[0] == 1
