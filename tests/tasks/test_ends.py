"""The end of a task by its node: kept or refunded in the same transaction, once, only under its lease."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from myna.errors import StaleLease
from myna.store.batch import AUDIO_PLACEHOLDER, NOT_STORED, TASK_PLACEHOLDER, Audio, CallState, Replayed
from myna.store.limits import STORED_ANSWER_MAX_BYTES
from myna.wire.farm import TRIES_MAX, Job, LeaseProof
from tests.store.books import AUDIO, DIFFERENT_AUDIO, break_refunds, charge_of, mend_refunds, reserved
from tests.store.stalls import until
from tests.tasks.works import FREE, LEASE_MS, Works, failure, shown

pytestmark = pytest.mark.anyio

COMPLETED = (2, AUDIO.name, AUDIO.size_bytes, AUDIO.sha256, "")
FAILED = (3, "", 0, b"", "it was too loud")
BOTH_MARKS = f'{{"id": {TASK_PLACEHOLDER}, "audio": "{AUDIO_PLACEHOLDER}"}}'
ONE_MARK = f'{{"id": {TASK_PLACEHOLDER}}}'


async def test_a_completed_task_is_kept_with_its_audio_and_counted(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call, job = await works.held(node, holder)
    assert await works.tasks.complete(node, shown(job), AUDIO)
    assert await works.books.task(call.call_id) == COMPLETED
    assert await works.books.state(call.call_id) == CallState.KEPT
    assert await works.books.counters(holder) == (1, 1, 1)
    assert await works.books.balance(holder) == 9


async def test_completing_a_task_stores_its_response(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call, job = await works.held(node, holder, idempotency_key=reserved(), draft=BOTH_MARKS)
    assert await works.books.answer(call.call_id) == [(None,)]
    await works.tasks.complete(node, shown(job), AUDIO)
    answer = f'{{"id": {job.id}, "audio": "{AUDIO.name}"}}'
    assert await works.books.charge(charge_of(holder, idempotency_key=reserved())) == [Replayed(answer)]


async def test_completing_a_task_stores_no_response_over_the_limit(
    works: Works,
) -> None:
    holder, node = await works.books.holder(), await works.node()
    draft = BOTH_MARKS + " " * STORED_ANSWER_MAX_BYTES
    _, job = await works.held(node, holder, idempotency_key=reserved(), draft=draft)
    await works.tasks.complete(node, shown(job), AUDIO)
    assert await works.books.sql("SELECT answer, draft FROM reservations") == [(NOT_STORED, None)]


async def test_a_response_that_needs_only_the_task_id_is_stored_with_the_charge(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call, job = await works.held(node, holder, idempotency_key=reserved(), draft=ONE_MARK)
    answer = f'{{"id": {job.id}}}'
    assert await works.books.answer(call.call_id) == [(answer,)]
    await works.tasks.complete(node, shown(job), AUDIO)
    assert await works.books.answer(call.call_id) == [(answer,)]


async def test_a_final_failure_is_refunded_at_once(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call, job = await works.held(node, holder, idempotency_key=reserved(), draft=ONE_MARK)
    await works.tasks.fail(node, failure(job, final=True))
    assert await works.books.task(call.call_id) == FAILED
    assert await works.books.entries(call.call_id) == [(0, -1), (1, 1)]
    assert await works.books.balance(holder) == 10
    assert await works.books.answer(call.call_id) == []


async def test_a_failure_that_is_not_final_requeues_the_task(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call, job = await works.held(node, holder)
    await works.tasks.fail(node, failure(job))
    assert (await works.status(call), await works.tries(call)) == (0, 1)
    assert await works.holder_of(call) == FREE
    assert await works.books.balance(holder) == 9
    again = await works.leased(await works.node())
    assert (again.id, again.epoch) == (job.id, job.epoch + 1)
    assert again.token != job.token


async def test_the_third_failure_is_final(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call = await works.ordered(holder)
    for left in (2, 1, 0):
        assert await works.status(call) == 0
        await works.tasks.fail(node, failure(await works.leased(node)))
        assert await works.books.balance(holder) == (9 if left else 10)
    assert await works.books.task(call.call_id) == FAILED


async def test_a_returned_job_does_not_use_a_try(works: Works) -> None:
    node = await works.node()
    call = await works.ordered(await works.books.holder())
    for _ in range(TRIES_MAX + 2):
        await works.tasks.fail(node, failure(await works.leased(node), handed_back=True))
        assert (await works.status(call), await works.tries(call)) == (0, 0)
        assert await works.holder_of(call) == FREE


async def test_a_job_returned_in_its_last_try_keeps_that_try(works: Works) -> None:
    node = await works.node()
    call = await works.ordered(await works.books.holder())
    for _ in range(TRIES_MAX - 1):
        await works.tasks.fail(node, failure(await works.leased(node)))
    await works.tasks.fail(node, failure(await works.leased(node), handed_back=True))
    assert (await works.status(call), await works.tries(call)) == (0, TRIES_MAX - 1)


async def test_a_failure_whose_refund_fails_changes_nothing(works: Works) -> None:
    """The state of the task and the end of its call change in one transaction."""
    holder, node = await works.books.holder(), await works.node()
    call, job = await works.held(node, holder)
    await break_refunds(works.books)
    with pytest.raises(Exception, match="out of order"):
        await works.tasks.fail(node, failure(job, final=True))
    assert await works.status(call) == 1
    assert await works.books.state(call.call_id) == CallState.OPEN
    await mend_refunds(works.books)
    await works.tasks.fail(node, failure(job, final=True))
    assert await works.books.balance(holder) == 10


async def test_progress_is_stored_and_below_100(works: Works) -> None:
    node = await works.node()
    _, job = await works.held(node)
    for said, percent in ((0.0, 0), (0.5, 50), (1.0, 99)):
        assert await works.beats(node, shown(job), said)
        assert await works.books.sql("SELECT progress FROM tasks") == [(percent,)]


async def test_a_beat_renews_valid_leases_and_names_the_others(works: Works) -> None:
    node, holder = await works.node(), await works.books.holder()
    jobs = [(await works.held(node, holder))[1] for _ in range(3)]
    await works.tasks.complete(node, shown(jobs[1]), AUDIO)
    await works.books.move_clock(LEASE_MS - 5000)
    assert [await works.beats(node, shown(job)) for job in jobs] == [True, False, True]
    await works.books.move_clock(LEASE_MS - 5000)
    assert await works.tasks.has_lease(node, shown(jobs[0]))


# ---- retries of a completion


async def test_a_repeated_completion_counts_once(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call, job = await works.held(node, holder)
    same = Audio("another.mp3", AUDIO.size_bytes, AUDIO.sha256)
    assert [await works.tasks.complete(node, shown(job), audio) for audio in (AUDIO, AUDIO, same)] == [
        True, False, False,
    ]  # fmt: skip
    assert await works.books.task(call.call_id) == COMPLETED
    assert await works.books.counters(holder) == (1, 1, 1)


async def test_another_audio_for_a_completed_task_is_stale(works: Works) -> None:
    node = await works.node()
    call, job = await works.held(node)
    await works.tasks.complete(node, shown(job), AUDIO)
    with pytest.raises(StaleLease):
        await works.tasks.complete(node, shown(job), DIFFERENT_AUDIO)
    assert await works.books.task(call.call_id) == COMPLETED


@pytest.mark.parametrize("wrong", ["token", "epoch", "node"])
async def test_a_completion_with_another_lease_is_stale(works: Works, wrong: str) -> None:
    node, other = await works.node(), await works.node()
    _, job = await works.held(node)
    await works.tasks.complete(node, shown(job), AUDIO)
    changes = {"token": {"token": "0" * 32}, "epoch": {"epoch": job.epoch + 1}, "node": {}}[wrong]
    who = other if wrong == "node" else node
    assert not await works.tasks.has_lease(who, shown(job, **changes))
    with pytest.raises(StaleLease):
        await works.tasks.complete(who, shown(job, **changes), AUDIO)


async def test_a_late_repeated_completion_is_accepted(works: Works) -> None:
    node = await works.node()
    _, job = await works.held(node)
    await works.tasks.complete(node, shown(job), AUDIO)
    await works.books.move_clock(10 * LEASE_MS)
    assert await works.tasks.has_lease(node, shown(job))
    assert not await works.tasks.complete(node, shown(job), AUDIO)


async def test_concurrent_completions_keep_one_audio(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node()
    call, job = await works.held(node, holder)
    audios = [AUDIO, DIFFERENT_AUDIO] * 10
    found = await asyncio.gather(
        *[works.tasks.complete(node, shown(job), audio) for audio in audios], return_exceptions=True
    )
    assert found.count(True) == 1
    first = audios[found.index(True)]
    for audio, outcome in zip(audios, found, strict=True):
        assert isinstance(outcome, bool if audio is first else StaleLease)
    assert (await works.books.task(call.call_id))[1] == first.name
    assert await works.books.counters(holder) == (1, 1, 1)


# ---- requests under a stale lease


async def beat(works: Works, node: int, held: LeaseProof) -> bool:
    return await works.beats(node, held)


async def complete(works: Works, node: int, held: LeaseProof) -> bool:
    try:
        return await works.tasks.complete(node, held, AUDIO)
    except StaleLease:
        return False


async def fail(works: Works, node: int, held: LeaseProof) -> bool:
    said = failure(Job(held.kind, held.id, held.epoch, held.token, 0, "", "", 1.0), final=True)
    try:
        await works.tasks.fail(node, said)
    except StaleLease:
        return False
    return True


async def upload(works: Works, node: int, held: LeaseProof) -> bool:
    return await works.tasks.has_lease(node, held)


Send = Callable[[Works, int, LeaseProof], Awaitable[bool]]
each_request = pytest.mark.parametrize("send", [beat, complete, fail, upload])


async def is_unchanged(works: Works, node: int) -> bool:
    """Whether the task is still leased to the node and its call is open."""
    rows = await works.books.sql(
        "SELECT t.status, t.node_id, c.state FROM tasks t JOIN calls c ON c.id = t.call_id"
    )
    return rows == [(1, node, 0)]


@each_request
async def test_a_wrong_epoch_is_stale(works: Works, send: Send) -> None:
    node = await works.node()
    _, job = await works.held(node)
    assert not await send(works, node, shown(job, epoch=job.epoch + 1))
    assert await is_unchanged(works, node)
    assert await send(works, node, shown(job))


@each_request
async def test_a_wrong_token_is_stale(works: Works, send: Send) -> None:
    node = await works.node()
    _, job = await works.held(node)
    assert not await send(works, node, shown(job, token="0" * 32))
    assert await is_unchanged(works, node)


@each_request
async def test_another_nodes_job_is_stale(works: Works, send: Send) -> None:
    node, other = await works.node(), await works.node()
    _, job = await works.held(node)
    assert not await send(works, other, shown(job))
    assert await is_unchanged(works, node)


@each_request
async def test_an_expired_lease_is_stale_before_the_sweep(works: Works, send: Send) -> None:
    node = await works.node()
    _, job = await works.held(node)
    await works.books.move_clock(LEASE_MS + 1)
    assert not await send(works, node, shown(job))
    assert await is_unchanged(works, node)


@each_request
async def test_a_requeued_job_is_stale(works: Works, send: Send) -> None:
    node = await works.node()
    call, job = await works.held(node)
    await works.books.move_clock(LEASE_MS + 1)
    assert await works.sweep_leases() == (1, 0)
    assert not await send(works, node, shown(job))
    assert await works.status(call) == 0


@each_request
async def test_a_job_leased_to_another_node_is_stale(works: Works, send: Send) -> None:
    node, other = await works.node(), await works.node()
    _, job = await works.held(node)
    await works.books.move_clock(LEASE_MS + 1)
    await works.sweep_leases()
    await works.leased(other)
    assert not await send(works, node, shown(job))
    assert await is_unchanged(works, other)


@each_request
async def test_an_earlier_lease_of_the_same_node_is_stale(works: Works, send: Send) -> None:
    node = await works.node()
    _, job = await works.held(node)
    await works.tasks.fail(node, failure(job))
    again = await works.leased(node)
    assert not await send(works, node, shown(job))
    assert not await send(works, node, shown(job, epoch=again.epoch))
    assert await send(works, node, shown(again))


@each_request
async def test_a_failed_task_is_stale(works: Works, send: Send) -> None:
    node, holder = await works.node(), await works.books.holder()
    call, job = await works.held(node, holder)
    await works.tasks.fail(node, failure(job, final=True))
    assert not await send(works, node, shown(job))
    assert await works.books.task(call.call_id) == FAILED
    assert await works.books.balance(holder) == 10


@pytest.mark.parametrize("send", [beat, fail])
async def test_a_completed_task_is_stale(works: Works, send: Send) -> None:
    node = await works.node()
    call, job = await works.held(node)
    await works.tasks.complete(node, shown(job), AUDIO)
    assert not await send(works, node, shown(job))
    assert await works.books.task(call.call_id) == COMPLETED


@each_request
async def test_an_unknown_job_is_stale(works: Works, send: Send) -> None:
    node = await works.node()
    for kind in ("task", "clone"):
        assert not await send(works, node, LeaseProof(kind, 12345, 1, "0" * 32))  # type: ignore[arg-type]


@each_request
async def test_a_task_of_the_service_itself_is_stale_for_nodes(works: Works, send: Send) -> None:
    node = await works.node()
    call = await works.begun(await works.books.holder())
    ((task_id,),) = await works.books.sql("SELECT id FROM tasks")
    assert await works.tasks.lease(node, 1, 0) == []
    assert not await send(works, node, LeaseProof("task", task_id, 0, ""))
    assert await works.sweep_leases() == (0, 0)
    assert await works.status(call) == 1
    assert await works.books.state(call.call_id) == CallState.OPEN


# ---- concurrency


@pytest.mark.parametrize("send", [complete, fail])
async def test_the_account_is_locked_before_the_job(postgres_works: Works, send: Send) -> None:
    """A refund locks the account, then the job. The other order would be a deadlock."""
    works = postgres_works
    node, holder = await works.node(), await works.books.holder()
    call, job = await works.held(node, holder)
    hand = await asyncpg.connect(works.books.url)
    async with hand.transaction():
        await hand.execute("SELECT 1 FROM accounts WHERE id = $1 FOR UPDATE", holder.account_id)
        saying = asyncio.ensure_future(send(works, node, shown(job)))

        async def waits() -> bool:
            return bool(
                await works.books.sql(
                    "SELECT 1 FROM pg_stat_activity"
                    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
                )
            )

        await until(waits, "the request waits for the lock of the account")
        free = await hand.fetch("SELECT id FROM tasks FOR UPDATE SKIP LOCKED")
    assert len(free) == 1
    assert await saying
    await hand.close()
    assert await works.status(call) in (2, 3)


async def test_a_concurrent_completion_and_refund_end_the_call_once(works: Works) -> None:
    node, holder = await works.node(), await works.books.holder(units=50)
    for _ in range(20):
        call, job = await works.held(node, holder)
        refund = works.desk.ledger.refund_all({call.call_id: "another process"})
        kept, refunded = await asyncio.gather(complete(works, node, shown(job)), refund)
        assert kept is not bool(refunded)
        assert await works.status(call) == (2 if kept else 3)
