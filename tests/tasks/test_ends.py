"""The end of a task by its node: kept or refunded in the same transaction, once, only under its lease."""

import asyncio
from collections.abc import Awaitable, Callable

import asyncpg
import pytest

from myna.errors import StaleLease
from myna.store.batch import (
    AUDIO_PLACEHOLDER,
    NOT_STORED,
    STORED_ANSWER_MAX_BYTES,
    TASK_PLACEHOLDER,
    Audio,
    CallState,
    Replayed,
)
from myna.wire.farm import Job, LeaseProof
from tests.rig.waiting import until
from tests.store.books import AUDIO, DIFFERENT_AUDIO, broken_refunds, charge_of, idempotency_key_of
from tests.store.fixtures import each_database
from tests.tasks.task_service import LEASE_MS, TaskService, failure, proof_of

COMPLETED = (2, AUDIO.name, AUDIO.size_bytes, AUDIO.sha256, "")
FAILED = (3, "", 0, b"", "it was too loud")
BOTH_PLACEHOLDERS = f'{{"id": {TASK_PLACEHOLDER}, "audio": "{AUDIO_PLACEHOLDER}"}}'


@each_database
async def test_completing_a_task_stores_its_response(service: TaskService) -> None:
    customer, node = await service.books.customer(), await service.node()
    call, job = await service.lease_new(
        node, customer, idempotency_key=idempotency_key_of(), draft=BOTH_PLACEHOLDERS
    )
    assert await service.books.answer(call.call_id) == [(None,)]
    await service.tasks.complete(node, proof_of(job), AUDIO)
    answer = f'{{"id": {job.id}, "audio": "{AUDIO.name}"}}'
    assert await service.books.charge(charge_of(customer, idempotency_key=idempotency_key_of())) == [
        Replayed(answer)
    ]


async def test_completing_a_task_stores_no_response_over_the_limit(service: TaskService) -> None:
    customer, node = await service.books.customer(), await service.node()
    draft = BOTH_PLACEHOLDERS + " " * STORED_ANSWER_MAX_BYTES
    _, job = await service.lease_new(node, customer, idempotency_key=idempotency_key_of(), draft=draft)
    await service.tasks.complete(node, proof_of(job), AUDIO)
    assert await service.books.sql("SELECT answer, draft FROM reservations") == [(NOT_STORED, None)]


@each_database
async def test_a_final_failure_is_refunded_at_once(service: TaskService) -> None:
    customer, node = await service.books.customer(), await service.node()
    call, job = await service.lease_new(node, customer, idempotency_key=idempotency_key_of())
    await service.tasks.fail(node, failure(job, final=True))
    assert await service.books.task(call.call_id) == FAILED
    assert await service.books.entries(call.call_id) == [(0, -1), (1, 1)]
    assert await service.books.balance(customer) == 10
    assert await service.books.answer(call.call_id) == []


@each_database
async def test_a_failure_whose_refund_fails_changes_nothing(service: TaskService) -> None:
    """The state of the task and the end of its call change in one transaction."""
    customer, node = await service.books.customer(), await service.node()
    call, job = await service.lease_new(node, customer)
    async with broken_refunds(service.books):
        with pytest.raises(Exception, match="out of order"):
            await service.tasks.fail(node, failure(job, final=True))
        assert await service.status(call) == 1
        assert await service.books.state(call.call_id) == CallState.OPEN
    await service.tasks.fail(node, failure(job, final=True))
    assert await service.books.balance(customer) == 10


async def test_progress_is_stored_and_below_100(service: TaskService) -> None:
    node = await service.node()
    _, job = await service.lease_new(node)
    for said, percent in ((0.0, 0), (0.5, 50), (1.0, 99)):
        assert await service.beats(node, proof_of(job), said)
        assert await service.books.sql("SELECT progress FROM tasks") == [(percent,)]


# ---- retries of a completion


async def test_a_repeated_completion_counts_once(service: TaskService) -> None:
    customer, node = await service.books.customer(), await service.node()
    call, job = await service.lease_new(node, customer)
    same = Audio("another.mp3", AUDIO.size_bytes, AUDIO.sha256)
    assert [await service.tasks.complete(node, proof_of(job), audio) for audio in (AUDIO, AUDIO, same)] == [
        True, False, False,
    ]  # fmt: skip
    assert await service.books.task(call.call_id) == COMPLETED
    assert await service.books.state(call.call_id) == CallState.KEPT
    assert await service.books.counters(customer) == (1, 1, 1)
    assert await service.books.balance(customer) == 9
    await service.books.move_clock(10 * LEASE_MS)  # also late
    assert await service.tasks.has_lease(node, proof_of(job))
    assert not await service.tasks.complete(node, proof_of(job), AUDIO)


@each_database
async def test_concurrent_completions_keep_one_audio(service: TaskService) -> None:
    customer, node = await service.books.customer(), await service.node()
    call, job = await service.lease_new(node, customer)
    audios = [AUDIO, DIFFERENT_AUDIO] * 10
    found = await asyncio.gather(
        *[service.tasks.complete(node, proof_of(job), audio) for audio in audios], return_exceptions=True
    )
    assert found.count(True) == 1
    first = audios[found.index(True)]
    for audio, outcome in zip(audios, found, strict=True):
        assert isinstance(outcome, bool if audio is first else StaleLease)
    assert (await service.books.task(call.call_id))[1] == first.name
    assert await service.books.counters(customer) == (1, 1, 1)


# ---- requests under a stale lease


async def complete(service: TaskService, node: int, proof: LeaseProof) -> bool:
    try:
        return await service.tasks.complete(node, proof, AUDIO)
    except StaleLease:
        return False


async def fail(service: TaskService, node: int, proof: LeaseProof) -> bool:
    said = failure(Job(proof.kind, proof.id, proof.epoch, proof.token, 0, "", "", 1.0), final=True)
    try:
        await service.tasks.fail(node, said)
    except StaleLease:
        return False
    return True


async def upload(service: TaskService, node: int, proof: LeaseProof) -> bool:
    return await service.tasks.has_lease(node, proof)


Send = Callable[[TaskService, int, LeaseProof], Awaitable[bool]]
each_request = pytest.mark.parametrize("send", [TaskService.beats, complete, fail, upload])


@pytest.mark.parametrize("wrong", ["epoch", "token", "node", "expired"])
@each_request
@each_database
async def test_a_request_without_the_lease_is_stale(service: TaskService, send: Send, wrong: str) -> None:
    """An expired lease is stale before the sweep."""
    node, other = await service.node(), await service.node()
    _, job = await service.lease_new(node)
    changes = {"epoch": {"epoch": job.epoch + 1}, "token": {"token": "0" * 32}}.get(wrong, {})
    if wrong == "expired":
        await service.books.move_clock(LEASE_MS + 1)
    assert not await send(service, other if wrong == "node" else node, proof_of(job, **changes))
    states = "SELECT t.status, t.node_id, c.state FROM tasks t JOIN calls c ON c.id = t.call_id"
    assert await service.books.sql(states) == [(1, node, 0)]  # leased, and the call is open
    assert await send(service, node, proof_of(job)) is (wrong != "expired")


@pytest.mark.parametrize("wrong", ["epoch", "token", "node"])
async def test_a_completion_with_another_lease_is_stale(service: TaskService, wrong: str) -> None:
    node, other = await service.node(), await service.node()
    _, job = await service.lease_new(node)
    await service.tasks.complete(node, proof_of(job), AUDIO)
    changes = {"epoch": {"epoch": job.epoch + 1}, "token": {"token": "0" * 32}}.get(wrong, {})
    caller = other if wrong == "node" else node
    assert not await service.tasks.has_lease(caller, proof_of(job, **changes))
    with pytest.raises(StaleLease):
        await service.tasks.complete(caller, proof_of(job, **changes), AUDIO)


@each_request
async def test_an_unknown_job_is_stale(service: TaskService, send: Send) -> None:
    node = await service.node()
    for kind in ("task", "clone"):
        assert not await send(service, node, LeaseProof(kind, 12345, 1, "0" * 32))  # type: ignore[arg-type]


@each_request
async def test_a_task_of_the_service_itself_is_stale_for_nodes(service: TaskService, send: Send) -> None:
    node = await service.node()
    call = await service.started_here(await service.books.customer())
    ((task_id,),) = await service.books.sql("SELECT id FROM tasks")
    assert await service.tasks.lease(node, 1, 0) == []
    assert not await send(service, node, LeaseProof("task", task_id, 0, ""))
    assert await service.sweep_leases() == (0, 0)
    assert await service.status(call) == 1
    assert await service.books.state(call.call_id) == CallState.OPEN


# ---- concurrency


@pytest.mark.parametrize("send", [complete, fail])
async def test_the_account_is_locked_before_the_job(postgres_service: TaskService, send: Send) -> None:
    """A refund locks the account, then the job. The other order would be a deadlock."""
    service = postgres_service
    node, customer = await service.node(), await service.books.customer()
    call, job = await service.lease_new(node, customer)
    connection = await asyncpg.connect(service.books.url)
    async with connection.transaction():
        await connection.execute("SELECT 1 FROM accounts WHERE id = $1 FOR UPDATE", customer.account_id)
        saying = asyncio.ensure_future(send(service, node, proof_of(job)))

        async def waits() -> bool:
            return bool(
                await service.books.sql(
                    "SELECT 1 FROM pg_stat_activity"
                    " WHERE wait_event_type = 'Lock' AND datname = current_database()"
                )
            )

        await until(waits, "the request waits for the lock of the account")
        free = await connection.fetch("SELECT id FROM tasks FOR UPDATE SKIP LOCKED")
    assert len(free) == 1
    assert await saying
    await connection.close()
    assert await service.status(call) in (2, 3)


@each_database
async def test_a_concurrent_completion_and_refund_end_the_call_once(service: TaskService) -> None:
    node, customer = await service.node(), await service.books.customer(units=50)
    for _ in range(8):
        call, job = await service.lease_new(node, customer)
        refund = service.ledger.refund_all({call.call_id: "another process"})
        kept, refunded = await asyncio.gather(complete(service, node, proof_of(job)), refund)
        assert kept is not bool(refunded)
        assert await service.status(call) == (2 if kept else 3)
