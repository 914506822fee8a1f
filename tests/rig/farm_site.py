"""A fake service for compute nodes on a real socket: it speaks the protocol, with faults on request.

`site.faults["lease"].append("status:500")` makes the next lease fail so; each fault is used once. While it is
`unavailable` everything is 503; a node that it doesn't admit gets 401; with another `protocol` it is 426.

status:N      answered with N and the envelope of errors          hang   no answer while the service runs
garbled       200 with JSON that is none of the protocol          cut    closed without an answer, not done
redirect      a 301 to somewhere else                             lose   done, and closed without an answer
not-json      200 with a web page
"""

import contextlib
import hashlib
import itertools
import json
import secrets
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from myna.wire.farm import (
    JOB_HEADER,
    PREFIX,
    PROTOCOL,
    SHA256_HEADER,
    Done,
    Failure,
    Heartbeat,
    Heartbeats,
    HeartbeatsAnswer,
    Hello,
    Job,
    JobKind,
    JobReference,
    Join,
    Joined,
    Lease,
    Leased,
    LeaseKey,
    LeaseProof,
    Welcome,
)
from tests.rig.http_server import Exchange, LoopbackServer
from tests.rig.waiting import wait_until


class FarmSite:
    """A running service. It records requests in `hellos`, `leases`, `beats`, `completed` and `failed`."""

    def __init__(self) -> None:
        self.token = "mynajoin_" + secrets.token_hex(20)
        self.credential = "mynanode_" + secrets.token_hex(20)
        self.admits = True
        self.unavailable = False
        self.protocol = PROTOCOL
        self.lease_s = 30.0
        self.beat_s = 0.1
        self.poll_max_s = 25.0
        self.hellos: list[Hello] = []
        self.leases: list[Lease] = []
        self.beats: list[Heartbeat] = []
        self.failed: list[Failure] = []
        self.completed: dict[LeaseKey, bytes] = {}
        self._uploaded: dict[LeaseKey, list[bytes]] = defaultdict(list)
        self.requests = 0
        self.references: dict[str, bytes] = {}
        self.fetched: list[str] = []
        self.forget: list[str] = []
        self.cancelled: set[LeaseKey] = set()
        self.faults: dict[str, list[str]] = defaultdict(list)
        self._queue: list[Job] = []
        self._leased: dict[LeaseKey, Job] = {}
        self._ids = itertools.count(1)
        self._changed = threading.Condition()
        self._server: _Server | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Listens; after a stop at the same port."""
        self._server = _Server(self)
        self.port = self._server.server_port

    def stop(self) -> None:
        """Closes all connections and the listener, and waits for its threads. Idempotent."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.disconnect_all()
            self.notify()
            server.server_close()  # waits for open polls: one left over would take a job of the next start

    @property
    def is_running(self) -> bool:
        return self._server is not None

    def notify(self) -> None:
        """Notifies open polls of a change."""
        with self._changed:
            self._changed.notify_all()

    def order(
        self, text: str = "你好。", voice_id: str = "zh-female-1", *, speed: float = 1.0,
        kind: JobKind = "task", reference: JobReference | None = None,
    ) -> Job:  # fmt: skip
        """Adds a job to the queue."""
        token = secrets.token_hex(16)
        lease = {"kind": kind, "id": next(self._ids), "epoch": 1, "token": token, "lease_s": self.lease_s}
        job = Job(**lease, text=text, voice_id=voice_id, speed=speed, reference=reference)
        with self._changed:
            self._queue.append(job)
            self._changed.notify_all()
        return job

    def keep_reference(self, wav: bytes, transcript: str, language: str = "zh") -> JobReference:
        sha256 = hashlib.sha256(wav).hexdigest()
        self.references[sha256] = wav
        return JobReference(sha256=sha256, size_bytes=len(wav), transcript=transcript, language=language)

    def wait(self, condition: Callable[[], bool], what: str, deadline_s: float = 60) -> None:
        wait_until(condition, deadline_s, f"{what}; failed: {self.failed}")

    def wait_completed(self, job: Job) -> bytes:
        """Waits for the audio of the job, and returns it."""
        self.wait(lambda: key_of(job) in self.completed, f"{job.kind} {job.id} is completed")
        return self.completed[key_of(job)]

    def uploads_of(self, job: Job) -> list[bytes]:
        """Every audio that was accepted for the job, also where the answer was lost."""
        return self._uploaded[key_of(job)]

    def wait_failed(self, job: Job) -> Failure:
        """Waits for the failure of the job, and returns it."""
        self.wait(lambda: bool(self.failures_of(job)), f"{job.kind} {job.id} is reported to have failed")
        return self.failures_of(job)[0]

    def failures_of(self, job: Job) -> list[Failure]:
        return [failure for failure in self.failed if key_of(failure.lease) == key_of(job)]

    def beats_of(self, job: Job) -> list[Heartbeat]:
        return [beat for beat in self.beats if key_of(beat.lease) == key_of(job)]

    # Answers to nodes: a status and a struct or bytes

    def answer(self, path: str, headers: dict[str, str], query: str, body: bytes) -> tuple[int, Any]:
        if self.unavailable:
            return 503, "The database is unavailable."
        if headers.get("myna-farm") != str(self.protocol):
            return 426, "The site speaks another protocol; install its version of Myna."
        if path == "join":
            return self._join(msgspec.json.decode(body, type=Join))
        if not self.admits or headers.get("authorization") != f"Bearer {self.credential}":
            return 401, "The operator has disabled this node."
        if path == "reference":
            (sha256,) = parse_qs(query)["sha256"]
            self.fetched.append(sha256)
            return 200, self.references[sha256]
        if path == "complete":
            return self._complete(headers, body)
        shape, work = self._work[path]
        return work(self, msgspec.json.decode(body, type=shape))

    def _join(self, join: Join) -> tuple[int, Any]:
        if join.token != self.token:
            return 401, "This join token is unknown, used or older than an hour."
        self.token = ""
        return 200, Joined(self.credential, "box")

    def _hello(self, hello: Hello) -> tuple[int, Any]:
        self.hellos.append(hello)
        self.notify()
        return 200, Welcome(name="box", lease_s=self.lease_s, beat_s=self.beat_s, poll_max_s=self.poll_max_s)

    def _lease(self, lease: Lease) -> tuple[int, Any]:
        until = time.monotonic() + lease.wait_s
        with self._changed:
            self.leases.append(lease)
            forget, self.forget = [name for name in self.forget if name in lease.references], []
            while not self._queue and not forget and self.is_running and self.admits:
                left = until - time.monotonic()
                if left <= 0 or self.hellos[-1].shutting_down:
                    break
                self._changed.wait(left)
            if not self.admits:
                return 401, "The operator has disabled this node."
            jobs, self._queue = self._queue[: lease.jobs], self._queue[lease.jobs :]
            self._leased |= {key_of(job): job for job in jobs}
        return 200, Leased(jobs, forget)

    def _beat(self, beats: Heartbeats) -> tuple[int, Any]:
        self.beats += beats.beats
        over = self.cancelled | self.completed.keys()
        cancel = [beat.lease for beat in beats.beats if key_of(beat.lease) in over]
        return 200, HeartbeatsAnswer(self.lease_s, cancel)

    def _fail(self, failure: Failure) -> tuple[int, Any]:
        if key_of(failure.lease) not in self._leased:
            return 409, "The node has no lease of this job."
        self.failed.append(failure)
        return 200, Done()

    def _complete(self, headers: dict[str, str], audio: bytes) -> tuple[int, Any]:
        proof = LeaseProof.from_header(headers[JOB_HEADER])
        assert proof is not None
        job = self._leased.get(proof.key)
        if job is None or job.token != proof.token or proof.key in self.cancelled:
            return 409, "The node has no lease of this job."
        if hashlib.sha256(audio).hexdigest() != headers[SHA256_HEADER]:
            return 400, "The body isn't what was announced."
        self._uploaded[proof.key].append(audio)
        self.completed[proof.key] = audio
        return 200, Done()

    _work: dict[str, tuple[Any, Callable[..., tuple[int, Any]]]] = {  # noqa: RUF012  a constant
        "hello": (Hello, _hello), "lease": (Lease, _lease),
        "beat": (Heartbeats, _beat), "fail": (Failure, _fail),
    }  # fmt: skip


def key_of(job: Job | LeaseProof) -> LeaseKey:
    return (job if isinstance(job, LeaseProof) else job.lease).key


class _Server(LoopbackServer):
    daemon_threads = False  # its end waits for them

    def __init__(self, site: FarmSite) -> None:
        self._site = site
        self._open: set[socket.socket] = set()
        super().__init__(site.port)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def disconnect_all(self) -> None:
        for connection in tuple(self._open):
            with contextlib.suppress(OSError):  # the other side was faster
                connection.shutdown(socket.SHUT_RDWR)

    def answer(self, exchange: Exchange) -> None:
        site = self._site
        site.requests += 1
        parts = urlsplit(exchange.path)
        path = parts.path.removeprefix(f"{PREFIX}/")
        body = exchange.body()
        fault, _, argument = (site.faults[path].pop(0) if site.faults[path] else "").partition(":")
        if fault in ("cut", "hang"):
            wait_until(lambda: fault == "cut" or not site.is_running, 60, "the site ends")
            return exchange.disconnect()
        if fault == "status":
            return _say(exchange, int(argument), f"This is fault {argument}.")
        if fault == "redirect":
            return exchange.send(301, b"", "text/html", {"Location": "https://elsewhere.example"})
        if fault in ("garbled", "not-json"):
            return exchange.send(200, b"<html>" if fault == "not-json" else b'{"ok": "maybe"}', "text/html")
        headers = {name.lower(): value for name, value in exchange.headers.items()}
        status, answer = site.answer(path, headers, parts.query, body)
        if fault == "lose" or not site.is_running:
            return exchange.disconnect()
        return _say(exchange, status, answer)


def _say(exchange: Exchange, status: int, answer: Any) -> None:
    if status == 200:
        return exchange.send(200, answer if isinstance(answer, bytes) else msgspec.json.encode(answer))
    error = {"message": answer, "type": "some_error", "code": status}
    more = {"Upgrade": "myna-farm/2", "Connection": "upgrade"} if status == 426 else {}
    return exchange.send(status, json.dumps({"error": error}).encode(), headers=more)


@pytest.fixture
def farm_site() -> Iterator[FarmSite]:
    """A service of this test."""
    site = FarmSite()
    yield site
    site.stop()
