"""POST /complete: writes the audio of a job to a file, then completes the job with the file's name.

A file that no job names is removed at once, unless the commit is in doubt: then the maintenance job that
removes unreferenced files decides later.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct, structs

from myna.api.farm.auth import NodeAuth
from myna.engines.interface import EngineFailed, NoAudio
from myna.engines.media.media import Inspector
from myna.errors import (
    BodyTooLarge,
    BodyTooSlow,
    DiskFull,
    InvalidRequest,
    MynaError,
    StaleLease,
    Unavailable,
)
from myna.farm.tasks import Tasks
from myna.http.request import Request
from myna.http.responses import Response, envelope
from myna.lib.files import AtomicFile, DiskExecutor
from myna.speech.plan import sound_s
from myna.store.batch import Audio
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import FreeSpace
from myna.wire.body import to_json
from myna.wire.farm import AUDIO_MAX_BYTES, JOB_HEADER, SHA256_HEADER, Done, Failure, LeaseProof

PATIENCE_S = 30.0
"""How long a client may send nothing."""
SLOWEST_BYTES_PER_S = 8 * 1024
"""Minimum average rate of an upload: a slower one would occupy a slot for hours."""
NODE_BYTES_MAX = 2 * AUDIO_MAX_BYTES
"""Limit on the bytes of a node's uploads in progress, over all its jobs."""
LONGER_MAX, LONGER_MAX_S = 2.0, 10.0
"""How much longer than the estimate for its text a sound may be: by a factor, and by seconds. The estimate is
a maximum, measured with the embedded voices."""
_JOB = re.compile(r"(task|clone) ([0-9]{1,16}) ([0-9]{1,16}) ([!-~]{1,100})")
_SHA256 = re.compile(r"[0-9a-f]{64}")
DONE = to_json(Done())


class UploadHeaders(Struct, frozen=True):
    """The headers that describe the body."""

    lease: LeaseProof
    sha256: bytes
    size_bytes: int


class Uploads:
    """Receives the audio of finished jobs."""

    def __init__(
        self, node_auth: NodeAuth, tasks: Tasks, audio: AudioStore, inspector: Inspector, space: FreeSpace
    ) -> None:
        self._node_auth = node_auth
        self._tasks = tasks
        self._audio = audio
        self._inspector = inspector
        self._space = space
        self._disk = DiskExecutor()
        self._leases: set[tuple[str, int, int]] = set()
        self._bytes: Counter[int] = Counter()

    async def complete(self, request: Request) -> Response:
        """Completes a job; succeeds again for a completed one. An error closes the connection, since the rest
        of the body is not read."""
        try:
            await self._complete(request)
        except MynaError as refusal:
            return structs.replace(envelope(refusal), close=True)
        return Response(DONE)

    async def _complete(self, request: Request) -> None:
        node = await self._node_auth.verify(request)
        if self._space.low:
            raise DiskFull("The server has no space for new audio; send it again later.")
        headers = _upload_headers(request)
        if not await self._node_auth.in_time(self._tasks.has_lease(node.id, headers.lease)):
            raise StaleLease
        with self._in_flight(node.id, headers):
            audio = await self._received(request, headers, node.id)
        try:
            in_use = await self._tasks.complete(node.id, headers.lease, audio)
        except StaleLease:
            await self._audio.discard(audio.name)
            raise
        if not in_use:
            await self._audio.discard(audio.name)

    @contextmanager
    def _in_flight(self, node_id: int, headers: UploadHeaders) -> Iterator[None]:
        """Raises Unavailable for a second upload of one lease, or if the node's uploads exceed
        NODE_BYTES_MAX."""
        size_bytes = headers.size_bytes
        lease = (headers.lease.kind, headers.lease.id, headers.lease.epoch)
        if lease in self._leases:
            raise Unavailable("Audio for this job is being sent already; send it again when that has ended.")
        if self._bytes[node_id] + size_bytes > NODE_BYTES_MAX:
            raise Unavailable(
                f"The uploads of this node would exceed {NODE_BYTES_MAX} bytes; send it again later."
            )
        self._leases.add(lease)
        self._bytes[node_id] += size_bytes
        try:
            yield
        finally:
            self._leases.discard(lease)
            self._bytes[node_id] -= size_bytes
            if not self._bytes[node_id]:
                del self._bytes[node_id]

    async def _received(self, request: Request, headers: UploadHeaders, node_id: int) -> Audio:
        """Writes the body to a file, checks its hash and audio, and makes it durable."""
        if self._disk.full():
            raise Unavailable("Too many disk writes are waiting. Send it again.")
        name, path = self._audio.new()
        file = AtomicFile(path)
        try:
            await self._disk.run_metadata(file.begin)
            await _receive_into(request, file)
            if file.sha256 != headers.sha256:
                raise InvalidRequest("differs from the body's; send the audio again.", field=SHA256_HEADER)
            await self._disk.run(file.flush)
            await self._inspect(file, headers.lease, node_id)
            await self._disk.run(file.commit)
            await self._audio.keep(name)
        except BaseException:
            await self._disk.clean_up(file.undo)
            raise
        return Audio(name, file.size_bytes, headers.sha256)

    async def _inspect(self, file: AtomicFile, lease: LeaseProof, node_id: int) -> None:
        try:
            inspected = await self._inspector.speech(file.part, sender=node_id)
        except NoAudio as failure:
            raise InvalidRequest(f"The body is not audio that can be stored: {failure}") from None
        except EngineFailed as failure:
            raise Unavailable(f"The audio can't be checked now: {failure} Send it again.") from None
        text, speed = await self._node_auth.in_time(self._tasks.text(lease))
        most_s = LONGER_MAX * await asyncio.to_thread(sound_s, text, speed) + LONGER_MAX_S
        if inspected.seconds > most_s:
            reason = f"The audio has {inspected.seconds:.1f} s; this text makes at most {most_s:.1f} s."
            await self._tasks.fail(node_id, Failure(lease, reason))
            raise InvalidRequest(reason)


async def _receive_into(request: Request, file: AtomicFile) -> None:
    """Writes the body to `file`. Raises BodyTooSlow below SLOWEST_BYTES_PER_S or after PATIENCE_S of
    silence."""
    clock = asyncio.get_running_loop().time
    began, more = clock(), True
    while more:
        until = min(clock(), began + file.size_bytes / SLOWEST_BYTES_PER_S) + PATIENCE_S
        try:
            async with asyncio.timeout_at(until):
                data, more = await request.part()
        except TimeoutError:
            raise BodyTooSlow(round(clock() - began, 1)) from None
        file.write(data)


def _upload_headers(request: Request) -> UploadHeaders:
    size_bytes = request.declared_bytes
    if not size_bytes:
        raise InvalidRequest(
            "is missing or 0; the body must be audio of a declared size.", field="Content-Length"
        )
    if size_bytes > AUDIO_MAX_BYTES:
        raise BodyTooLarge(AUDIO_MAX_BYTES)
    job = _JOB.fullmatch((request.header(JOB_HEADER.encode()) or b"").decode("latin-1"))
    if not job:
        raise InvalidRequest("must be kind, id, epoch and token of a job.", field=JOB_HEADER)
    sha256 = (request.header(SHA256_HEADER.encode()) or b"").decode("latin-1")
    if not _SHA256.fullmatch(sha256):
        raise InvalidRequest("must be 64 hex digits.", field=SHA256_HEADER)
    kind, job_id, epoch, token = job.groups()
    lease = LeaseProof(
        kind="task" if kind == "task" else "clone", id=int(job_id), epoch=int(epoch), token=token
    )
    return UploadHeaders(lease, bytes.fromhex(sha256), size_bytes)
