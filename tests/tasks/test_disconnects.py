"""A leased job that never reached its node is requeued at once."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from myna.api.farm.handlers import FarmApi
from myna.engines.inspector.inspector import Inspector
from myna.farm.nodes import Nodes
from myna.http.asgi import BodyLimits, Request, Response
from myna.http.body_limits import BodyBudget
from myna.settings import Settings
from myna.store.files.audio import AudioStore
from myna.store.files.samples import SampleStore
from myna.wire.farm import PROTOCOL, PROTOCOL_HEADER, Hello, NodeVoice
from tests.rig.waiting import SOON_S
from tests.store.stalls import until
from tests.tasks.works import FREE, VOICE, Works

pytestmark = pytest.mark.anyio

WAIT_S = 20.0
LONG_S = SOON_S
Transaction = Callable[[Any], Awaitable[Any]]


class Client:
    """A connection of a node with one poll."""

    def __init__(self, credential: str, wait_s: float) -> None:
        self._body = f'{{"jobs": 1, "wait_s": {wait_s}}}'.encode()
        self._credential, self._sent, self.disconnected = credential, False, asyncio.Event()

    def request(self) -> Request:
        headers = [
            (b"authorization", f"Bearer {self._credential}".encode()),
            (PROTOCOL_HEADER.lower().encode(), str(PROTOCOL).encode()),
            (b"content-length", str(len(self._body)).encode()),
        ]
        limits = BodyLimits(body_max_bytes=1000, body_timeout_s=LONG_S, budget=BodyBudget(10_000, 10_000))
        return Request({"headers": headers, "path": "/farm/v1/lease"}, self._receive, limits)

    async def _receive(self) -> dict[str, Any]:
        if not self._sent:
            self._sent = True
            return {"type": "http.request", "body": self._body}
        await self.disconnected.wait()
        return {"type": "http.disconnect"}


@pytest.fixture
def farm(works: Works) -> FarmApi:
    folder, inspector = works.books.folder, Inspector()
    audio, samples = AudioStore(folder / "audio"), SampleStore(folder / "samples")
    return FarmApi(
        Settings(), works.desk.db, works.nodes, works.tasks, audio, samples, inspector, works.space
    )


async def join_node(works: Works) -> tuple[int, str]:
    """Joins a node with VOICE. Returns its id and its credential."""
    admitted = await works.nodes.join((await works.nodes.enroll("it")).token, "1")
    node = await works.nodes.verify(f"Bearer {admitted.credential}".encode())
    await works.nodes.hello(node, Hello([NodeVoice(VOICE, VOICE, "female", "zh-CN")], [], 1, 0.0, "1", False))
    return node.id, admitted.credential


async def wait_requeued(works: Works) -> None:
    """Waits until the job is queued, before its lease expires and without using a try."""

    async def queued() -> bool:
        columns = "status, node_id, lease_until, length(token_hash), epoch, tries"
        return await works.books.sql(f"SELECT {columns} FROM tasks") == [(0, *FREE, 1, 0)]

    await until(queued, "the job is requeued")


async def test_a_job_is_requeued_if_its_client_disconnects_after_the_lease(
    works: Works, farm: FarmApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, credential = await join_node(works)
    client, looking = Client(credential, WAIT_S), asyncio.Event()
    verify = Nodes.verify

    async def slow(nodes: Nodes, authorization: bytes | None) -> Any:
        if await works.books.sql("SELECT 1 FROM tasks WHERE status = 1"):
            looking.set()
            await asyncio.Event().wait()
        return await verify(nodes, authorization)

    monkeypatch.setattr(Nodes, "verify", slow)
    await works.ordered(await works.books.holder())
    answering = asyncio.create_task(farm.lease(client.request()))
    await asyncio.wait_for(looking.wait(), LONG_S)
    client.disconnected.set()
    assert (await asyncio.wait_for(answering, LONG_S)).body == b'{"jobs":[],"forget":[]}'
    await wait_requeued(works)


async def test_a_job_is_requeued_if_its_client_disconnects_during_the_lease(
    works: Works, farm: FarmApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, credential = await join_node(works)
    client, lease = Client(credential, WAIT_S), works.tasks.lease

    async def leasing(node_id: int, jobs: int, wait_s: float) -> Sequence[Any]:
        found = await lease(node_id, jobs, wait_s)
        client.disconnected.set()
        await asyncio.sleep(0)
        return found

    monkeypatch.setattr(works.tasks, "lease", leasing)
    monkeypatch.setattr(
        farm._node_auth, "verify", known(await works.nodes.verify(b"Bearer " + credential.encode()))
    )
    await works.ordered(await works.books.holder())
    response: Response = await asyncio.wait_for(farm.lease(client.request()), LONG_S)
    assert response.body == b'{"jobs":[],"forget":[]}'
    await wait_requeued(works)


def known(node: Any) -> Callable[[Request], Awaitable[Any]]:
    """Replaces the authentication, which suspends, with one that does not."""

    async def at_once(_: Request) -> Any:
        return node

    return at_once


async def test_a_job_is_requeued_if_its_poll_is_cancelled_as_it_is_leased(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, holder, transaction = await works.node(), await works.books.holder(), works.desk.db.transaction
    polls: list[asyncio.Task[Any]] = []

    async def then_cancelled(work: Any) -> Any:
        monkeypatch.setattr(works.desk.db, "transaction", transaction)
        done = await transaction(work)
        polls[0].cancel()
        return done

    monkeypatch.setattr(works.desk.db, "transaction", then_cancelled)
    await works.ordered(holder)
    polls.append(asyncio.create_task(works.tasks.lease(node, 1, LONG_S)))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(polls[0], LONG_S)
    await wait_requeued(works)


@pytest.mark.parametrize("committed", [True, False])
async def test_a_job_is_requeued_if_its_lease_is_cancelled(
    works: Works, committed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the COMMIT has passed or not."""
    node, transaction, begun = await works.node(), works.desk.db.transaction, asyncio.Event()
    call = await works.ordered(await works.books.holder())

    async def stalled(work: Any) -> Any:
        monkeypatch.setattr(works.desk.db, "transaction", transaction)
        if committed:
            await transaction(work)
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(works.desk.db, "transaction", stalled)
    leasing = asyncio.create_task(works.tasks.lease(node, 1, 0))
    await asyncio.wait_for(begun.wait(), LONG_S)
    leasing.cancel()
    await asyncio.gather(leasing, return_exceptions=True)
    if committed:
        await wait_requeued(works)
    assert (await works.status(call), await works.tries(call)) == (0, 0)


async def test_a_slow_requeue_is_abandoned_at_its_timeout(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await works.node()
    _, job = await works.held(node)

    async def stalled(_: Any) -> Any:
        await asyncio.Event().wait()

    with monkeypatch.context() as patched:
        patched.setattr(works.desk.db, "transaction", stalled)
        patched.setattr("myna.farm.tasks.REQUEUE_S", 0.05)
        await asyncio.wait_for(works.tasks.requeue(node, [job]), LONG_S)


async def test_a_failed_requeue_is_logged(
    works: Works, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    node = await works.node()
    call, job = await works.held(node)

    async def failing(_: Any) -> Any:
        raise works.desk.db.unavailable[0]

    with monkeypatch.context() as patched:
        patched.setattr(works.desk.db, "transaction", failing)
        await works.tasks.requeue(node, [job])
    assert "stay leased until their leases expire" in caplog.text
    assert await works.status(call) == 1
