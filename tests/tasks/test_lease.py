"""Leases: which job a node gets, and that no other node gets it."""

import asyncio
import hashlib

import asyncpg
import pytest

from myna.clones import PREVIEW
from myna.store.queries.farm import queue
from myna.store.queries.farm.queue import TASK, NextJob
from myna.wire.farm import Job, JobReference
from tests.store.books import AUDIO, Books
from tests.tasks.works import DEADLINE_MS, LEASE_MS, LEASE_S, TEXT, VOICE, Works, failure, shown, works_on

pytestmark = pytest.mark.anyio


async def test_a_lease_returns_all_fields_of_the_job(works: Works) -> None:
    node = await works.node()
    call = await works.ordered(await works.books.holder())

    job = await works.leased(node)

    ((task_id,),) = await works.books.sql("SELECT id FROM tasks WHERE call_id = $1", call.call_id)
    assert job == Job("task", task_id, 1, job.token, LEASE_S, TEXT, VOICE, 1.5, None)
    assert await works.status(call) == 1
    assert await works.tries(call) == 1
    assert (await works.holder_of(call))[::2] == (node, 32)


async def test_a_lease_is_not_reported_longer_than_it_is(works: Works) -> None:
    node = await works.node()
    await works.ordered(await works.books.holder())
    await works.books.tick_clock()
    assert LEASE_S - 0.1 < (await works.leased(node)).lease_s <= LEASE_S
    await works.books.stop_clock()


async def test_a_job_that_became_overdue_after_selection_is_not_leased(works: Works) -> None:
    node = await works.node()
    call = await works.ordered(await works.books.holder(), deadline_ms=1000)
    (head,) = await queue.next_jobs(works.books.db, node, 1)
    await works.books.move_clock(1000)
    take = works.books.db.transaction(lambda db: queue.lease(db, head, node, b"t" * 32, LEASE_MS))
    assert await take is None
    assert (await works.status(call), await works.tries(call)) == (0, 0)


async def test_only_the_hash_of_a_lease_token_is_stored(works: Works) -> None:
    _, job = await works.held(await works.node())
    assert await works.books.sql("SELECT token_hash FROM tasks") == [
        (hashlib.sha256(job.token.encode()).digest(),)
    ]


async def test_a_lease_on_an_empty_queue_is_empty(works: Works) -> None:
    assert await works.tasks.lease(await works.node(), 4, 0) == []


async def test_jobs_of_an_account_are_leased_in_order(works: Works) -> None:
    node, holder = await works.node(), await works.books.holder()
    for text in ("一", "二", "三"):
        await works.ordered(holder, text=text)
    assert [job.text for job in await works.tasks.lease(node, 3, 0)] == ["一", "二", "三"]


async def test_a_leased_job_is_not_leased_to_another_node(works: Works) -> None:
    await works.held(await works.node())
    assert await works.tasks.lease(await works.node(), 1, 0) == []


async def test_a_job_leased_after_selection_is_not_leased_again(works: Works) -> None:
    node = await works.node()
    _, job = await works.held(node)
    ((account_id,),) = await works.books.sql("SELECT account_id FROM tasks")
    seen = NextJob(TASK, job.id, account_id)
    assert await works.books.db.transaction(lambda db: queue.lease(db, seen, node, b"t" * 32, 1000)) is None
    assert await works.beats(node, shown(job))


async def test_a_hundred_concurrent_leases_lease_one_job_once(works: Works) -> None:
    call = await works.ordered(await works.books.holder())
    nodes = [await works.node() for _ in range(10)]
    other = await works.books.open_again() if works.books.url else works.books.db
    async with works_on(works.books, other) as second:
        asking = [at.tasks.lease(node, 1, 0) for node in nodes for at in (works, second) for _ in range(5)]
        found = await asyncio.gather(*asking)
    if other is not works.books.db:
        await other.close()
    assert [len(jobs) for jobs in found].count(1) == 1
    assert sum(map(len, found)) == 1
    assert await works.tries(call) == 1


async def test_a_hundred_concurrent_leases_lease_a_hundred_jobs(works: Works) -> None:
    holders = [await works.books.holder() for _ in range(10)]
    for holder in holders:
        for _ in range(10):
            await works.ordered(holder)
    node = await works.node()
    found = await asyncio.gather(*[works.tasks.lease(node, 1, 0) for _ in range(100)])
    assert len({job.id for (job,) in found}) == 100


async def test_a_node_leases_only_jobs_in_its_voices(works: Works) -> None:
    await works.ordered(await works.books.holder(), "another voice")
    node, able = await works.node(), await works.node("another voice", "a third")
    assert await works.tasks.lease(node, 1, 0) == []
    assert (await works.leased(able)).voice_id == "another voice"


async def test_a_job_without_a_node_does_not_block_later_jobs_of_its_account(works: Works) -> None:
    holder = await works.books.holder()
    await works.ordered(holder, "a voice of nobody")
    await works.ordered(holder)
    assert (await works.leased(await works.node())).voice_id == VOICE


async def test_a_disabled_node_leases_nothing(works: Works) -> None:
    node = await works.node(name="the node")
    await works.ordered(await works.books.holder())
    await works.nodes.disable("the node")
    assert await works.tasks.lease(node, 1, 0) == []
    await works.nodes.enable("the node")
    assert await works.leased(node)


async def test_a_draining_node_completes_its_job_and_leases_nothing(works: Works) -> None:
    node, holder = await works.node(name="the node"), await works.books.holder()
    call, job = await works.held(node, holder)
    await works.ordered(holder)
    await works.nodes.drain("the node")
    assert await works.tasks.lease(node, 1, 0) == []
    assert await works.beats(node, shown(job))
    assert await works.tasks.complete(node, shown(job), AUDIO)
    assert await works.status(call) == 2


async def test_jobs_of_a_disabled_node_are_requeued_without_using_a_try(works: Works) -> None:
    node = await works.node(name="the node")
    call, job = await works.held(node)
    await works.nodes.disable("the node")
    assert (await works.status(call), await works.tries(call)) == (0, 0)
    assert not await works.beats(node, shown(job))
    assert (await works.leased(await works.node())).id == job.id


async def test_a_removed_node_leases_nothing(works: Works) -> None:
    node = await works.node(name="the node")
    await works.ordered(await works.books.holder())
    await works.nodes.remove("the node")
    assert await works.tasks.lease(node, 1, 0) == []


async def test_a_lease_of_several_jobs_is_round_robin(works: Works) -> None:
    node, holders = await works.node(), [await works.books.holder() for _ in range(3)]
    for holder in holders:
        for _ in range(3):
            await works.ordered(holder, text=holder.name)
    jobs = await works.tasks.lease(node, 5, 0)
    names = [holder.name for holder in holders]
    assert [job.text for job in jobs] == [*names, *names[:2]]


async def test_an_overdue_task_is_not_leased_even_before_the_sweep(works: Works) -> None:
    node, holder = await works.node(), await works.books.holder()
    late = await works.ordered(holder, deadline_ms=1000)
    await works.ordered(holder, text="in time")
    await works.books.move_clock(1001)
    assert [job.text for job in await works.tasks.lease(node, 1, 0)] == ["in time"]
    assert await works.tasks.lease(node, 1, 0) == []
    assert await works.status(late) == 0
    await works.desk.ledger.sweep()


async def test_a_lease_never_outlasts_the_deadline(works: Works) -> None:
    node = await works.node()
    _, job = await works.held(node, deadline_ms=LEASE_MS // 2)
    assert 10 < job.lease_s <= LEASE_S / 2
    await works.books.move_clock(LEASE_MS // 4)
    assert await works.beats(node, shown(job))
    assert await works.books.sql("SELECT lease_until - deadline FROM tasks") == [(0,)]


async def test_a_locked_job_is_skipped_without_waiting(postgres_works: Works) -> None:
    works = postgres_works
    node, holders = await works.node(), [await works.books.holder() for _ in range(2)]
    for holder in holders:
        await works.ordered(holder, text=holder.name)
    hand = await asyncpg.connect(works.books.url)
    async with hand.transaction():
        await hand.execute("SELECT id FROM tasks ORDER BY id LIMIT 1 FOR UPDATE")
        (job,) = await asyncio.wait_for(works.tasks.lease(node, 2, 0), 5)
    await hand.close()
    assert job.text == holders[1].name


# ---- voices of accounts


async def test_a_new_voice_is_leased_to_a_node_that_clones_its_language(works: Works) -> None:
    holder = await works.books.holder()
    voice_id = await works.clone(holder, "zh", b"z" * 32)
    other, node = await works.node(clones=["en"]), await works.node(clones=["en", "zh"])
    assert await works.tasks.lease(other, 1, 0) == []
    job = await works.leased(node)
    reference = JobReference((b"z" * 32).hex(), 8, "你好", "zh")
    assert job == Job(
        "clone", job.id, 1, job.token, LEASE_S, PREVIEW["zh"], voice_id, 1.0, reference
    )  # fmt: skip
    assert (await works.clone_row(voice_id))[0] == 1


async def test_a_job_in_a_cloned_voice_is_leased_to_nodes_that_clone_its_language(works: Works) -> None:
    holder, maker = await works.books.holder(), await works.node(clones=["zh"])
    voice_id = await works.clone(holder, "zh", b"z" * 32)
    await works.ordered(holder, voice_id)
    made = await works.leased(maker)
    assert await works.tasks.lease(maker, 1, 0) == []  # the voice is not ready
    await works.tasks.complete(maker, shown(made), AUDIO)

    assert await works.tasks.lease(await works.node(clones=["en"]), 1, 0) == []
    assert await works.tasks.lease(await works.node(), 1, 0) == []
    job = await works.leased(await works.node(clones=["zh"]))
    assert (job.kind, job.voice_id, job.text) == ("task", voice_id, TEXT)
    assert job.reference == JobReference((b"z" * 32).hex(), 8, "你好", "zh")


async def test_a_job_in_a_failed_voice_is_not_leased(works: Works) -> None:
    holder, node = await works.books.holder(), await works.node(clones=["zh"])
    voice_id = await works.clone(holder)
    await works.ordered(holder, voice_id, deadline_ms=DEADLINE_MS)
    await works.tasks.fail(node, failure(await works.leased(node), final=True))
    assert await works.tasks.lease(node, 1, 0) == []


async def test_a_sample_is_served_only_under_a_lease_that_needs_it(works: Works) -> None:
    holder, node, other = await works.books.holder(), await works.node(clones=["zh"]), await works.node()
    sample = b"z" * 32
    voice_id = await works.clone(holder, "zh", sample)
    assert await works.tasks.reference(node, sample) is None
    job = await works.leased(node)
    assert await works.tasks.reference(node, sample) == f"{voice_id}.wav"
    assert await works.tasks.reference(node, b"y" * 32) is None
    assert await works.tasks.reference(other, sample) is None
    await works.tasks.complete(node, shown(job), AUDIO)
    assert await works.tasks.reference(node, sample) is None

    await works.ordered(holder, voice_id)
    await works.leased(node)
    assert await works.tasks.reference(node, sample) == f"{voice_id}.wav"
    await works.books.move_clock(LEASE_MS + 1)
    assert await works.tasks.reference(node, sample) is None


async def test_unused_samples_are_named_for_deletion(works: Works, books: Books) -> None:
    await works.clone(await books.holder(), sample=b"z" * 32)
    known, unknown = (b"z" * 32).hex(), (b"y" * 32).hex()
    assert await works.tasks.unused_samples([known, unknown]) == [unknown]
