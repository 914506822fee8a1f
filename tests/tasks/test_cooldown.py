"""The cooldown of a node after a failure, so that another node gets the next try."""

import pytest

from tests.store.books import AUDIO
from tests.store.fixtures import each_database
from tests.tasks.task_service import TaskService, failure, proof_of

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


async def cooldown_ms(service: TaskService, node_id: int) -> int:
    """The rest of the node's cooldown."""
    ((left,),) = await service.books.sql("SELECT rests_until - now_ms() FROM nodes WHERE id = $1", node_id)
    return int(left)
