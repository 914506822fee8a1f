"""A deleted voice is deleted with all its files; its tasks are refunded in the same transaction."""

import asyncio

import pytest

from myna.errors import CommandError, StaleLease
from myna.store.batch import CallState, ChargeRefused, NewTask, RefusalReason, TaskStatus
from myna.store.queries import config as site
from myna.store.queries.clones import VOICE_DELETED, Deleted
from tests.clones.workshop import Workshop, held_of
from tests.store.books import break_refunds, charge_of, mend_refunds

pytestmark = pytest.mark.anyio

ROUNDS = 10


async def test_a_deleted_voice_leaves_no_row_no_sample_and_no_preview(workshop: Workshop) -> None:
    holder, node = await workshop.books.holder(), await workshop.node()
    kept, voice = await workshop.ready(holder, node), await workshop.ready(holder, node)
    assert voice.preview in workshop.files()

    deleted = await workshop.delete(voice.voice_id)

    assert deleted == Deleted(voice.sample, voice.preview, 0)
    assert await workshop.find(voice.voice_id) is None
    assert workshop.files() == sorted([kept.sample, kept.preview])


async def test_deleting_a_voice_makes_earlier_decisions_stale(
    workshop: Workshop,
) -> None:
    books, node = workshop.books, await workshop.node()
    holder = await books.holder()
    voice = await workshop.ready(holder, node)
    seen = (await site.load(books.db)).version
    await workshop.delete(voice.voice_id)
    task = NewTask("你好", voice.voice_id, 1.0, TaskStatus.QUEUED)
    assert await books.charge(charge_of(holder, task=task, config_version=seen)) == [
        ChargeRefused(RefusalReason.STALE)
    ]


async def test_deleting_an_unknown_voice_is_refused(workshop: Workshop) -> None:
    voice_id = await workshop.queued(await workshop.books.holder())
    await workshop.delete(voice_id)
    for unknown in (voice_id, "zh-female-1"):
        with pytest.raises(CommandError, match="There is no cloned voice"):
            await workshop.delete(unknown)


async def test_tasks_that_wait_for_a_deleted_voice_fail_and_are_refunded(workshop: Workshop) -> None:
    books, node = workshop.books, await workshop.node()
    holder = await books.holder(units=10)
    voice, another = await workshop.ready(holder, node), await workshop.ready(holder, node)
    done = await workshop.ordered(holder, voice.voice_id)
    await workshop.complete(node, await workshop.leased(node))
    held = await workshop.ordered(holder, voice.voice_id)
    job = await workshop.leased(node)
    queued = await workshop.ordered(holder, voice.voice_id)
    in_another = await workshop.ordered(holder, another.voice_id)
    assert await books.balance(holder) == 6

    deleted = await workshop.delete(voice.voice_id)

    assert deleted.refunded == 2
    assert await books.balance(holder) == 8
    for call in (held, queued):
        assert await books.state(call.call_id) == CallState.REFUNDED
        status, *_, reason = await books.task(call.call_id)
        assert (status, reason) == (TaskStatus.FAILED, VOICE_DELETED)
    assert (await books.task(done.call_id))[0] == TaskStatus.COMPLETED
    assert (await books.task(in_another.call_id))[0] == TaskStatus.QUEUED
    with pytest.raises(StaleLease):
        await workshop.complete(node, job)
    assert await workshop.leased(node)  # the one in the other voice


async def test_deleting_a_voice_leaves_tasks_of_the_service_itself(workshop: Workshop) -> None:
    holder = await workshop.books.holder(units=10)
    voice_id = await workshop.queued(holder)
    call = await workshop.ordered(holder, voice_id, TaskStatus.PROCESSING)
    assert (await workshop.delete(voice_id)).refunded == 0
    assert await workshop.books.state(call.call_id) == CallState.OPEN


async def test_a_failed_refund_rolls_back_the_deletion(workshop: Workshop) -> None:
    books, holder = workshop.books, await workshop.books.holder()
    voice_id = await workshop.queued(holder)
    call = await workshop.ordered(holder, voice_id)
    await break_refunds(books)
    with pytest.raises(Exception, match="refunds are out of order"):
        await workshop.delete(voice_id)
    voice = await workshop.find(voice_id)
    assert voice is not None
    assert workshop.files() == [voice.sample]
    assert (await books.task(call.call_id))[0] == TaskStatus.QUEUED
    await mend_refunds(books)
    assert (await workshop.delete(voice_id)).refunded == 1


async def test_deleting_a_voice_ends_the_lease_of_the_node_that_clones_it(workshop: Workshop) -> None:
    node = await workshop.node()
    voice_id = await workshop.queued(await workshop.books.holder())
    job = await workshop.leased(node)
    assert job.reference is not None
    sample = bytes.fromhex(job.reference.sha256)
    assert await workshop.tasks.reference(node, sample) is not None

    await workshop.delete(voice_id)

    assert await workshop.tasks.reference(node, sample) is None
    assert await workshop.tasks.unused_samples([job.reference.sha256]) == [job.reference.sha256]
    assert not await workshop.tasks.has_lease(node, held_of(job))
    with pytest.raises(StaleLease):
        await workshop.complete(node, job)
    assert workshop.files() == []


async def test_deleting_while_a_node_completes_the_voice_leaves_nothing(workshop: Workshop) -> None:
    node, holder = await workshop.node(), await workshop.books.holder()
    for _ in range(ROUNDS):
        voice_id = await workshop.queued(holder)
        job = await workshop.leased(node)

        completed, deleted = await asyncio.gather(
            workshop.complete(node, job), workshop.delete(voice_id), return_exceptions=True
        )

        assert isinstance(deleted, Deleted)
        assert isinstance(completed, StaleLease) or deleted.preview == completed
        assert await workshop.find(voice_id) is None
        assert workshop.files() == []


async def test_deleting_while_tasks_end_refunds_or_keeps_each(workshop: Workshop) -> None:
    books, node = workshop.books, await workshop.node()
    for _ in range(ROUNDS):
        holder = await books.holder(units=10)
        voice = await workshop.ready(holder, node)
        calls = [await workshop.ordered(holder, voice.voice_id) for _ in range(4)]
        jobs = [await workshop.leased(node) for _ in range(3)]

        *completed, deleted = await asyncio.gather(
            *(workshop.complete(node, job) for job in jobs),
            workshop.delete(voice.voice_id),
            return_exceptions=True,
        )

        assert isinstance(deleted, Deleted)
        delivered = sum(isinstance(name, str) for name in completed)
        assert all(isinstance(result, str | StaleLease) for result in completed)
        assert deleted.refunded == 4 - delivered
        assert await books.balance(holder) == 10 - delivered
        states = [await books.state(call.call_id) for call in calls]
        assert states.count(CallState.REFUNDED) == deleted.refunded
        assert await books.audit() == []


async def test_only_one_of_two_concurrent_deletions_succeeds(workshop: Workshop) -> None:
    holder = await workshop.books.holder()
    voice_id = await workshop.queued(holder)
    await workshop.ordered(holder, voice_id)
    results = await asyncio.gather(*(workshop.delete(voice_id) for _ in range(3)), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["CommandError", "CommandError", "Deleted"]
    assert await workshop.books.balance(holder) == 10
