"""A deleted voice is deleted with all its files; its tasks are refunded in the same transaction."""

import asyncio

import pytest

from myna.errors import StaleLease
from myna.store.batch import CallState, ChargeRefused, NewTask, RefusalReason, TaskStatus
from myna.store.queries import config as config_store
from myna.store.queries.clones import VOICE_DELETED, Deleted
from tests.clones.conftest import CloneSetup
from tests.store.books import broken_refunds, charge_of
from tests.store.fixtures import each_database
from tests.tasks.task_service import proof_of

ROUNDS = 4


async def test_a_deleted_voice_leaves_no_row_no_sample_and_no_preview(clone_setup: CloneSetup) -> None:
    customer, node = await clone_setup.books.customer(), await clone_setup.node()
    kept, voice = await clone_setup.ready(customer, node), await clone_setup.ready(customer, node)
    assert voice.preview in clone_setup.files()

    deleted = await clone_setup.delete(voice.voice_id)

    assert deleted == Deleted(customer.account_id, voice.sample, voice.preview, 0)
    assert await clone_setup.find(voice.voice_id) is None
    assert clone_setup.files() == sorted([kept.sample, kept.preview])


async def test_deleting_a_voice_makes_earlier_decisions_stale(clone_setup: CloneSetup) -> None:
    books, node = clone_setup.books, await clone_setup.node()
    customer = await books.customer()
    voice = await clone_setup.ready(customer, node)
    seen = (await config_store.load(books.db)).version
    await clone_setup.delete(voice.voice_id)
    task = NewTask(text="你好", voice_id=voice.voice_id, speed=1.0, status=TaskStatus.QUEUED)
    assert await books.charge(charge_of(customer, task=task, config_version=seen)) == [
        ChargeRefused(RefusalReason.STALE)
    ]


@each_database
async def test_tasks_that_wait_for_a_deleted_voice_fail_and_are_refunded(clone_setup: CloneSetup) -> None:
    books, node = clone_setup.books, await clone_setup.node()
    customer = await books.customer(units=10)
    voice, another = await clone_setup.ready(customer, node), await clone_setup.ready(customer, node)
    done = await clone_setup.ordered(customer, voice.voice_id)
    await clone_setup.complete(node, await clone_setup.leased(node))
    leased = await clone_setup.ordered(customer, voice.voice_id)
    job = await clone_setup.leased(node)
    queued = await clone_setup.ordered(customer, voice.voice_id)
    in_another = await clone_setup.ordered(customer, another.voice_id)
    assert await books.balance(customer) == 6

    deleted = await clone_setup.delete(voice.voice_id)

    assert deleted.refunded == 2
    assert await books.balance(customer) == 8
    for call in (leased, queued):
        assert await books.state(call.call_id) == CallState.REFUNDED
        status, *_, reason = await books.task(call.call_id)
        assert (status, reason) == (TaskStatus.FAILED, VOICE_DELETED)
    assert (await books.task(done.call_id))[0] == TaskStatus.COMPLETED
    assert (await books.task(in_another.call_id))[0] == TaskStatus.QUEUED
    with pytest.raises(StaleLease):
        await clone_setup.complete(node, job)
    assert await clone_setup.leased(node)  # the one in the other voice


async def test_deleting_a_voice_leaves_tasks_of_the_service_itself(clone_setup: CloneSetup) -> None:
    customer = await clone_setup.books.customer(units=10)
    voice_id = await clone_setup.queued(customer)
    call = await clone_setup.ordered(customer, voice_id, TaskStatus.PROCESSING)
    assert (await clone_setup.delete(voice_id)).refunded == 0
    assert await clone_setup.books.state(call.call_id) == CallState.OPEN


async def test_a_failed_refund_rolls_back_the_deletion(clone_setup: CloneSetup) -> None:
    books, customer = clone_setup.books, await clone_setup.books.customer()
    voice_id = await clone_setup.queued(customer)
    call = await clone_setup.ordered(customer, voice_id)
    async with broken_refunds(books):
        with pytest.raises(Exception, match="refunds are out of order"):
            await clone_setup.delete(voice_id)
        voice = await clone_setup.find(voice_id)
        assert voice is not None
        assert clone_setup.files() == [voice.sample]
        assert (await books.task(call.call_id))[0] == TaskStatus.QUEUED
    assert (await clone_setup.delete(voice_id)).refunded == 1


async def test_deleting_a_voice_ends_the_lease_of_the_node_that_clones_it(clone_setup: CloneSetup) -> None:
    node = await clone_setup.node()
    voice_id = await clone_setup.queued(await clone_setup.books.customer())
    job = await clone_setup.leased(node)
    assert job.reference is not None
    sample = bytes.fromhex(job.reference.sha256)
    assert await clone_setup.tasks.reference(node, sample) is not None

    await clone_setup.delete(voice_id)

    assert await clone_setup.tasks.reference(node, sample) is None
    assert await clone_setup.tasks.unused_samples([job.reference.sha256]) == [job.reference.sha256]
    assert not await clone_setup.tasks.has_lease(node, proof_of(job))
    with pytest.raises(StaleLease):
        await clone_setup.complete(node, job)
    assert clone_setup.files() == []


@each_database
async def test_deleting_while_a_node_completes_the_voice_leaves_nothing(clone_setup: CloneSetup) -> None:
    node, customer = await clone_setup.node(), await clone_setup.books.customer()
    for _ in range(ROUNDS):
        voice_id = await clone_setup.queued(customer)
        job = await clone_setup.leased(node)

        completed, deleted = await asyncio.gather(
            clone_setup.complete(node, job), clone_setup.delete(voice_id), return_exceptions=True
        )

        assert isinstance(deleted, Deleted)
        assert isinstance(completed, StaleLease) or deleted.preview == completed
        assert await clone_setup.find(voice_id) is None
        assert clone_setup.files() == []


@each_database
async def test_deleting_while_tasks_end_refunds_or_keeps_each(clone_setup: CloneSetup) -> None:
    books, node = clone_setup.books, await clone_setup.node()
    for _ in range(ROUNDS):
        customer = await books.customer(units=10)
        voice = await clone_setup.ready(customer, node)
        calls = [await clone_setup.ordered(customer, voice.voice_id) for _ in range(4)]
        jobs = [await clone_setup.leased(node) for _ in range(3)]

        *completed, deleted = await asyncio.gather(
            *(clone_setup.complete(node, job) for job in jobs),
            clone_setup.delete(voice.voice_id),
            return_exceptions=True,
        )

        assert isinstance(deleted, Deleted)
        delivered = sum(isinstance(name, str) for name in completed)
        assert all(isinstance(result, str | StaleLease) for result in completed)
        assert deleted.refunded == 4 - delivered
        assert await books.balance(customer) == 10 - delivered
        states = [await books.state(call.call_id) for call in calls]
        assert states.count(CallState.REFUNDED) == deleted.refunded
        assert await books.audit() == []


@each_database
async def test_only_one_of_two_concurrent_deletions_succeeds(clone_setup: CloneSetup) -> None:
    customer = await clone_setup.books.customer()
    voice_id = await clone_setup.queued(customer)
    await clone_setup.ordered(customer, voice_id)
    results = await asyncio.gather(*(clone_setup.delete(voice_id) for _ in range(3)), return_exceptions=True)
    assert sorted(type(result).__name__ for result in results) == ["CommandError", "CommandError", "Deleted"]
    assert await clone_setup.books.balance(customer) == 10
