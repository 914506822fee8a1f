"""Clients of the protocol of compute nodes, which send one request at a time."""

import asyncio
import hashlib
import itertools
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from myna.settings import Settings
from myna.store.database import Transaction, connect
from myna.wire.farm import JOB_HEADER, PREFIX, PROTOCOL, PROTOCOL_HEADER, SHA256_HEADER, LeaseProof
from tests.rig import samples
from tests.rig.calls import Answer, Wire, call
from tests.rig.service import Service
from tests.rig.waiting import wait_until

HEADERS = {PROTOCOL_HEADER: str(PROTOCOL)}
POLL_S = 20
POLL_START_DEADLINE_S = 30

_numbers = itertools.count(1)


@dataclass(frozen=True)
class NodeClient:
    """A node that has joined under `name`, with its credential."""

    service: Service
    name: str
    credential: str

    def ask(self, what: str, data: Any, **more: Any) -> Answer:
        """Sends a request with this body, which may have structs in it."""
        url, content = f"{self.service.root_url}{PREFIX}/{what}", msgspec.to_builtins(data)
        return call("POST", url, key=self.credential, data=content, headers=HEADERS, **more)

    def hello(self, *voices: str, clones: Sequence[str] = (), **more: Any) -> Any:
        """Says hello with voices of these ids."""
        offered = [
            {"voice_id": v, "name": f"Voice {v}", "gender": "female", "language": "zh-CN"} for v in voices
        ]
        answer = self.ask("hello", {"voices": offered, "clones": list(clones), "slots": 2, **more})
        assert answer.status == 200, answer
        return answer.json

    def lease(self, *, jobs: int = 1, wait_s: float = POLL_S) -> list[dict[str, Any]]:
        answer = self.ask("lease", {"jobs": jobs, "wait_s": wait_s})
        assert answer.status == 200, answer
        found: list[dict[str, Any]] = answer.json["jobs"]
        return found

    def take(self) -> LeaseProof:
        """Leases the next job."""
        (found,) = self.lease()
        return proof_of(found)

    def complete(self, job: LeaseProof, audio: bytes, **headers: str) -> Answer:
        url, sent = f"{self.service.root_url}{PREFIX}/complete", self.upload_headers(job, audio) | headers
        return call("POST", url, key=self.credential, body=audio, headers=sent)

    def upload_headers(self, job: LeaseProof, audio: bytes) -> dict[str, str]:
        return {
            **HEADERS,
            JOB_HEADER: job.header,
            SHA256_HEADER: hashlib.sha256(audio).hexdigest(),
            "Content-Type": "audio/mpeg",
        }

    def begin(self, wire: Wire, job: LeaseProof, audio: bytes, *, size: int | None = None) -> None:
        """Sends the head of a `complete`. The caller sends the body."""
        headers = self.upload_headers(job, audio) | {
            "Authorization": f"Bearer {self.credential}",
            "Content-Length": str(len(audio) if size is None else size),
        }
        wire.head(
            f"POST {PREFIX}/complete HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())
        )

    @property
    def listed(self) -> dict[str, Any]:
        """The row of this node in `myna node list`."""
        (found,) = [row for row in self.service.cli("node", "list") if row["name"] == self.name]
        return dict(found)


@dataclass(frozen=True)
class NodeSite:
    """A running service with nodes."""

    service: Service

    def url(self, what: str) -> str:
        return f"{self.service.root_url}{PREFIX}/{what}"

    def token(self, name: str | None = None, *more: str) -> str:
        """A join token for the named node, or for a new one."""
        return str(self.service.cli("node", "enroll", name or new_name(), *more)["token"])

    def join(self, token: str, **more: Any) -> Answer:
        return call(
            "POST", self.url("join"), data={"token": token, "version": "0.1"}, headers=HEADERS, **more
        )

    def node(self, *voices: str, clones: Sequence[str] = ()) -> NodeClient:
        """Joins a new node. With voices or clones, it has said hello."""
        name = new_name()
        node = NodeClient(self.service, name, self.join(self.token(name)).json["credential"])
        if voices or clones:
            node.hello(*voices, clones=clones)
        return node

    def listed(self, key: str) -> dict[str, dict[str, Any]]:
        """The voices of GET /v1/voices by id."""
        answer = call("GET", f"{self.service.base_url}/voices", key=key)
        return {voice["voice_id"]: voice for voice in answer.json["data"]}

    def order(self, key: str, voice: str, text: str = "你好，世界") -> int:
        """Orders speech and returns the id of the task."""
        answer = call("POST", f"{self.service.base_url}/tts", key=key, data={"text": text, "voice_id": voice})
        assert answer.status == 200, answer
        assert answer.json["mode"] == "async"
        return int(answer.json["id"])

    def task(self, key: str, task_id: int) -> dict[str, Any]:
        found: dict[str, Any] = call("GET", f"{self.service.base_url}/task?id={task_id}", key=key).json[
            "data"
        ]
        return found

    def version(self) -> int:
        """The version of the configuration."""
        return int(self.sql("SELECT version FROM site")[0][0])

    def audio(self) -> set[Path]:
        """Every file below the audio folder, also incomplete ones."""
        return {path for path in (self.service.folder / "data" / "audio").rglob("*.*") if path.is_file()}

    def sql(self, statement: str, *args: object) -> list[tuple[Any, ...]]:
        """Runs one statement on the service's database, in one transaction."""
        return asyncio.run(self._sql(statement, args))

    async def _sql(self, statement: str, args: Sequence[object]) -> list[tuple[Any, ...]]:
        url = self.service.env.get("MYNA_DATABASE_URL", "")
        db = await connect(Settings(data=str(self.service.folder / "data"), database_url=url))

        async def work(connection: Transaction) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in await connection.fetch(statement, *args)]

        try:
            return await db.transaction(work)
        finally:
            await db.close()


each_database = pytest.mark.parametrize("site", ["sqlite", "postgresql"], indirect=True)


def open_poll(node: NodeClient, pool: ThreadPoolExecutor) -> Future[Answer]:
    """Starts a long poll and waits until the service has received it."""
    before = backdate(node)
    answer = pool.submit(node.ask, "lease", {"jobs": 1, "wait_s": POLL_S})
    wait_until(lambda: node.listed["heard_at"] > before, POLL_START_DEADLINE_S, "the poll has begun")
    return answer


def backdate(node: NodeClient) -> int:
    """Sets `heard_at` back by 10 s, so that the next request changes it. Returns it in seconds."""
    NodeSite(node.service).sql("UPDATE nodes SET heard_at = heard_at - 10000 WHERE name = $1", node.name)
    return int(node.listed["heard_at"])


def proof_of(job: dict[str, Any]) -> LeaseProof:
    """What proves the lease of a job of an answer."""
    return LeaseProof(job["kind"], job["id"], job["epoch"], job["token"])


def new_name() -> str:
    return f"node-{next(_numbers)}"


def new_voice() -> str:
    """An unused voice id."""
    return f"voice-{next(_numbers)}"


def mp3(seconds: float = 0.5) -> bytes:
    """An audible tone."""
    return samples.mp3(seconds, rate_hz=16_000, kbps=128)
