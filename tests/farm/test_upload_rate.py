"""The minimum rate of uploads, on a server in the process of the test, so that its timeouts can be set."""

import asyncio
import contextlib
import hashlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from myna.api.farm import uploads as upload
from myna.api.farm.auth import NodeAuth
from myna.api.farm.uploads import Uploads
from myna.engines.inspector.inspector import Inspector
from myna.farm.nodes import Nodes
from myna.farm.tasks import Tasks
from myna.http import server
from myna.http.asgi import Application
from myna.http.body_limits import BodyBudget, BodyLimits
from myna.key_throttle import KeyThrottle
from myna.settings import Settings
from myna.store.database import Transaction, connect
from myna.store.files.audio import AudioStore
from myna.store.files.free_space import FreeSpace
from myna.store.migrate import migrate
from myna.telemetry.access_log import AccessLog
from tests.farm.node_client import mp3
from tests.http.local_server import RawConnection, until
from tests.rig.actors import TESTER
from tests.rig.disks import read_only
from tests.rig.waiting import free_port

pytestmark = pytest.mark.anyio

PATIENCE_S = 0.4
SOON_S = 20.0
"""An eighth of the time for the whole body at the rate of the slow clients."""
SLOWEST_BYTES_PER_S = 10_000
TOKEN = "a-token"


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload, "PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(upload, "SLOWEST_BYTES_PER_S", SLOWEST_BYTES_PER_S)


@dataclass
class UploadServer:
    """A server for uploads, and a node with the lease of a voice's preview."""

    port: int
    credential: str
    folder: Path

    async def begin(self, audio: bytes) -> RawConnection:
        """Opens a connection and sends the head of an upload."""
        client = RawConnection(*await asyncio.open_connection("127.0.0.1", self.port))
        headers = {
            "Myna-Farm": "1",
            "Authorization": f"Bearer {self.credential}",
            "Myna-Job": f"clone 1 1 {TOKEN}",
            "Myna-Sha256": hashlib.sha256(audio).hexdigest(),
            "Content-Length": str(len(audio)),
        }
        client.ask("/up", "POST", "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode())
        return client

    @property
    def files(self) -> list[Path]:
        return [path for path in self.folder.rglob("*") if path.is_file()]


@pytest.fixture
async def upload_server(tmp_path: Path) -> AsyncIterator[UploadServer]:
    db = await connect("sqlite:", tmp_path / "data")
    await migrate(db)
    nodes, tasks, inspector = Nodes(db), Tasks(db, lease_s=60), Inspector()
    token = (await nodes.enroll("n", by=TESTER)).token
    credential = (await nodes.join(token, "")).credential
    await db.transaction(_lock_a_preview)
    audio = AudioStore(tmp_path / "audio")
    uploads = Uploads(
        node_auth=NodeAuth(db, nodes, 5.0, KeyThrottle()),
        tasks=tasks,
        audio=audio,
        inspector=inspector,
        space=FreeSpace(tmp_path, 0),
    )
    async with _serving(uploads) as port:
        yield UploadServer(port, credential, tmp_path / "audio")
    await inspector.close()
    await db.close()


async def _lock_a_preview(db: Transaction) -> None:
    await db.fetch("INSERT INTO accounts (name, email, operator, created_at) VALUES ('a', '', 0, 1)")
    await db.fetch(
        "INSERT INTO clones (voice_id, account_id, name, language, transcript, sample, sample_bytes,"
        " sample_sha256, sample_ms, consent_by, consent_text, consent_at, status, created_at, epoch,"
        " token_hash, node_id, leased_at, lease_until)"
        " VALUES ('v', 1, 'V', 'zh', 't', 's', 1, $1, 1, 'c', 'c', 1, 1, 1, 1, $1, 1, 1, now_ms() + 60000)",
        hashlib.sha256(TOKEN.encode()).digest(),
    )


@contextlib.asynccontextmanager
async def _serving(uploads: Uploads) -> AsyncIterator[int]:
    settings = Settings(port=free_port())
    app = Application(
        routes={"/up": {"POST": uploads.complete}},
        fallback=_nothing_else,
        limits=BodyLimits(2**20, 1.0, BodyBudget(2**24)),
        access=AccessLog(len),
    )
    running = server.Server(server.configure(app, settings))
    running.config.lifespan = "off"
    task = asyncio.create_task(running.serve(sockets=[server.listen(settings)]))
    await until(lambda: running.started)
    yield settings.port
    running.should_exit = True
    await task


async def _nothing_else(*_: object) -> None:
    raise AssertionError("there is only one route")


async def send_slowly(client: RawConnection, data: bytes, bytes_per_s: float) -> None:
    """Sends at this rate, in ten pieces a second."""
    step = max(1, int(bytes_per_s / 10))
    for at in range(0, len(data), step):
        client.send(data[at : at + step])
        await asyncio.sleep(0.1)


async def test_an_upload_below_the_minimum_rate_is_aborted_and_removed(upload_server: UploadServer) -> None:
    client = await upload_server.begin(mp3(10))
    began = time.monotonic()
    trickle = asyncio.create_task(send_slowly(client, mp3(10), bytes_per_s=SLOWEST_BYTES_PER_S / 10))
    status, body = await client.answer()
    assert (status, b"send it faster" in body) == (400, True)
    assert time.monotonic() - began < SOON_S
    assert upload_server.files == []
    assert await client.is_closed()
    trickle.cancel()
    await client.disconnect()


async def test_a_stalled_upload_is_aborted(upload_server: UploadServer) -> None:
    client = await upload_server.begin(mp3(60))
    client.send(mp3(60)[:-1])
    began = time.monotonic()
    assert (await client.answer())[0] == 400
    assert time.monotonic() - began < SOON_S
    assert upload_server.files == []
    await client.disconnect()


async def test_an_upload_above_the_minimum_rate_may_take_long(
    upload_server: UploadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience_s = 3.0  # a loaded machine may stall this test for a second or two
    audio = mp3(2)
    bytes_per_s = len(audio) / (2.2 * patience_s)
    monkeypatch.setattr(upload, "PATIENCE_S", patience_s)
    monkeypatch.setattr(upload, "SLOWEST_BYTES_PER_S", bytes_per_s / 4)
    client = await upload_server.begin(audio)
    await send_slowly(client, audio, bytes_per_s)
    assert (await client.answer())[0] == 200
    (kept,) = upload_server.files
    assert kept.read_bytes() == audio
    await client.disconnect()


def test_the_minimum_rate_is_below_one_megabyte_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert upload.SLOWEST_BYTES_PER_S < 2**20 / 60


async def test_an_upload_is_refused_also_if_its_file_cannot_be_removed(
    upload_server: UploadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pathlib.Path.unlink", read_only)
    client = await upload_server.begin(mp3(10))
    status, body = await client.answer()
    assert (status, b"send it faster" in body) == (400, True)
    await client.disconnect()


async def test_with_a_stalled_disk_uploads_are_503(
    upload_server: UploadServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("myna.files.disk_threads.QUEUE_MAX", 0)
    client = await upload_server.begin(mp3(10))
    status, body = await client.answer()
    assert (status, b"Send it again." in body) == (503, True)
    assert upload_server.files == []
    await client.disconnect()
