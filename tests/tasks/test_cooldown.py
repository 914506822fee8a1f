"""Failures of nodes: final ones, and the cooldown of a node."""

import asyncio

import pytest

from myna.actions.site import DisableNode, DrainNode
from myna.farm.tasks import REFUSED_CLONE_WAIT_MS
from myna.store.queries.farm import able
from myna.wire.farm import Job
from tests.rig.actors import perform
from tests.store.books import AUDIO
from tests.store.fixtures import each_database
from tests.tasks.task_service import LEASE_MS, VOICE, TaskService, failure, proof_of


@each_database
async def test_the_cooldown_doubles_with_each_failure_up_to_a_minute(service: TaskService) -> None:
    await service.books.stop_clock()
    node, customer = await service.node(), await service.books.customer(units=50)
    for seconds in (2, 4, 8, 16, 32, 60, 60):
        _, job = await service.lease_new(node, customer)
        await service.tasks.fail(node, failure(job))
        assert await cooldown_ms(service, node) == seconds * 1000


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


async def test_a_job_whose_lease_expired_returns_to_its_node_if_no_other_can(service: TaskService) -> None:
    silent, slow = await service.node(), await service.node(chars_per_s=0.1)
    _, job = await service.lease_new(silent, deadline_ms=49_000)  # five characters take the slow one 50 s
    await service.books.move_clock(LEASE_MS)
    await service.sweep_leases()
    assert await service.tasks.lease(slow, 1, 0) == []
    assert (await service.leased(silent)).id == job.id


async def cooldown_ms(service: TaskService, node_id: int) -> int:
    """The rest of the node's cooldown."""
    ((left,),) = await service.books.sql("SELECT rests_until - now_ms() FROM nodes WHERE id = $1", node_id)
    return int(left)


ONLINE_MS = 40_000


async def refuse(service: TaskService, node: int) -> Job:
    """The node leases its next job and reports a final failure."""
    job = await service.leased(node)
    await service.tasks.fail(node, failure(job, final=True))
    return job


async def failures(service: TaskService, *nodes: int) -> list[int]:
    found = dict(await service.books.sql("SELECT id, failures FROM nodes"))
    return [found[node] for node in nodes]


@each_database
async def test_a_task_refused_by_all_nodes_is_refunded(service: TaskService) -> None:
    customer, nodes = await service.books.customer(), [await service.node() for _ in range(2)]
    call = await service.ordered(customer)
    for node in nodes:
        assert await service.status(call) == 0
        await refuse(service, node)
    assert await service.status(call) == 3
    assert await service.books.entries(call.call_id) == [(0, -1), (1, 1)]
    assert await service.books.balance(customer) == 10
    assert await failures(service, *nodes) == [0, 0]


@pytest.mark.parametrize("why", ["offline", "disabled", "draining", "another voice", "a language"])
async def test_a_refused_task_without_an_able_node_is_refunded(service: TaskService, why: str) -> None:
    customer, refuser = await service.books.customer(), await service.node()
    voice, languages = (why if why == "another voice" else VOICE), (["zh"] if why == "a language" else [])
    other = await service.node(*([] if languages else [voice]), clones=languages, name="other")
    call = await service.ordered(customer)
    if why == "offline":
        await service.books.sql("UPDATE nodes SET heard_at = now_ms() - $2 WHERE id = $1", other, ONLINE_MS)
    if why == "disabled":
        await perform(service.nodes.db, DisableNode(name="other"))
    if why == "draining":
        await perform(service.nodes.db, DrainNode(name="other"))
    await refuse(service, refuser)
    assert await service.status(call) == 3
    assert await service.books.balance(customer) == 10


@pytest.mark.parametrize("other_online", [False, True])
@each_database
async def test_a_refused_voice_fails_after_the_grace_period_without_another_node(
    service: TaskService, other_online: bool
) -> None:
    refuser, other = [await service.node(clones=["zh"]) for _ in range(2)]
    voice_id, never_refused = [await service.clone(await service.books.customer()) for _ in range(2)]
    await refuse(service, refuser)
    await service.books.sql("UPDATE nodes SET heard_at = 0 WHERE id = $1", other)
    await service.sweep_leases()
    assert await service.clone_row(voice_id) == (0, "it was too loud", "")  # the other node may be restarting

    await service.books.move_clock(REFUSED_CLONE_WAIT_MS + 1)
    if other_online:
        await service.books.sql("UPDATE nodes SET heard_at = now_ms() WHERE id = $1", other)
    await service.sweep_leases()
    assert await service.clone_row(voice_id) == (0 if other_online else 3, "it was too loud", "")
    assert await service.clone_row(never_refused) == (0, "", "")


@pytest.mark.parametrize("language", ["zh", "en"])
async def test_a_refused_voice_fails_if_no_other_node_clones_its_language(
    service: TaskService, language: str
) -> None:
    refuser, other = await service.node(clones=["zh"]), await service.node(clones=[language])
    voice_id = await service.clone(await service.books.customer())
    await refuse(service, refuser)
    assert (await service.clone_row(voice_id))[0] == (0 if language == "zh" else 3)
    if language == "zh":
        await refuse(service, other)
        assert (await service.clone_row(voice_id))[:2] == (3, "it was too loud")


async def test_a_refused_task_in_a_cloned_voice_is_leased_to_another_node(service: TaskService) -> None:
    customer, (refuser, other) = (
        await service.books.customer(),
        [await service.node(clones=["zh"]) for _ in range(2)],
    )
    voice_id = await service.clone(customer)
    await service.tasks.complete(other, proof_of(await service.leased(other)), AUDIO)
    call = await service.ordered(customer, voice_id)
    await refuse(service, refuser)
    assert await service.status(call) == 0
    assert await able.able_nodes(service.db) == {other}
    assert await service.tasks.complete(other, proof_of(await service.leased(other)), AUDIO)


@each_database
async def test_two_nodes_completing_each_others_refused_jobs_do_not_deadlock(service: TaskService) -> None:
    """Both transactions update both nodes."""
    customer, (one, other) = await service.books.customer(units=20), [await service.node() for _ in range(2)]
    for _ in range(2):
        calls = [await service.ordered(customer) for _ in range(2)]
        await refuse(service, one)
        await service.end_cooldown(other)
        first, second = await service.tasks.lease(other, 2, 0)
        await service.tasks.fail(other, failure(second, final=True))
        second = await service.leased(one)
        assert await asyncio.gather(
            service.tasks.complete(one, proof_of(second), AUDIO),
            service.tasks.complete(other, proof_of(first), AUDIO),
        ) == [True, True]
        assert [await service.status(call) for call in calls] == [2, 2]


@each_database
async def test_a_poll_is_not_woken_for_a_job_its_node_refused(service: TaskService) -> None:
    customer = await service.books.customer()
    refuser, other, cloner = await service.node(), await service.node(), await service.node(clones=["zh"])
    await service.ordered(customer)
    assert await able.able_nodes(service.db) == {refuser, other}
    await refuse(service, refuser)
    assert await able.able_nodes(service.db) == {other}
    second_cloner = await service.node(clones=["zh"])
    await service.clone(customer)
    assert await able.able_nodes(service.db) == {other, cloner, second_cloner}
    await refuse(service, cloner)
    assert await able.able_nodes(service.db) == {other, second_cloner}
