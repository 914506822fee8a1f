"""What time does to tasks: leases run out, tries are used up, deadlines pass, servers start again."""

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


async def test_a_task_whose_lease_ran_out_goes_back_to_the_queue(works: Works) -> None:
    node = await works.node()
    call, job = await works.held(node)
    assert await works.look_after_leases() == (0, 0)
    await works.books.move_clock(LEASE_MS + 1)

    assert await works.look_after_leases() == (1, 0)

    assert (await works.status(call), await works.tries(call)) == (0, 1)
    assert await works.holder_of(call) == FREE
    again = await works.leased(await works.node())
    assert (again.id, again.epoch) == (job.id, 2)


async def test_a_lease_goes_on_as_long_as_the_node_is_heard(works: Works) -> None:
    node = await works.node()
    _, job = await works.held(node)
    for _ in range(5):
        await works.books.move_clock(LEASE_MS - 5000)
        assert await works.look_after_leases() == (0, 0)
        assert await works.beats(node, shown(job))
    assert await works.tasks.complete(node, shown(job), AUDIO)


async def test_a_task_that_no_node_finished_in_all_its_tries_is_refunded(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call = await works.ordered(holder, idempotency_key=reserved())
    for _ in range(TRIES_MAX - 1):
        await works.lose(node)
        assert await works.look_after_leases() == (1, 0)
    job = await works.leased(node)
    await works.books.move_clock(LEASE_MS + 1)

    assert await works.look_after_leases() == (0, 1)

    assert await works.books.task(call.call_id) == (3, "", 0, b"", TRIES_EXHAUSTED)
    assert await works.books.balance(holder) == 10
    assert await works.books.answer(call.call_id) == []
    assert await works.look_after_leases() == (0, 0)
    with pytest.raises(StaleLease):
        await works.tasks.complete(node, shown(job), AUDIO)


async def test_a_task_in_its_last_try_is_left_to_its_node(works: Works) -> None:
    node = await works.node()
    call = await works.ordered(await works.books.holder())
    for _ in range(TRIES_MAX - 1):
        await works.lose(node)
        await works.look_after_leases()
    job = await works.leased(node)
    assert await works.look_after_leases() == (0, 0)
    assert await works.tasks.complete(node, shown(job), AUDIO)
    assert await works.status(call) == 2


async def test_tries_that_failed_and_tries_that_ran_out_count_alike(works: Works) -> None:
    node = await works.node()
    call = await works.ordered(await works.books.holder())
    await works.lose(node)
    await works.look_after_leases()
    await works.tasks.fail(node, failure(await works.leased(node)))
    await works.tasks.fail(node, failure(await works.leased(node), handed_back=True))
    await works.tasks.fail(node, failure(await works.leased(node)))
    assert await works.status(call) == 3


async def test_a_task_that_nobody_took_in_time_fails_and_is_refunded(works: Works) -> None:
    holder = await works.books.holder()
    call = await works.ordered(holder)
    assert await works.desk.ledger.sweep() == 0
    await works.books.move_clock(DEADLINE_MS + 1)
    assert await works.desk.ledger.sweep() == 1
    assert (await works.books.task(call.call_id))[::4] == (3, "not done in time")
    assert await works.books.balance(holder) == 10


async def test_a_task_that_is_held_at_its_deadline_fails_and_is_refunded(works: Works) -> None:
    """Even between the deadline and the sweep its node is too late, without a look at the deadline."""
    holder, node = await works.books.holder(), await works.node()
    call, job = await works.held(node, holder, deadline_ms=LEASE_MS // 2)
    await works.books.move_clock(LEASE_MS // 2 + 1)
    assert not await works.beats(node, shown(job))
    with pytest.raises(StaleLease):
        await works.tasks.complete(node, shown(job), AUDIO)
    assert await works.desk.ledger.sweep() == 1
    assert await works.status(call) == 3
    assert await works.books.balance(holder) == 10


async def test_a_lapsed_task_that_is_overdue_too_is_leased_to_nobody(works: Works) -> None:
    node = await works.node()
    call, _ = await works.held(node, deadline_ms=LEASE_MS // 2)
    await works.books.move_clock(LEASE_MS + 1)
    assert await works.look_after_leases() == (1, 0)
    assert await works.tasks.lease(node, 1, 0) == []
    assert await works.desk.ledger.sweep() == 1
    assert await works.status(call) == 3


async def test_many_leases_that_ran_out_are_queued_again_at_once(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    for _ in range(8):
        await works.ordered(holder)
    await works.tasks.lease(node, 8, 0)
    await works.books.move_clock(LEASE_MS + 1)
    assert await works.look_after_leases() == (8, 0)
    assert len(await works.tasks.lease(node, 9, 0)) == 8


async def test_two_processes_that_look_after_leases_at_once_do_it_once(works: Works) -> None:
    node, holder = await works.node(), await works.books.holder(units=50)
    spent = await works.ordered(holder)
    for _ in range(TRIES_MAX - 1):
        await works.tasks.fail(node, failure(await works.leased(node)))
    await works.rested(node)
    for _ in range(10):
        await works.ordered(holder)
    await works.tasks.lease(node, 11, 0)
    await works.books.move_clock(LEASE_MS + 1)
    other = await works.books.open_again() if works.books.url else works.books.db
    async with works_on(works.books, other) as second:
        looks = await asyncio.gather(*[at.look_after_leases() for at in (works, second, works, second)])
    if other is not works.books.db:
        await other.close()
    assert sum(put_back for put_back, _ in looks) == 10
    assert await works.status(spent) == 3
    assert await works.books.balance(holder) == 40


async def test_a_server_that_starts_leaves_the_tasks_of_nodes_alone(works: Works) -> None:
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


# ---- what the site began and leaves to the nodes


async def test_a_speech_that_the_site_could_not_speak_waits_for_a_node(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call = await works.begun(holder, deadline_ms=5000)
    assert await works.tasks.lease(node, 1, 0) == []

    assert await works.tasks.queue_for_nodes(holder.account_id, call.call_id, 120.0, None)

    assert await works.status(call) == 0
    await works.books.move_clock(5001)  # the call's first deadline doesn't hold any more
    assert await works.desk.ledger.sweep() == 0
    assert await works.tasks.complete(node, shown(await works.leased(node)), AUDIO)
    assert await works.books.counters(holder) == (1, 1, 1)


async def test_what_is_left_to_nodes_has_its_new_deadline(works: Works) -> None:
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
async def test_what_is_left_to_nodes_has_the_answer_to_its_copies(
    works: Works, draft: str, stored: bool
) -> None:
    holder, node = await works.books.holder(), await works.node()
    call = await works.begun(holder, idempotency_key=reserved())
    await works.tasks.queue_for_nodes(holder.account_id, call.call_id, 120.0, draft)
    job = await works.leased(node)
    whole = draft.replace("\x02", str(job.id)).replace("\x01", AUDIO.name)
    assert await works.books.answer(call.call_id) == [(whole if stored else None,)]
    await works.tasks.complete(node, shown(job), AUDIO)
    assert await works.books.answer(call.call_id) == [(whole,)]


async def test_a_call_that_ended_meanwhile_is_not_left_to_nodes(works: Works) -> None:
    holder = await works.books.holder()
    call = await works.begun(holder)
    await works.desk.ledger.refund_all({call.call_id: "swept"})
    before = await works.books.sql("SELECT * FROM calls")
    assert not await works.tasks.queue_for_nodes(holder.account_id, call.call_id, 120.0, None)
    assert await works.books.sql("SELECT * FROM calls") == before
    assert await works.status(call) == 3


async def test_what_a_node_holds_already_is_not_taken_from_it(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call, job = await works.held(node, holder)
    before = await works.books.sql("SELECT * FROM calls")
    assert not await works.tasks.queue_for_nodes(holder.account_id, call.call_id, 120.0, None)
    assert await works.books.sql("SELECT * FROM calls") == before
    assert await works.beats(node, shown(job))
    assert await works.tasks.complete(node, shown(job), AUDIO)


# ---- voices of accounts


async def test_a_finished_voice_is_ready_and_names_its_preview(works: Works) -> None:
    node, voice_id = await works.node(clones=["zh"]), await works.clone(await works.books.holder())
    job = await works.leased(node)
    assert [await works.tasks.complete(node, shown(job), AUDIO) for _ in range(2)] == [True, False]
    assert await works.clone_row(voice_id) == (2, "", AUDIO.name)
    assert await works.tasks.lease(node, 1, 0) == []


async def test_a_voice_that_can_not_be_made_failed(works: Works) -> None:
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
    await works.lose(node)
    assert await works.look_after_leases() == (1, 0)
    await works.lose(node)
    assert (await works.clone_row(voice_id))[0] == 1
    assert await works.look_after_leases() == (0, 0)
    assert await works.clone_row(voice_id) == (3, TRIES_EXHAUSTED, "")


@pytest.mark.parametrize("change", [{"epoch": 7}, {"token": "0" * 32}])
async def test_a_voice_is_only_made_by_who_holds_it(works: Works, change: dict[str, object]) -> None:
    node, voice_id = await works.node(clones=["zh"]), await works.clone(await works.books.holder())
    job = await works.leased(node)
    for who, held in ((node, shown(job, **change)), (await works.node(clones=["zh"]), shown(job))):
        with pytest.raises(StaleLease):
            await works.tasks.complete(who, held, AUDIO)
    await works.books.move_clock(LEASE_MS + 1)
    with pytest.raises(StaleLease):
        await works.tasks.complete(node, shown(job), AUDIO)
    assert (await works.clone_row(voice_id))[0] == 1
