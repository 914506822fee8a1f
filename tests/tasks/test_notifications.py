"""What notifies whom, and cloned voices of an account."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import asyncpg
import pytest

from myna.accounts import accounts
from myna.actions.site import DrainNode, EnableNode
from myna.actions.voices import AddWord
from myna.errors import InvalidRequest, NoSpeechChannel
from myna.farm import polls
from myna.farm.nodes import Capacity
from myna.speech import catalogue as voices
from myna.store.queries import clones
from myna.store.queries import config as config_store
from tests.rig.actors import perform
from tests.rig.waiting import until
from tests.store.books import AUDIO, Books, Customer
from tests.store.fixtures import each_database
from tests.tasks.task_service import LEASE_MS, TaskService, failure, proof_of, task_service_on

T = TypeVar("T")
SOON_S = 60.0
LONG_S = 3600.0
ROUNDS = 3


@pytest.fixture(autouse=True)
def no_query_without_a_notification(monkeypatch: pytest.MonkeyPatch) -> None:
    """Except every 50 ms on SQLite, which has no notifications."""
    monkeypatch.setattr(polls, "CHECK_EVERY_S", LONG_S)
    monkeypatch.setattr(polls, "POLL_NOTIFIED_S", LONG_S)


@contextlib.asynccontextmanager
async def another_process(service: TaskService) -> AsyncIterator[TaskService]:
    """The parts of another server on PostgreSQL, of the command line on SQLite."""
    books = Books(service.books.url, service.books.folder)
    books.db = await service.books.open_again(serving=False)
    async with task_service_on(books) as other:
        yield other
    await books.db.close()


async def result_after(waiting: Awaitable[T], happen: Awaitable[object]) -> T:
    """Starts `waiting`, runs `happen` and returns the result of `waiting`."""
    result = asyncio.ensure_future(waiting)
    await asyncio.wait([result], timeout=0.03)
    assert not result.done()
    await happen
    return await asyncio.wait_for(result, SOON_S)


@each_database
async def test_a_new_task_notifies_polls_of_another_process(service: TaskService) -> None:
    """On SQLite the other process is the command line, which sends no notification."""
    node, customer = await service.node(), await service.books.customer(units=ROUNDS)
    async with another_process(service) as other:
        for _ in range(ROUNDS):
            await result_after(service.tasks.lease(node, 1, LONG_S), other.ordered(customer))


@each_database
async def test_a_new_voice_notifies_polls(service: TaskService) -> None:
    node, customer = await service.node(clones=["zh"]), await service.books.customer()
    async with another_process(service) as other:
        (job,) = await result_after(service.tasks.lease(node, 1, LONG_S), other.clone(customer))
    assert job.kind == "clone"


@each_database
async def test_a_returned_job_notifies_polls_of_every_process(service: TaskService) -> None:
    node, waiting = await service.node(), await service.node()
    _, job = await service.lease_new(node)
    async with another_process(service) as other:
        for at in (service, other):
            (again,) = await result_after(
                at.tasks.lease(waiting, 1, LONG_S), service.tasks.fail(node, failure(job, returned=True))
            )
            await service.tasks.fail(waiting, failure(again, returned=True))
            await service.end_cooldown(waiting)
            job = await service.leased(node)


@each_database
async def test_an_expired_lease_notifies_polls_of_every_process(service: TaskService) -> None:
    node, waiting = await service.node(), await service.node()
    async with another_process(service) as other:
        for at in (service, other):
            await service.lease_new(node)
            await service.books.move_clock(LEASE_MS + 1)
            (again,) = await result_after(at.tasks.lease(waiting, 1, LONG_S), service.sweep_leases())
            await service.tasks.complete(waiting, proof_of(again), AUDIO)


@pytest.mark.parametrize("completed", [True, False])
@each_database
async def test_a_tasks_end_notifies_waiters_in_each_process(service: TaskService, completed: bool) -> None:
    node = await service.node()
    async with another_process(service) as other:
        for at in (service, other):
            _, job = await service.lease_new(node)
            reported = failure(job, final=True)
            end = (
                service.tasks.complete(node, proof_of(job), AUDIO)
                if completed
                else service.tasks.fail(node, reported)
            )
            row = await result_after(at.tasks.wait_for_end(job.id, LONG_S), end)
            assert row is not None
            assert (row.status, row.audio) == ((2, AUDIO.name) if completed else (3, ""))


async def test_a_refund_notifies_waiters_of_the_task(service: TaskService) -> None:
    node = await service.node()
    call, job = await service.lease_new(node)
    refund = service.ledger.refund_all({call.call_id: "too late"})
    row = await result_after(service.tasks.wait_for_end(job.id, LONG_S), refund)
    assert row is not None
    assert row.status == 3


@each_database
async def test_closing_ends_all_waiters(service: TaskService) -> None:
    node = await service.node()
    _, job = await service.lease_new(node)
    leasing = asyncio.ensure_future(service.tasks.lease(node, 1, LONG_S))
    waiting = asyncio.ensure_future(service.tasks.wait_for_end(job.id, LONG_S))
    await asyncio.wait([leasing, waiting], timeout=0.05)
    await service.tasks.close()
    assert await asyncio.wait_for(asyncio.gather(leasing, waiting), SOON_S) == [[], None]


async def test_a_disconnected_listener_reconnects(postgres_service: TaskService) -> None:
    service = postgres_service
    node, customer = await service.node(), await service.books.customer()
    listeners = (
        "FROM pg_stat_activity WHERE application_name = 'myna-listener' AND datname = current_database()"
    )
    connection = await asyncpg.connect(service.books.url)

    async def listening() -> bool:
        return await connection.fetchval(f"SELECT count(*) {listeners} AND wait_event = 'ClientRead'") == 2

    await until(listening, "both listeners have connected")
    before = {row[0] for row in await connection.fetch(f"SELECT pid {listeners}")}
    await connection.execute(f"SELECT pg_terminate_backend(pid) {listeners}")

    async def others_listen() -> bool:
        now = {row[0] for row in await connection.fetch(f"SELECT pid {listeners} AND query LIKE 'LISTEN%'")}
        return len(now) == 2 and not now & before

    await until(others_listen, "both listeners have reconnected")
    await connection.close()
    async with another_process(service) as other:
        await result_after(service.tasks.lease(node, 1, LONG_S), other.ordered(customer))


async def ready(service: TaskService, customer: Customer, node: int) -> str:
    """Clones a voice with the node and returns its id."""
    voice_id = await service.clone(customer)
    await service.tasks.complete(node, proof_of(await service.leased(node)), AUDIO)
    return voice_id


async def test_a_cloned_voice_is_usable_only_by_its_account(service: TaskService) -> None:
    """A hello with such a voice is refused. Even with the row in the database the voice stays private."""
    node = await service.node(clones=["zh"])
    owner, other_customer = await service.books.customer(), await service.books.customer()
    voice_id = await ready(service, owner, node)
    with pytest.raises(InvalidRequest, match="no such voice"):
        await service.admitted(other_customer, voice_id)
    await service.admitted(owner, voice_id)
    assert (await service.leased(node)).voice_id == voice_id

    liar = await service.node(voice_id)
    with pytest.raises(InvalidRequest, match="no such voice"):
        await service.admitted(other_customer, voice_id)
    assert await service.books.balance(other_customer) == 10
    await service.ordered(other_customer, voice_id)
    job = await service.leased(liar)
    assert (job.voice_id, job.reference) == (voice_id, None)
    assert await service.tasks.reference(liar, b"s" * 32) is None


async def test_a_pending_voice_is_unknown_to_its_account(service: TaskService) -> None:
    await service.node(clones=["zh"])
    owner = await service.books.customer()
    with pytest.raises(InvalidRequest, match="no such voice"):
        await service.admitted(owner, await service.clone(owner))


async def test_a_cloned_voice_without_an_online_node_is_refused_uncharged(service: TaskService) -> None:
    node, owner = await service.node(clones=["zh"], name="the node"), await service.books.customer()
    voice_id = await ready(service, owner, node)
    await service.node(clones=["en"])
    await perform(service.nodes.db, DrainNode(name="the node"))
    with pytest.raises(NoSpeechChannel):
        await service.admitted(owner, voice_id)
    assert await service.books.balance(owner) == 10


@each_database
async def test_a_cloned_voice_is_listed_while_an_online_node_has_its_language(service: TaskService) -> None:
    node, owner = await service.node(clones=["zh"], name="the node"), await service.books.customer()
    voice_id, db = await ready(service, owner, node), service.books.db
    for put, there in ((DrainNode, []), (EnableNode, [voice_id])):
        await perform(db, put(name="the node"))
        config = await config_store.load(db)
        own, nodes = await clones.ready(db, owner.account_id), await Capacity(db).nodes(config)
        assert [voice.voice_id for voice in voices.usable_clones(own, config, nodes)] == there


async def test_a_node_gets_a_text_with_the_readings_of_its_account(service: TaskService) -> None:
    node, owner = await service.node(), await service.books.customer()
    account = await accounts.find(service.db, owner.name)
    await perform(service.db, AddWord(word="Myna", reading="MY-nuh"))
    await perform(service.db, AddWord(word="行长", reading="hang2zhang3", account=account.name))
    _, job = await service.lease_new(node, owner, text="<speak>行长<b>用</b>Myna</speak>")
    assert job.text == "[行长](/hang2 zhang3/)用[Myna](/MY-nuh/)"
    _, job = await service.lease_new(node, text="行长用Myna")
    assert job.text == "行长用[Myna](/MY-nuh/)"


@pytest.mark.parametrize(
    ("version", "text", "language"),
    [
        ("", "Say MY-nuh.", ""),
        ("0.30.9", "Say MY-nuh.", ""),
        ("0.31.0", "Say [Myna](/MY-nuh/).", ""),
        ("0.33.9", "Say [Myna](/MY-nuh/).", ""),
        ("0.34.0", "Say [Myna](/MY-nuh/).", "en-US"),
        ("1.0", "Say [Myna](/MY-nuh/).", "en-US"),
    ],
)
async def test_a_node_gets_no_notation_and_no_language_that_its_version_does_not_know(
    service: TaskService, version: str, text: str, language: str
) -> None:
    node = await service.node()
    await service.books.sql("UPDATE nodes SET version = $2 WHERE id = $1", node, version)
    _, job = await service.lease_new(node, text="Say [Myna](/MY-nuh/).", language="en-US")
    assert (job.text, job.language) == (text, language)
    _, job = await service.lease_new(node, text="Say hello.", language="en-US")
    assert job.language == language
