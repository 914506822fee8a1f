"""Tasks over time: leases expire, tries are exhausted, deadlines pass, processes restart."""

import asyncio

import pytest

from myna.errors import StaleLease
from myna.farm.tasks import TRIES_EXHAUSTED
from myna.store.batch import CallState
from myna.wire.farm import TRIES_MAX
from tests.ledger.ledger_service import ledger_service_on
from tests.store.books import AUDIO, idempotency_key_of
from tests.store.fixtures import each_database
from tests.tasks.task_service import LEASE_MS, TaskService, failure, proof_of, task_service_on


@each_database
async def test_a_task_whose_tries_are_exhausted_is_refunded(service: TaskService) -> None:
    customer, node = await service.books.customer(), await service.node()
    call = await service.ordered(customer, idempotency_key=idempotency_key_of())
    for _ in range(TRIES_MAX - 1):
        await service.let_lease_expire(node)
        assert await service.sweep_leases() == (1, 0)
    job = await service.leased(node)
    await service.books.move_clock(LEASE_MS + 1)

    assert await service.sweep_leases() == (0, 1)

    assert await service.books.task(call.call_id) == (3, "", 0, b"", TRIES_EXHAUSTED)
    assert await service.books.balance(customer) == 10
    assert await service.books.answer(call.call_id) == []
    assert await service.sweep_leases() == (0, 0)
    with pytest.raises(StaleLease):
        await service.tasks.complete(node, proof_of(job), AUDIO)


@each_database
async def test_a_lease_ends_with_its_last_millisecond(service: TaskService) -> None:
    await service.books.stop_clock()
    customer, node = await service.books.customer(), await service.node()
    await service.ordered(customer)
    for refunded in (False,) * (TRIES_MAX - 1) + (True,):
        job = await service.leased(node)
        await service.books.move_clock(LEASE_MS - 1)
        assert await service.beats(node, proof_of(job))
        await service.books.move_clock(LEASE_MS - 1)
        assert await service.sweep_leases() == (0, 0)
        await service.books.move_clock(1)
        assert not await service.beats(node, proof_of(job))
        assert await service.sweep_leases() == ((0, 1) if refunded else (1, 0))


async def test_a_task_in_its_last_try_can_be_completed(service: TaskService) -> None:
    node = await service.node()
    call = await service.ordered(await service.books.customer())
    for _ in range(TRIES_MAX - 1):
        await service.let_lease_expire(node)
        await service.sweep_leases()
    job = await service.leased(node)
    assert await service.sweep_leases() == (0, 0)
    assert await service.tasks.complete(node, proof_of(job), AUDIO)
    assert await service.status(call) == 2


@each_database
async def test_concurrent_sweeps_requeue_each_expired_lease_once(service: TaskService) -> None:
    node, customer = await service.node(), await service.books.customer(units=50)
    exhausted = await service.ordered(customer)
    for _ in range(TRIES_MAX - 1):
        await service.tasks.fail(node, failure(await service.leased(node)))
    await service.end_cooldown(node)
    for _ in range(10):
        await service.ordered(customer)
    await service.tasks.lease(node, 11, 0)
    await service.books.move_clock(LEASE_MS + 1)
    async with service.books.second_process() as other, task_service_on(service.books, other) as second:
        sweeps = await asyncio.gather(*[at.sweep_leases() for at in (service, second, service, second)])
    assert sum(requeued for requeued, _ in sweeps) == 10
    assert await service.status(exhausted) == 3
    assert await service.books.balance(customer) == 40


@each_database
async def test_a_restart_refunds_no_task_of_a_node(service: TaskService) -> None:
    customer, node = await service.books.customer(), await service.node()
    leased, job = await service.lease_new(node, customer)
    queued = await service.ordered(customer)
    local = [
        await service.started_here(customer),
        await service.books.opened(customer, config_version=await version(service)),
    ]
    async with ledger_service_on(service.books.db) as another:
        assert await another.ledger.recover() == 2
        assert await another.ledger.recover() == 0
    assert [await service.books.state(call.call_id) for call in local] == [CallState.REFUNDED] * 2
    assert [await service.status(call) for call in (leased, queued)] == [1, 0]
    assert await service.tasks.complete(node, proof_of(job), AUDIO)


async def version(service: TaskService) -> int:
    ((number,),) = await service.books.sql("SELECT version FROM site")
    return int(number)


# ---- speech that the service began and nodes take over


async def test_speech_taken_over_by_nodes_is_queued(service: TaskService) -> None:
    customer, node = await service.books.customer(), await service.node()
    call = await service.started_here(customer, deadline_ms=5000)
    assert await service.tasks.lease(node, 1, 0) == []

    assert await service.tasks.queue_for_nodes(customer.account_id, call.call_id, 120.0, None)

    assert await service.status(call) == 0
    await service.books.move_clock(5001)  # past the call's first deadline
    assert await service.ledger.sweep() == 0
    assert await service.tasks.complete(node, proof_of(await service.leased(node)), AUDIO)
    assert await service.books.counters(customer) == (1, 1, 1)


@each_database
async def test_a_task_taken_over_by_nodes_has_a_new_deadline(service: TaskService) -> None:
    customer = await service.books.customer()
    call = await service.started_here(customer)
    await service.tasks.queue_for_nodes(customer.account_id, call.call_id, 120.0, None)
    assert await service.books.sql(
        "SELECT t.deadline - c.deadline FROM tasks t JOIN calls c ON c.id = t.call_id"
    ) == [(0,)]
    await service.books.move_clock(121_000)
    assert await service.ledger.sweep() == 1
    assert await service.books.balance(customer) == 10


@pytest.mark.parametrize(
    "draft, stored", [("{\x02}", True), ("{\x02 \x01}", False)], ids=["id", "id and audio"]
)
async def test_tasks_taken_over_store_their_response(service: TaskService, draft: str, stored: bool) -> None:
    customer, node = await service.books.customer(), await service.node()
    call = await service.started_here(customer, idempotency_key=idempotency_key_of())
    await service.tasks.queue_for_nodes(customer.account_id, call.call_id, 120.0, draft)
    job = await service.leased(node)
    whole = draft.replace("\x02", str(job.id)).replace("\x01", AUDIO.name)
    assert await service.books.answer(call.call_id) == [(whole if stored else None,)]
    await service.tasks.complete(node, proof_of(job), AUDIO)
    assert await service.books.answer(call.call_id) == [(whole,)]


# ---- voices of accounts


@pytest.mark.parametrize("change", [{"epoch": 7}, {"token": "0" * 32}])
async def test_a_voice_is_completed_only_under_its_lease(
    service: TaskService, change: dict[str, object]
) -> None:
    node, voice_id = await service.node(clones=["zh"]), await service.clone(await service.books.customer())
    job = await service.leased(node)
    for caller, proof in (
        (node, proof_of(job, **change)),
        (await service.node(clones=["zh"]), proof_of(job)),
    ):
        with pytest.raises(StaleLease):
            await service.tasks.complete(caller, proof, AUDIO)
    await service.books.move_clock(LEASE_MS + 1)
    with pytest.raises(StaleLease):
        await service.tasks.complete(node, proof_of(job), AUDIO)
    assert (await service.clone_row(voice_id))[0] == 1
