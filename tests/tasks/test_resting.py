"""The cooldown of a node after a failure, so that another node gets the next try."""

import pytest

from tests.store.books import AUDIO
from tests.tasks.works import Works, failure, shown

pytestmark = pytest.mark.anyio


async def test_after_a_failure_another_node_gets_the_next_try(works: Works) -> None:
    await works.books.stop_clock()
    sick, well = await works.node(), await works.node()
    call, job = await works.held(sick)
    await works.tasks.fail(sick, failure(job))
    assert await works.tasks.lease(sick, 1, 0) == []
    (again,) = await works.tasks.lease(well, 1, 0)
    assert again.id == job.id
    assert await works.tasks.complete(well, shown(again), AUDIO)
    assert await works.status(call) == 2


async def test_a_node_gets_the_job_again_after_its_cooldown(works: Works) -> None:
    await works.books.stop_clock()
    node = await works.node()
    _, job = await works.held(node)
    await works.tasks.fail(node, failure(job))
    await works.books.move_clock(1_999)
    assert await works.tasks.lease(node, 1, 0) == []
    await works.books.move_clock(1)
    assert [again.id for again in await works.tasks.lease(node, 1, 0)] == [job.id]


async def test_the_cooldown_doubles_with_each_failure_up_to_a_minute(works: Works) -> None:
    await works.books.stop_clock()
    node, holder = await works.node(), await works.books.holder(units=50)
    for seconds in (2, 4, 8, 16, 32, 60, 60):
        _, job = await works.held(node, holder)
        await works.tasks.fail(node, failure(job))
        assert await cooldown_ms(works, node) == seconds * 1000


async def test_a_completion_resets_the_cooldown(works: Works) -> None:
    await works.books.stop_clock()
    node, holder = await works.node(), await works.books.holder()
    _, job = await works.held(node, holder)
    await works.tasks.fail(node, failure(job))
    assert await works.tasks.complete(node, shown(await works.leased(node)), AUDIO)
    _, job = await works.held(node, holder)
    await works.tasks.fail(node, failure(job))
    assert await cooldown_ms(works, node) == 2000


async def test_returning_a_job_is_a_cooldown_of_a_second_and_no_failure(works: Works) -> None:
    await works.books.stop_clock()
    node = await works.node()
    _, job = await works.held(node)
    for _ in range(3):
        await works.tasks.fail(node, failure(job, handed_back=True))
        assert await cooldown_ms(works, node) == 1000
        job = await works.leased(node)


async def test_a_final_failure_is_no_cooldown(works: Works) -> None:
    node, holder = await works.node(), await works.books.holder()
    _, job = await works.held(node, holder)
    await works.tasks.fail(node, failure(job, final=True))
    await works.ordered(holder)
    assert await works.tasks.lease(node, 1, 0)


async def cooldown_ms(works: Works, node_id: int) -> int:
    """The rest of the node's cooldown."""
    ((left,),) = await works.books.sql("SELECT rests_until - now_ms() FROM nodes WHERE id = $1", node_id)
    return int(left)
