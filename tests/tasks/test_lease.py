"""Leases: which job a node gets, and that no other node gets it."""

import asyncio
import hashlib

import asyncpg

from myna.actions.site import DisableNode, DrainNode
from myna.store.queries.farm import queue
from myna.store.queries.farm.able import TASK
from myna.store.queries.farm.queue import NextJob
from myna.wire.farm import Heartbeat, Job
from tests.rig.actors import perform
from tests.store.books import AUDIO, Books
from tests.store.fixtures import each_database
from tests.tasks.task_service import LEASE_MS, LEASE_S, TEXT, VOICE, TaskService, proof_of, task_service_on


@each_database
async def test_a_lease_returns_all_fields_of_the_job(service: TaskService) -> None:
    node = await service.node()
    call = await service.ordered(await service.books.customer())

    job = await service.leased(node)

    ((task_id,),) = await service.books.sql("SELECT id FROM tasks WHERE call_id = $1", call.call_id)
    of_task = {"text": TEXT, "voice_id": VOICE, "speed": 1.5, "reference": None}
    assert job == Job(kind="task", id=task_id, epoch=1, token=job.token, lease_s=LEASE_S, **of_task)
    assert (await service.status(call), await service.tries(call)) == (1, 1)
    assert (await service.lease_of(call))[::2] == (node, 32)


@each_database
async def test_a_lease_is_not_reported_longer_than_it_is(service: TaskService) -> None:
    node = await service.node()
    await service.ordered(await service.books.customer())
    await service.books.tick_clock()
    assert LEASE_S - 0.1 < (await service.leased(node)).lease_s <= LEASE_S
    await service.books.stop_clock()


async def test_a_job_that_became_overdue_after_selection_is_not_leased(service: TaskService) -> None:
    node = await service.node()
    call = await service.ordered(await service.books.customer(), deadline_ms=1000)
    (head,) = await queue.next_jobs(service.books.db, node, 1)
    await service.books.move_clock(1000)
    take = service.books.db.transaction(lambda db: queue.lease(db, head, node, b"t" * 32, LEASE_MS))
    assert await take is None
    assert (await service.status(call), await service.tries(call)) == (0, 0)


async def test_only_the_hash_of_a_lease_token_is_stored(service: TaskService) -> None:
    _, job = await service.lease_new(await service.node())
    assert await service.books.sql("SELECT token_hash FROM tasks") == [
        (hashlib.sha256(job.token.encode()).digest(),)
    ]


@each_database
async def test_a_job_leased_after_selection_is_not_leased_again(service: TaskService) -> None:
    node = await service.node()
    _, job = await service.lease_new(node)
    ((account_id,),) = await service.books.sql("SELECT account_id FROM tasks")
    seen = NextJob(TASK, job.id, account_id)
    assert await service.books.db.transaction(lambda db: queue.lease(db, seen, node, b"t" * 32, 1000)) is None
    assert await service.beats(node, proof_of(job))


@each_database
async def test_a_hundred_concurrent_leases_lease_one_job_once(service: TaskService) -> None:
    call = await service.ordered(await service.books.customer())
    nodes = [await service.node() for _ in range(10)]
    async with service.books.second_process() as other, task_service_on(service.books, other) as second:
        asking = [at.tasks.lease(node, 1, 0) for node in nodes for at in (service, second) for _ in range(5)]
        found = await asyncio.gather(*asking)
    assert [len(jobs) for jobs in found].count(1) == 1
    assert sum(map(len, found)) == 1
    assert await service.tries(call) == 1


@each_database
async def test_concurrent_leases_lease_as_many_jobs(service: TaskService) -> None:
    customers = [await service.books.customer() for _ in range(5)]
    for customer in customers:
        for _ in range(6):
            await service.ordered(customer)
    node = await service.node()
    found = await asyncio.gather(*[service.tasks.lease(node, 1, 0) for _ in range(30)])
    assert len({job.id for (job,) in found}) == 30


@each_database
async def test_leases_are_round_robin_over_accounts(service: TaskService) -> None:
    node, customers = await service.node(), [await service.books.customer(units=20) for _ in range(3)]
    for customer, count in zip(customers, (9, 3, 3), strict=True):
        for _ in range(count):
            await service.ordered(customer, text=customer.name)
    turns = [(await service.leased(node)).text for _ in range(15)]
    names = [customer.name for customer in customers]
    assert turns == [*names * 3, *[names[0]] * 6]


async def test_a_draining_node_completes_its_job_and_leases_nothing(service: TaskService) -> None:
    node, customer = await service.node(name="the node"), await service.books.customer()
    call, job = await service.lease_new(node, customer)
    await service.ordered(customer)
    await perform(service.nodes.db, DrainNode(name="the node"))
    assert await service.tasks.lease(node, 1, 0) == []
    assert await service.beats(node, proof_of(job))
    assert await service.tasks.complete(node, proof_of(job), AUDIO)
    assert await service.status(call) == 2


@each_database
async def test_jobs_of_a_disabled_node_are_requeued_without_using_a_try(service: TaskService) -> None:
    node = await service.node(name="the node")
    call, job = await service.lease_new(node)
    await perform(service.nodes.db, DisableNode(name="the node"))
    assert (await service.status(call), await service.tries(call)) == (0, 0)
    assert not await service.beats(node, proof_of(job))
    assert (await service.leased(await service.node())).id == job.id


@each_database
async def test_a_node_has_as_many_leases_as_slots(service: TaskService) -> None:
    node, customer = await service.node(clones=["zh"], slots=2), await service.books.customer()
    for _ in range(3):
        await service.clone(customer)
    first, _ = await service.tasks.lease(node, 3, 0)
    assert await service.tasks.lease(node, 1, 0) == []
    await service.tasks.complete(node, proof_of(first), AUDIO)
    assert len(await service.tasks.lease(node, 3, 0)) == 1


@each_database
async def test_heartbeats_extend_a_lease_to_half_of_the_time_to_the_deadline(service: TaskService) -> None:
    await service.books.stop_clock()
    node = await service.node()
    _, job = await service.lease_new(node, deadline_ms=4 * LEASE_MS)
    for _ in range(4):
        assert await service.beats(node, proof_of(job), 0.99)
        await service.books.move_clock(LEASE_MS // 2)
    assert not await service.beats(node, proof_of(job), 0.99)
    assert await service.sweep_leases() == (1, 0)


async def test_a_slow_node_keeps_its_lease_for_twice_the_time_it_needs(service: TaskService) -> None:
    await service.books.stop_clock()
    node = await service.node(chars_per_s=len(TEXT) / 40)
    _, job = await service.lease_new(node, deadline_ms=4 * LEASE_MS)
    for _ in range(5):
        assert await service.beats(node, proof_of(job))
        await service.books.move_clock(15_000)
    assert await service.beats(node, proof_of(job))
    assert await service.books.sql("SELECT lease_until - leased_at FROM tasks") == [(80_000,)]


async def test_heartbeats_extend_the_lease_of_a_clone_for_a_quarter_of_an_hour(service: TaskService) -> None:
    node = await service.node(clones=["zh"])
    await service.clone(await service.books.customer())
    job = await service.leased(node)
    beats = 0
    while await service.beats(node, proof_of(job)):
        await service.books.move_clock(LEASE_MS // 2)
        beats += 1
    assert beats == 60


@each_database
async def test_unchanged_heartbeats_write_nothing(service: TaskService, transactions: list[object]) -> None:
    await service.books.stop_clock()
    node = await service.node()
    _, job = await service.lease_new(node)
    _, other = await service.lease_new(node)
    await service.tasks.complete(node, proof_of(other), AUDIO)
    transactions.clear()
    for progress in (0.5, 0.5, 0.1, 0.5):
        lost = await service.tasks.beat(
            node, [Heartbeat(proof_of(job), progress), Heartbeat(proof_of(other))]
        )
        assert lost == [proof_of(other)]
    assert len(transactions) == 1
    await service.books.move_clock(LEASE_MS // 30)
    transactions.clear()
    assert await service.beats(node, proof_of(job))
    assert len(transactions) == 1
    assert await service.books.sql("SELECT progress FROM tasks WHERE status = 1") == [(50,)]


@each_database
async def test_a_lease_never_outlasts_the_deadline(service: TaskService) -> None:
    node = await service.node()
    await service.books.sql("UPDATE nodes SET chars_per_s = $1", len(TEXT) / LEASE_S * 2.5)
    _, job = await service.lease_new(node, deadline_ms=LEASE_MS // 2)
    assert 10 < job.lease_s <= LEASE_S / 2
    await service.books.move_clock(LEASE_MS // 4)
    assert await service.beats(node, proof_of(job))
    assert await service.books.sql("SELECT lease_until - deadline FROM tasks") == [(0,)]


async def test_a_locked_job_is_skipped_without_waiting(postgres_service: TaskService) -> None:
    service = postgres_service
    node, customers = await service.node(), [await service.books.customer() for _ in range(2)]
    for customer in customers:
        await service.ordered(customer, text=customer.name)
    connection = await asyncpg.connect(service.books.url)
    async with connection.transaction():
        await connection.execute("SELECT id FROM tasks ORDER BY id LIMIT 1 FOR UPDATE")
        (job,) = await asyncio.wait_for(service.tasks.lease(node, 2, 0), 5)
    await connection.close()
    assert job.text == customers[1].name


# ---- voices of accounts


@each_database
async def test_a_sample_is_served_only_under_a_lease_that_needs_it(service: TaskService) -> None:
    await service.books.stop_clock()
    customer, node, other = (
        await service.books.customer(),
        await service.node(clones=["zh"]),
        await service.node(),
    )
    sample = b"z" * 32
    voice_id = await service.clone(customer, "zh", sample)
    assert await service.tasks.reference(node, sample) is None
    job = await service.leased(node)
    assert await service.tasks.reference(node, sample) == f"{voice_id}.wav"
    assert await service.tasks.reference(node, b"y" * 32) is None
    assert await service.tasks.reference(other, sample) is None
    await service.tasks.complete(node, proof_of(job), AUDIO)
    assert await service.tasks.reference(node, sample) is None

    await service.ordered(customer, voice_id)
    await service.leased(node)
    assert await service.tasks.reference(node, sample) == f"{voice_id}.wav"
    await service.books.move_clock(LEASE_MS)
    assert await service.tasks.reference(node, sample) is None


@each_database
async def test_unused_samples_are_named_for_deletion(service: TaskService, books: Books) -> None:
    await service.clone(await books.customer(), sample=b"z" * 32)
    known, unknown = (b"z" * 32).hex(), (b"y" * 32).hex()
    assert await service.tasks.unused_samples([known, unknown]) == [unknown]
