"""The minimum rate of uploads and the limits of open requests, on a server in the process of the test."""

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from myna.actions.site import EnrollNode
from myna.api import farm as edge
from myna.api import node_auth
from myna.api.farm import FarmApi
from myna.engines.media.media import Inspector
from myna.farm.nodes import Nodes
from myna.farm.tasks import Tasks
from myna.http import request as http_request
from myna.http import server
from myna.http.asgi import Application
from myna.http.request import BodyBudget, BodyLimits
from myna.lib.telemetry.access_log import AccessLog
from myna.settings import Settings
from myna.store.database import Transaction, connect
from myna.store.migrate import migrate
from myna.wire.farm import PREFIX
from tests.farm.node_client import mp3
from tests.http.local_server import RawConnection
from tests.rig.actors import perform
from tests.rig.disks import read_only
from tests.rig.waiting import SOON_S, free_port, until
from tests.store import stalls
from tests.tasks.task_service import farm_api, join_node

PATIENCE_S = 0.4
SOON_AT_THIS_RATE_S = 20.0
"""An eighth of the time for the whole body at the rate of the slow clients."""
SLOWEST_BYTES_PER_S = 10_000
TOKEN = "a-token"


@dataclass
class LocalFarm:
    """The endpoints for nodes, and a node that has the lease of a voice's preview."""

    port: int
    nodes: Nodes
    credential: str
    folder: Path

    async def begin(
        self, what: str, size_bytes: int, *lines: str, credential: str | None = None, spaces: int = 1
    ) -> RawConnection:
        """Opens a connection and sends the head of a request with a body of this size."""
        client = RawConnection(*await asyncio.open_connection("127.0.0.1", self.port))
        bearer = f"Authorization: Bearer{' ' * spaces}{credential or self.credential}"
        head = (bearer, "Myna-Farm: 1", f"Content-Length: {size_bytes}", *lines)
        client.ask(f"{PREFIX}/{what}", "POST", "".join(f"{line}\r\n" for line in head).encode())
        return client

    async def upload(self, audio: bytes) -> RawConnection:
        """Begins an upload; the caller sends the body."""
        sha256 = hashlib.sha256(audio).hexdigest()
        return await self.begin(
            "complete", len(audio), f"Myna-Job: clone 1 1 {TOKEN}", f"Myna-Sha256: {sha256}"
        )

    async def asks(
        self, what: str, data: dict[str, object], credential: str | None = None
    ) -> tuple[int, bytes]:
        """Status and body of the answer to a whole request."""
        body = json.dumps(data).encode()
        client = await self.begin(what, len(body), credential=credential)
        client.send(body)
        answer = await client.answer()
        await client.disconnect()
        return answer

    @property
    def files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]


@pytest.fixture
async def farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LocalFarm]:
    monkeypatch.setattr(http_request, "PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(edge, "SLOWEST_BYTES_PER_S", SLOWEST_BYTES_PER_S)
    db = await connect(Settings(data=str(tmp_path / "data")))
    await migrate(db)
    nodes, inspector = Nodes(db), Inspector()
    _, credential = await join_node(nodes)
    await db.transaction(_lease_a_preview)
    settings = Settings(port=free_port())
    api = farm_api(db, Tasks(db, lease_s=60), inspector, tmp_path)
    async with _serving(api, settings):
        yield LocalFarm(settings.port, nodes, credential, tmp_path / "audio")
    await inspector.close()
    await db.close()


async def _lease_a_preview(db: Transaction) -> None:
    await db.fetch("INSERT INTO accounts (name, email, operator, created_at) VALUES ('a', '', 0, 1)")
    await db.fetch(
        "INSERT INTO clones (voice_id, account_id, name, language, transcript, sample, sample_bytes,"
        " sample_sha256, sample_ms, consent_by, consent_text, consent_at, status, created_at, epoch,"
        " token_hash, node_id, leased_at, lease_until)"
        " VALUES ('v', 1, 'V', 'zh', 't', 's', 1, $1, 1, 'c', 'c', 1, 1, 1, 1, $1, 1, 1, now_ms() + 60000)",
        hashlib.sha256(TOKEN.encode()).digest(),
    )


@contextlib.asynccontextmanager
async def _serving(api: FarmApi, settings: Settings) -> AsyncIterator[None]:
    app = Application(
        routes=api.routes(),
        fallback=_nothing_else,
        limits=BodyLimits(2**20, SOON_S, BodyBudget(2**24)),
        access=AccessLog(len),
    )
    running = server.Server(server.configure(app, settings))
    running.config.lifespan = "off"
    task = asyncio.create_task(running.serve(sockets=server.listen(settings)))
    await until(lambda: running.started)
    yield
    running.should_exit = True
    await task


async def _nothing_else(*_: object) -> None:
    raise AssertionError("there are only the routes for nodes")


# ---- uploads


async def send_slowly(client: RawConnection, data: bytes, bytes_per_s: float) -> None:
    """Sends at this rate, in ten pieces a second."""
    step = max(1, int(bytes_per_s / 10))
    for at in range(0, len(data), step):
        client.send(data[at : at + step])
        await asyncio.sleep(0.1)


async def test_an_upload_below_the_minimum_rate_is_aborted_and_removed(farm: LocalFarm) -> None:
    audio = mp3() * 20
    client = await farm.upload(audio)
    began = time.monotonic()
    trickle = asyncio.create_task(send_slowly(client, audio, bytes_per_s=SLOWEST_BYTES_PER_S / 10))
    status, body = await client.answer()
    assert (status, b"send it faster" in body) == (400, True)
    assert time.monotonic() - began < SOON_AT_THIS_RATE_S
    assert farm.files == []
    assert await client.is_closed()
    trickle.cancel()
    await client.disconnect()


async def test_an_upload_is_refused_also_if_its_file_cannot_be_removed(
    farm: LocalFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pathlib.Path.unlink", read_only)
    client = await farm.upload(mp3())
    status, body = await client.answer()
    assert (status, b"send it faster" in body) == (400, True)
    await client.disconnect()


async def test_with_a_stalled_disk_uploads_are_503(farm: LocalFarm, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("myna.lib.files.QUEUE_MAX", 0)
    client = await farm.upload(mp3())
    status, body = await client.answer()
    assert (status, b"Send it again." in body) == (503, True)
    assert farm.files == []
    await client.disconnect()


# ---- open requests


@pytest.fixture
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many there may be of one of the limits, in what starts after this."""
    monkeypatch.setattr(node_auth, request.param, 5 if "PER" in request.param else 1)
    return int(getattr(node_auth, request.param))


@pytest.mark.parametrize(
    ("few", "who"), [("PER_NODE_MAX", "node"), ("PER_ADDRESS_MAX", "address")], indirect=["few"]
)
async def test_open_requests_per_node_and_address_are_limited(few: int, farm: LocalFarm, who: str) -> None:
    limit = few
    _, other = await join_node(farm.nodes)
    used = [farm.credential] * limit if who == "node" else [farm.credential, other] * limit
    opened = [  # without their bodies; the header of one node has many forms
        await farm.begin("hello", 100, credential=one, spaces=1 + number)
        for number, one in enumerate(used[:limit])
    ]

    async def status(credential: str) -> int:
        code, body = await farm.asks("beat", {"beats": []}, credential)
        assert code == 200 or f"This {who} has {limit} requests open".encode() in body
        return code

    await _becomes(503, lambda: status(farm.credential))
    assert await status(other) == (200 if who == "node" else 503)
    for client in opened:
        await client.disconnect()
    await _becomes(200, lambda: status(farm.credential))


async def _becomes(wanted: int, status: Callable[[], Awaitable[int]]) -> None:
    async def is_wanted() -> bool:
        return await status() == wanted

    await stalls.until(is_wanted, f"the answer is {wanted}")


@pytest.mark.parametrize("few", ["JOINS_MAX"], indirect=True)
async def test_stalled_joins_do_not_block_nodes_or_other_joins(
    few: int, farm: LocalFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stalled joins have a credential, which is not checked, or none. They have no place until their body
    has arrived, for which they have a short time."""
    monkeypatch.setattr(node_auth, "JOIN_BODY_TIMEOUT_S", SOON_S)
    token = (await perform(farm.nodes.db, EnrollNode(name="another"))).token
    opened = [
        await farm.begin("join", 4000, credential=None if number % 2 else "no credential")
        for number in range(8)
    ]
    assert (await farm.asks("beat", {"beats": []}))[0] == 200
    assert (await farm.asks("join", {"token": token}))[0] == 200
    monkeypatch.setattr(node_auth, "JOIN_BODY_TIMEOUT_S", 0.1)
    late = await farm.begin("join", 4000)
    assert (await late.answer())[0] == 400
    for client in (*opened, late):
        await client.disconnect()


async def test_a_stalled_upload_is_aborted(farm: LocalFarm) -> None:
    """Although what has arrived would allow it 48 seconds more."""
    audio = mp3() * 120
    client = await farm.upload(audio)
    client.send(audio[:-1])
    began = time.monotonic()
    assert (await client.answer())[0] == 400
    assert time.monotonic() - began < SOON_AT_THIS_RATE_S
    assert farm.files == []
    await client.disconnect()


@pytest.mark.slow
async def test_an_upload_above_the_minimum_rate_may_take_long(
    farm: LocalFarm, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience_s = 3.0  # a loaded machine may stall this test for a second or two
    audio = mp3(2)
    bytes_per_s = len(audio) / (2.2 * patience_s)
    monkeypatch.setattr(http_request, "PATIENCE_S", patience_s)
    monkeypatch.setattr(edge, "SLOWEST_BYTES_PER_S", bytes_per_s / 4)
    client = await farm.upload(audio)
    await send_slowly(client, audio, bytes_per_s)
    assert (await client.answer())[0] == 200
    (kept,) = farm.files
    assert kept.read_bytes() == audio
    await client.disconnect()
