"""The edge of /farm/v1, for compute nodes: bytes to structs and back, no decisions.

The audio of a job is written to a file, which the job then names. A file that no job names is removed at
once, unless the commit is in doubt: then the maintenance job that removes unreferenced files decides later.
"""

import asyncio
import re
import sys
from dataclasses import dataclass

from msgspec import Struct, structs

from myna.accounts.throttle import KeyThrottle
from myna.api.node_auth import ConcurrencyLimits, NodeAuth
from myna.engines.interface import EngineFailed, NoAudio
from myna.engines.media.media import Inspector
from myna.errors import (
    BodyTooLarge,
    DatabaseUnavailable,
    DiskFull,
    InvalidRequest,
    MynaError,
    NotFound,
    StaleLease,
    Unavailable,
)
from myna.farm.nodes import Nodes
from myna.farm.tasks import Tasks
from myna.http.asgi import Routes
from myna.http.request import Request
from myna.http.responses import Response, envelope
from myna.lib.aio import cancel_and_wait
from myna.lib.files import AtomicFile, DiskExecutor
from myna.lib.shares import Shares
from myna.settings import Settings
from myna.speech.plan import sound_s
from myna.store.batch import Audio
from myna.store.database import Database
from myna.store.files.named_files import AudioStore, SampleStore
from myna.store.files.storage import FreeSpace
from myna.store.queries.farm.nodes import NodeRow
from myna.wire.body import to_json
from myna.wire.farm import (
    AUDIO_MAX_BYTES,
    JOB_HEADER,
    POLL_MAX_S,
    PREFIX,
    SHA256_HEADER,
    Done,
    Failure,
    Heartbeats,
    HeartbeatsAnswer,
    Hello,
    Job,
    Join,
    Lease,
    Leased,
    LeaseKey,
    LeaseProof,
    Welcome,
)

NO_REASON = "the node gave no reason"
STOPPING_CHECK_S = 1.0
"""How often an open poll checks whether the process is shutting down."""
SLOWEST_BYTES_PER_S = 8 * 1024
"""Minimum average rate of an upload: a slower one would occupy a slot for hours."""
NODE_BYTES_MAX = 2 * AUDIO_MAX_BYTES
"""Limit on the bytes of a node's uploads in progress, over all its jobs."""
SENT_ALREADY = "Audio for this job is being sent already; send it again when that has ended."
TOO_MANY_BYTES = f"The uploads of this node would exceed {NODE_BYTES_MAX} bytes; send it again later."
LONGER_MAX, LONGER_MAX_S = 2.0, 10.0
"""How much longer than the estimate for its text a sound may be: by a factor, and by seconds. The estimate is
a maximum, measured with the embedded voices."""
_SHA256 = re.compile(r"[0-9a-f]{64}")
DONE = to_json(Done())


@dataclass(eq=False, kw_only=True)
class FarmApi:
    """Handlers of the endpoints for compute nodes."""

    settings: Settings
    db: Database
    nodes: Nodes
    tasks: Tasks
    audio: AudioStore
    samples: SampleStore
    inspector: Inspector
    space: FreeSpace
    throttle: KeyThrottle

    def __post_init__(self) -> None:
        self._node_auth = NodeAuth(self.db, self.nodes, self.settings.charge_wait_s, self.throttle)
        self._in_flight = ConcurrencyLimits()
        self._uploads = Uploads(self._node_auth, self.tasks, self.audio, self.inspector, self.space)

    def routes(self) -> Routes:
        """By exact path."""
        handlers: Routes = {
            f"{PREFIX}/hello": {"POST": self.hello},
            f"{PREFIX}/lease": {"POST": self.lease},
            f"{PREFIX}/beat": {"POST": self.beat},
            f"{PREFIX}/reference": {"GET": self.reference},
            f"{PREFIX}/complete": {"POST": self._uploads.complete},
            f"{PREFIX}/fail": {"POST": self.fail},
        }
        limited = {
            path: {method: self._in_flight.limited(handler) for method, handler in methods.items()}
            for path, methods in handlers.items()
        }
        return {f"{PREFIX}/join": {"POST": self.join}, **limited}

    async def join(self, request: Request) -> Response:
        body = await self._node_auth.unauthenticated_body(request, Join)
        _check_printable("version", body.version)
        with self._in_flight.join():
            return _answer(await self._node_auth.join(request, body))

    async def hello(self, request: Request) -> Response:
        node, hello = await self._node_auth.node_and_body(request, Hello)
        _check_offer(hello)
        await self._node_auth.in_time(self.nodes.hello(node, hello))
        lease_s, beat_s = self.settings.lease_s, self.settings.beat_s
        return _answer(Welcome(name=node.name, lease_s=lease_s, beat_s=beat_s, poll_max_s=POLL_MAX_S))

    async def lease(self, request: Request) -> Response:
        node, body = await self._node_auth.node_and_body(request, Lease)
        await self._node_auth.in_time(self.nodes.record_request(node))
        forget = await self._node_auth.in_time(self.tasks.unused_samples(body.references))
        wait_s = 0.0 if forget else body.wait_s  # deleted samples are reported without delay
        polling = asyncio.ensure_future(self._poll(request, node, body.jobs, wait_s))
        disconnected = asyncio.ensure_future(request.disconnected())
        try:
            while not polling.done() and not disconnected.done() and not request.stopping:
                await asyncio.wait(
                    {polling, disconnected}, timeout=STOPPING_CHECK_S, return_when=asyncio.FIRST_COMPLETED
                )
            if not polling.done():  # disconnected, or shutting down: lease no job
                return _answer(Leased([], forget))
            found = await polling
            if found and disconnected.done():  # the node would not receive them
                await self.tasks.requeue(node.id, found)
                found = []
            return _answer(Leased(found, forget))
        finally:
            await cancel_and_wait(polling, disconnected)

    async def beat(self, request: Request) -> Response:
        node, body = await self._node_auth.node_and_body(request, Heartbeats)
        if node.heard_at:  # a node that shuts down may still have jobs, and stays offline
            await self._node_auth.in_time(self.nodes.record_request(node))
        cancel = await self._node_auth.in_time(self.tasks.beat(node.id, body.beats))
        return _answer(HeartbeatsAnswer(self.settings.lease_s, cancel))

    async def reference(self, request: Request) -> Response:
        node = await self._node_auth.verify(request)
        name = await self._node_auth.in_time(self.tasks.reference(node.id, _sha256(request)))
        stored = await asyncio.to_thread(self.samples.stat, name) if name else None
        if not name or stored is None:
            raise NotFound("No job that this node has leased uses such a sample.")
        sample = await asyncio.to_thread(self.samples.read, name, 0, stored.size_bytes)
        return Response(sample, media_type=b"audio/wav")

    async def fail(self, request: Request) -> Response:
        node, failure = await self._node_auth.node_and_body(request, Failure)
        await self.tasks.fail(node.id, structs.replace(failure, reason=_one_line(failure.reason)))
        return _answer(Done())

    async def _poll(self, request: Request, node: NodeRow, jobs: int, wait_s: float) -> list[Job]:
        """Leases jobs; returns none after `wait_s`. Authenticates the node again after the lease: the jobs of
        a node that was disabled during the poll are requeued."""
        try:
            found = await self.tasks.lease(node.id, jobs, wait_s)
        except self.db.unavailable:
            raise DatabaseUnavailable from None
        try:
            await self._node_auth.verify(request)
        except BaseException:
            if found:
                await self.tasks.requeue(node.id, found)
            raise
        return found


def _answer(struct: Struct) -> Response:
    return Response(to_json(struct))


def _check_offer(hello: Hello) -> None:
    """Raises InvalidRequest for an invalid offer."""
    _check_printable("version", hello.version)
    voices = {voice.voice_id: voice for voice in hello.voices}
    if len(voices) < len(hello.voices):
        raise InvalidRequest("duplicate voice_id; send each once.", field="voices")
    if len(set(hello.clones)) < len(hello.clones):
        raise InvalidRequest("duplicate language; send each once.", field="clones")
    for voice in hello.voices:
        _check_printable("voices: name", voice.name)


def _check_printable(field: str, text: str) -> None:
    if not text.isprintable():
        raise InvalidRequest("must be printable.", field=field)


def _one_line(reason: str) -> str:
    """The failure message of a node as one printable line."""
    return "".join(char if char.isprintable() else " " for char in reason).strip() or NO_REASON


def _sha256(request: Request) -> bytes:
    return _digest(request.query().get("sha256", ""), field="sha256")


def _digest(text: str, field: str) -> bytes:
    if not _SHA256.fullmatch(text):
        raise InvalidRequest("must be 64 hex digits.", field=field)
    return bytes.fromhex(text)


@dataclass(eq=False)
class Uploads:
    """Receives the audio of finished jobs."""

    node_auth: NodeAuth
    tasks: Tasks
    audio: AudioStore
    inspector: Inspector
    space: FreeSpace

    def __post_init__(self) -> None:
        self._disk = DiskExecutor()
        self._leases = Shares[LeaseKey](sys.maxsize, 1, lambda: Unavailable(SENT_ALREADY))
        self._bytes = Shares[int](sys.maxsize, NODE_BYTES_MAX, lambda: Unavailable(TOO_MANY_BYTES))

    async def complete(self, request: Request) -> Response:
        """Completes a job; succeeds again for a completed one. An error closes the connection, since the rest
        of the body is not read."""
        try:
            await self._complete(request)
        except MynaError as refusal:
            return structs.replace(envelope(refusal), close=True)
        return Response(DONE)

    async def _complete(self, request: Request) -> None:
        node = await self.node_auth.verify(request)
        if self.space.low:
            raise DiskFull("The server has no space for new audio; send it again later.")
        lease, sha256, size_bytes = _upload_headers(request)
        if not await self.node_auth.in_time(self.tasks.has_lease(node.id, lease)):
            raise StaleLease
        with self._leases.place(lease.key), self._bytes.place(node.id, size_bytes):
            audio = await self._received(request, lease, sha256, node.id)
        try:
            in_use = await self.tasks.complete(node.id, lease, audio)
        except StaleLease:
            await self.audio.discard(audio.name)
            raise
        if not in_use:
            await self.audio.discard(audio.name)

    async def _received(self, request: Request, lease: LeaseProof, sha256: bytes, node_id: int) -> Audio:
        """Writes the body to a file, checks its hash and audio, and makes it durable."""
        if self._disk.full():
            raise Unavailable("Too many disk writes are waiting. Send it again.")
        name, path = self.audio.new()
        file = AtomicFile(path)
        try:
            await self._disk.run_metadata(file.begin)
            await request.receive(lambda data, more: file.write(data), SLOWEST_BYTES_PER_S)
            if file.sha256 != sha256:
                raise InvalidRequest("differs from the body's; send the audio again.", field=SHA256_HEADER)
            await self._disk.run(file.flush)
            await self._inspect(file, lease, node_id)
            await self._disk.run(file.commit)
            await self.audio.keep(name)
        except BaseException:
            await self._disk.clean_up(file.undo)
            raise
        return Audio(name, file.size_bytes, sha256)

    async def _inspect(self, file: AtomicFile, lease: LeaseProof, node_id: int) -> None:
        try:
            inspected = await self.inspector.speech(file.part, sender=node_id)
        except NoAudio as failure:
            raise InvalidRequest(f"The body is not audio that can be stored: {failure}") from None
        except EngineFailed as failure:
            raise Unavailable(f"The audio can't be checked now: {failure} Send it again.") from None
        text, speed = await self.node_auth.in_time(self.tasks.text(lease))
        most_s = LONGER_MAX * await asyncio.to_thread(sound_s, text, speed) + LONGER_MAX_S
        if inspected.seconds > most_s:
            reason = f"The audio has {inspected.seconds:.1f} s; this text makes at most {most_s:.1f} s."
            await self.tasks.fail(node_id, Failure(lease, reason))
            raise InvalidRequest(reason)


def _upload_headers(request: Request) -> tuple[LeaseProof, bytes, int]:
    """The lease, the SHA-256 and the size of the body."""
    size_bytes = request.declared_bytes
    if not size_bytes:
        raise InvalidRequest(
            "is missing or 0; the body must be audio of a declared size.", field="Content-Length"
        )
    if size_bytes > AUDIO_MAX_BYTES:
        raise BodyTooLarge(AUDIO_MAX_BYTES)
    lease = LeaseProof.from_header((request.header(JOB_HEADER.encode()) or b"").decode("latin-1"))
    if lease is None:
        raise InvalidRequest("must be kind, id, epoch and token of a job.", field=JOB_HEADER)
    sha256 = (request.header(SHA256_HEADER.encode()) or b"").decode("latin-1")
    return lease, _digest(sha256, SHA256_HEADER), size_bytes
