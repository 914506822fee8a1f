"""A leased job that never reached its node is requeued at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from myna.api.farm.auth import NodeAuth
from myna.api.farm.handlers import FarmApi
from myna.engines.inspector.inspector import Inspector
from myna.farm.nodes import Nodes
from myna.http.body_limits import BodyBudget, BodyLimits
from myna.http.request import Request
from myna.http.responses import Response
from myna.telemetry.requests import RequestDetails
from myna.wire.farm import PROTOCOL, PROTOCOL_HEADER
from tests.rig.waiting import SOON_S
from tests.store.fixtures import each_database
from tests.store.stalls import until
from tests.tasks.nodes import farm_api, join_node
from tests.tasks.task_service import FREE, VOICE, TaskService

pytestmark = pytest.mark.anyio

WAIT_S = 20.0
LONG_S = SOON_S
Transaction = Callable[[Any], Awaitable[Any]]


class Client:
    """A connection of a node with one poll."""

    def __init__(self, credential: str, wait_s: float) -> None:
        self._body = f'{{"jobs": 1, "wait_s": {wait_s}}}'.encode()
        self._credential = credential
        self._sent = False
        self.disconnected = asyncio.Event()

    def request(self) -> Request:
        headers = [
            (b"authorization", f"Bearer {self._credential}".encode()),
            (PROTOCOL_HEADER.lower().encode(), str(PROTOCOL).encode()),
            (b"content-length", str(len(self._body)).encode()),
        ]
        limits = BodyLimits(body_max_bytes=1000, body_timeout_s=LONG_S, budget=BodyBudget(10_000, 10_000))
        return Request(
            {"headers": headers, "path": "/farm/v1/lease"}, self._receive, limits, RequestDetails()
        )

    async def _receive(self) -> dict[str, Any]:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._body}
        await self.disconnected.wait()
        return {"type": "http.disconnect"}


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
    answering = asyncio.create_task(farm.lease(client.request()))
    await asyncio.wait_for(looking.wait(), LONG_S)
    client.disconnected.set()
    assert (await asyncio.wait_for(answering, LONG_S)).body == b'{"jobs":[],"forget":[]}'
    await wait_requeued(service)


async def test_a_job_is_requeued_if_its_client_disconnects_during_the_lease(
    service: TaskService, farm: FarmApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, credential = await join_node(service.nodes, VOICE)
    client, lease = Client(credential, WAIT_S), service.tasks.lease

    async def leasing(node_id: int, jobs: int, wait_s: float) -> Sequence[Any]:
        found = await lease(node_id, jobs, wait_s)
        client.disconnected.set()
        await asyncio.sleep(0)
        return found

    monkeypatch.setattr(service.tasks, "lease", leasing)
    monkeypatch.setattr(
        NodeAuth, "verify", known(await service.nodes.verify(b"Bearer " + credential.encode()))
    )
    await service.ordered(await service.books.customer())
    response: Response = await asyncio.wait_for(farm.lease(client.request()), LONG_S)
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


@pytest.mark.parametrize("committed", [True, False])
@each_database
async def test_a_job_is_requeued_if_its_lease_is_cancelled(
    service: TaskService, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the COMMIT has passed or not."""
    node, transaction, started = await service.node(), service.db.transaction, asyncio.Event()
    call = await service.ordered(await service.books.customer())

    async def stalled(work: Any) -> Any:
        monkeypatch.setattr(service.db, "transaction", transaction)
        if committed:
            await transaction(work)
        started.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(service.db, "transaction", stalled)
    leasing = asyncio.create_task(service.tasks.lease(node, 1, 0))
    await asyncio.wait_for(started.wait(), LONG_S)
    leasing.cancel()
    await asyncio.gather(leasing, return_exceptions=True)
    if committed:
        await wait_requeued(service)
    assert (await service.status(call), await service.tries(call)) == (0, 0)


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
