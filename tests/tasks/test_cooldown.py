"""The cooldown of a node after a failure, so that another node gets the next try."""

import pytest

from myna.wire.farm import Heartbeat, Job
from tests.store.books import AUDIO
from tests.store.fixtures import each_database
from tests.tasks.task_service import LEASE_MS, TaskService, failure, proof_of

pytestmark = pytest.mark.anyio


async def test_after_a_failure_another_node_gets_the_next_try(service: TaskService) -> None:
    await service.books.stop_clock()
    failing, healthy = await service.node(), await service.node()
    call, job = await service.lease_new(failing)
    await service.tasks.fail(failing, failure(job))
    assert await service.tasks.lease(failing, 1, 0) == []
    (again,) = await service.tasks.lease(healthy, 1, 0)
    assert again.id == job.id
    assert await service.tasks.complete(healthy, proof_of(again), AUDIO)
    assert await service.status(call) == 2


@each_database
async def test_the_cooldown_doubles_with_each_failure_up_to_a_minute(service: TaskService) -> None:
    await service.books.stop_clock()
    node, customer = await service.node(), await service.books.customer(units=50)
    for seconds in (2, 4, 8, 16, 32, 60, 60):
        _, job = await service.lease_new(node, customer)
        await service.tasks.fail(node, failure(job))
        assert await cooldown_ms(service, node) == seconds * 1000


async def test_a_completion_resets_the_cooldown(service: TaskService) -> None:
    await service.books.stop_clock()
    node, customer = await service.node(), await service.books.customer()
    _, job = await service.lease_new(node, customer)
    await service.tasks.fail(node, failure(job))
    assert await service.tasks.complete(node, proof_of(await service.leased(node)), AUDIO)
    _, job = await service.lease_new(node, customer)
    await service.tasks.fail(node, failure(job))
    assert await cooldown_ms(service, node) == 2000


@each_database
async def test_leases_that_expire_together_are_one_failure_of_their_node(service: TaskService) -> None:
    await service.books.stop_clock()
    node, customer = await service.node(), await service.books.customer()
    for _ in range(3):
        await service.ordered(customer)
    assert len(await service.tasks.lease(node, 3, 0)) == 3
    await service.books.move_clock(LEASE_MS)
    assert await service.sweep_leases() == (3, 0)
    assert await cooldown_ms(service, node) == 2000
    await service.let_lease_expire(node)
    await service.sweep_leases()
    assert await cooldown_ms(service, node) == 4000


@each_database
async def test_a_job_whose_lease_expired_goes_to_another_node_first(service: TaskService) -> None:
    silent, other = await service.node(), await service.node(name="other")
    _, job = await service.lease_new(silent)
    await service.books.move_clock(LEASE_MS)
    await service.sweep_leases()
    await service.end_cooldown(silent)
    assert await service.tasks.lease(silent, 1, 0) == []
    assert (await service.leased(other)).id == job.id


async def test_a_job_whose_lease_expired_goes_to_its_node_again_if_no_other_can_do_it(
    service: TaskService,
) -> None:
    silent, slow = await service.node(), await service.node(chars_per_s=0.1)
    _, job = await service.lease_new(silent, deadline_ms=49_000)  # five characters take the slow one 50 s
    await service.books.move_clock(LEASE_MS)
    await service.sweep_leases()
    assert await service.tasks.lease(slow, 1, 0) == []
    assert (await service.leased(silent)).id == job.id


@each_database
@pytest.mark.parametrize("beats", [False, True])
async def test_beside_an_honest_node_no_task_fails_by_one_that_never_finishes(
    service: TaskService, beats: bool
) -> None:
    """It says one slot and asks for 64 jobs; it is silent, or tells of progress to 99 percent."""
    silent, honest = [await service.node(slots=1) for _ in range(2)]
    customer = await service.books.customer(units=60)
    calls = [await service.ordered(customer, deadline_ms=120_000) for _ in range(60)]
    claimed: list[Job] = []
    held: list[int] = []
    for _ in range(24):  # five seconds each
        claimed += await service.tasks.lease(silent, 64, 0)
        held.append((await service.nodes.list())[0].jobs)
        for _ in range(4):
            for job in await service.tasks.lease(honest, 1, 0):
                await service.tasks.complete(honest, proof_of(job), AUDIO)
        await service.books.move_clock(5000)
        if beats:
            await service.tasks.beat(silent, [Heartbeat(proof_of(job), 0.99) for job in claimed])
        await service.sweep_leases()
    assert [await service.status(call) for call in calls] == [2] * 60
    assert max(held) == 1


async def cooldown_ms(service: TaskService, node_id: int) -> int:
    """The rest of the node's cooldown."""
    ((left,),) = await service.books.sql("SELECT rests_until - now_ms() FROM nodes WHERE id = $1", node_id)
    return int(left)
