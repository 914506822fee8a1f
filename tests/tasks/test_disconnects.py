"""Databases that disconnect, and changes of nodes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from myna.actions.site import DisableNode, SetSetting
from myna.api.farm import FarmApi
from myna.api.node_auth import NodeAuth
from myna.billing.ledger import Call
from myna.engines.media.media import Inspector
from myna.errors import InvalidRequest, Unavailable
from myna.farm.nodes import Nodes
from myna.http.request import BodyBudget, BodyLimits, Request
from myna.http.responses import Response
from myna.store.queries import config as config_store
from myna.store.queries.config import Config, NodesOffer
from myna.store.queries.farm.nodes import CHANGE_EVERY_MS, CHANGES_AT_ONCE, NodeRow
from myna.wire.farm import PROTOCOL, PROTOCOL_HEADER, Hello, NodeVoice
from tests.rig.actors import perform
from tests.rig.waiting import SOON_S, until
from tests.store.books import Customer
from tests.store.fixtures import each_database
from tests.tasks.task_service import FREE, VOICE, TaskService, farm_api, join_node

WAIT_S = 20.0
LONG_S = SOON_S


class Client:
    """A node's request to lease a job, and the end of its connection."""

    def __init__(self, credential: str, wait_s: float) -> None:
        body = f'{{"jobs": 1, "wait_s": {wait_s}}}'.encode()
        headers = [
            (b"authorization", f"Bearer {credential}".encode()),
            (PROTOCOL_HEADER.lower().encode(), str(PROTOCOL).encode()),
            (b"content-length", str(len(body)).encode()),
        ]
        connection: Any = SimpleNamespace(
            half_closed=False, config=SimpleNamespace(stopping=False), resume_reading=lambda: None
        )
        self.request = request = Request(connection, "POST", b"/farm/v1/lease", headers)
        request.received, request.more_body = bytearray(body), False
        request.news.set()
        budget = BodyBudget(10_000, 10_000)
        request.limits = BodyLimits(body_max_bytes=1000, body_timeout_s=LONG_S, budget=budget)
        self.disconnect = request.lose


@pytest.fixture
def farm(service: TaskService) -> FarmApi:
    return farm_api(service.db, service.tasks, Inspector(), service.books.folder)


async def wait_requeued(service: TaskService) -> None:
    """Waits until the job is queued, before its lease expires and without using a try."""

    async def queued() -> bool:
        columns = "status, node_id, lease_until, length(token_hash), epoch, tries"
        return await service.books.sql(f"SELECT {columns} FROM tasks") == [(0, *FREE, 1, 0)]

    await until(queued, "the job is requeued")


async def test_a_job_is_requeued_if_its_client_disconnects_after_the_lease(
    service: TaskService, farm: FarmApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, credential = await join_node(service.nodes, VOICE)
    client, looking = Client(credential, WAIT_S), asyncio.Event()
    verify = Nodes.verify

    async def slow(nodes: Nodes, authorization: bytes | None) -> Any:
        if await service.books.sql("SELECT 1 FROM tasks WHERE status = 1"):
            looking.set()
            await asyncio.Event().wait()
        return await verify(nodes, authorization)

    monkeypatch.setattr(Nodes, "verify", slow)
    await service.ordered(await service.books.customer())
    answering = asyncio.create_task(farm.lease(client.request))
    await asyncio.wait_for(looking.wait(), LONG_S)
    client.disconnect()
    assert (await asyncio.wait_for(answering, LONG_S)).body == b'{"jobs":[],"forget":[]}'
    await wait_requeued(service)


async def test_a_job_is_requeued_if_its_client_disconnects_during_the_lease(
    service: TaskService, farm: FarmApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, credential = await join_node(service.nodes, VOICE)
    client, lease = Client(credential, WAIT_S), service.tasks.lease

    async def leasing(node_id: int, jobs: int, wait_s: float) -> Sequence[Any]:
        found = await lease(node_id, jobs, wait_s)
        client.disconnect()
        await asyncio.sleep(0)
        return found

    monkeypatch.setattr(service.tasks, "lease", leasing)
    monkeypatch.setattr(
        NodeAuth, "verify", known(await service.nodes.verify(b"Bearer " + credential.encode()))
    )
    await service.ordered(await service.books.customer())
    response: Response = await asyncio.wait_for(farm.lease(client.request), LONG_S)
    assert response.body == b'{"jobs":[],"forget":[]}'
    await wait_requeued(service)


def known(node: Any) -> Callable[[NodeAuth, Request], Awaitable[Any]]:
    """Replaces the authentication, which suspends, with one that does not."""

    async def at_once(_: NodeAuth, __: Request) -> Any:
        return node

    return at_once


async def test_a_job_is_requeued_if_its_poll_is_cancelled_as_it_is_leased(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, customer, transaction = await service.node(), await service.books.customer(), service.db.transaction
    polls: list[asyncio.Task[Any]] = []

    async def cancel_after(work: Any) -> Any:
        monkeypatch.setattr(service.db, "transaction", transaction)
        done = await transaction(work)
        polls[0].cancel()
        return done

    monkeypatch.setattr(service.db, "transaction", cancel_after)
    await service.ordered(customer)
    polls.append(asyncio.create_task(service.tasks.lease(node, 1, LONG_S)))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(polls[0], LONG_S)
    await wait_requeued(service)


async def test_a_slow_requeue_is_abandoned_at_its_timeout(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await service.node()
    _, job = await service.lease_new(node)

    async def stalled(_: Any) -> Any:
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(service.db, "transaction", stalled)
        patched.setattr("myna.farm.tasks.REQUEUE_S", 0.05)
        await asyncio.wait_for(service.tasks.requeue(node, [job]), LONG_S)


@each_database
async def test_a_failed_requeue_is_logged(
    service: TaskService, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = await service.node()
    call, job = await service.lease_new(node)

    async def failing(_: Any) -> Any:
        raise service.db.unavailable[0]

    with monkeypatch.context() as patched:
        patched.setattr(service.db, "transaction", failing)
        await service.tasks.requeue(node, [job])
    assert "stay leased until their leases expire" in caplog.text
    assert await service.status(call) == 1


class Reads:
    """Counts reads of the configuration and of the voices of nodes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.configuration = self.nodes = 0
        load, load_nodes = config_store.load, config_store.load_nodes

        async def counted(db: Any) -> Config:
            self.configuration += 1
            self.nodes -= 1
            return await load(db)

        async def counted_nodes(db: Any) -> NodesOffer:
            self.nodes += 1
            return await load_nodes(db)

        monkeypatch.setattr(config_store, "load", counted)
        monkeypatch.setattr(config_store, "load_nodes", counted_nodes)


async def row_of(service: TaskService, name: str) -> NodeRow:
    return next(known.node for known in await service.nodes.list() if known.node.name == name)


async def says(service: TaskService, voice: str, *, name: str = "node", shutting_down: bool = False) -> None:
    """Sends a hello of the node with this voice."""
    voices = [NodeVoice(voice_id=voice, name=voice, gender="female", language="zh-CN")]
    await service.nodes.hello(
        await row_of(service, name),
        Hello(voices=voices, clones=[], slots=1, chars_per_s=10.0, version="1", shutting_down=shutting_down),
    )


async def chats(service: TaskService, customer: Customer) -> Call:
    async with await service.ledger_service.admit(
        customer, service.ledger_service.order(units=1, seconds=30.0)
    ) as call:
        await call.keep("an answer")
    return call


async def test_chat_reloads_the_configuration_for_changes_of_the_operator_and_not_of_nodes(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.node(name="node")
    customer = await service.books.customer()
    await service.config.refresh()
    reads = Reads(monkeypatch)
    for number in range(CHANGES_AT_ONCE - 1):
        await says(service, f"voice-{number}")
        await chats(service, customer)
    assert (reads.configuration, reads.nodes) == (0, 0)
    assert await service.books.balance(customer) == 10 - (CHANGES_AT_ONCE - 1)
    await perform(service.books.db, SetSetting(name="chat_units", value="7"))
    before = reads.configuration
    await chats(service, customer)
    assert reads.configuration == before + 1


async def test_speech_uses_the_current_voices_of_nodes(
    service: TaskService, monkeypatch: pytest.MonkeyPatch
) -> None:
    await service.node("old", name="node")
    customer = await service.books.customer()
    await service.admitted(customer, "old")
    reads = Reads(monkeypatch)
    await says(service, "new")
    await service.admitted(customer, "new")
    with pytest.raises(InvalidRequest):
        await service.admitted(customer, "old")
    assert (reads.configuration, reads.nodes) == (0, 1)
    await perform(service.nodes.db, DisableNode(name="node"))
    with pytest.raises(InvalidRequest):
        await service.admitted(customer, "new")


@each_database
async def test_changes_of_a_nodes_voices_are_rate_limited(service: TaskService) -> None:
    await service.node("voice-0", name="node")
    for number in range(1, CHANGES_AT_ONCE):
        await says(service, f"voice-{number}")
    before = await config_store.load(service.books.db)
    for _ in range(3):
        with pytest.raises(Unavailable):
            await says(service, "too-soon")
    assert await config_store.load(service.books.db) == before
    await says(service, f"voice-{CHANGES_AT_ONCE - 1}")  # no change
    await service.books.move_clock(CHANGE_EVERY_MS)
    await says(service, "in-time")
    with pytest.raises(Unavailable):
        await says(service, "too-soon")
    assert [row.voice_id for row in (await config_store.load(service.books.db)).node_voices] == ["in-time"]


async def test_a_node_that_shuts_down_is_not_rate_limited_and_keeps_its_voices(service: TaskService) -> None:
    await service.node("voice-0", name="node")
    for number in range(1, CHANGES_AT_ONCE):
        await says(service, f"voice-{number}")
    before = await config_store.load(service.books.db)
    await says(service, "too-soon", shutting_down=True)
    assert await config_store.load(service.books.db) == before
    assert not (await row_of(service, "node")).online


@each_database
async def test_an_unchanged_hello_writes_nothing(service: TaskService, transactions: list[object]) -> None:
    await service.node("voice", name="node")
    await says(service, "voice")
    transactions.clear()
    for _ in range(3):
        await says(service, "voice")
    assert transactions == []
    for _ in range(2):
        await says(service, "voice", shutting_down=True)
    assert len(transactions) == 1
    await says(service, "voice")
    assert (await row_of(service, "node")).online
