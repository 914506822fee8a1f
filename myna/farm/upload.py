"""POST /complete: the audio of a job, from the socket into a file of its own, then named by the job.

A file that no job names is removed at once, whatever went wrong, unless the database left it open whether
the job names it: then it stays, and the collector of orphans looks later.
"""

import asyncio
import re

from msgspec import Struct, structs

from myna.disk_threads import Disk
from myna.edge import Request, Response, envelope
from myna.engines.listener import Listener
from myna.engines.spoken import EngineFailed, NoAudio
from myna.errors import BodyTooLarge, BodyTooSlow, InvalidRequest, MynaError, Stale, Unavailable
from myna.farm.door import Door
from myna.sound.landing import Landing
from myna.store.audio import AudioStore
from myna.store.batch import Audio
from myna.tasks import Tasks
from myna.wire.encode import to_json
from myna.wire.farm import AUDIO_MAX_BYTES, JOB_HEADER, SHA256_HEADER, Done, Held

PATIENCE_S = 30.0
"""How long a line may stand still."""
SLOWEST_BYTES_PER_S = 8 * 1024
"""A line that is slower than this all the time is given up: it would hold its place for hours."""
_JOB = re.compile(r"(task|clone) ([0-9]{1,16}) ([0-9]{1,16}) ([!-~]{1,100})")
_SHA256 = re.compile(r"[0-9a-f]{64}")
DONE = to_json(Done()).encode()


class Announced(Struct, frozen=True):
    """What the headers say of the body."""

    held: Held
    sha256: bytes


class Uploads:
    """Takes the audio of finished jobs."""

    def __init__(self, door: Door, tasks: Tasks, audio: AudioStore, listener: Listener) -> None:
        self._door, self._tasks, self._audio, self._listener = door, tasks, audio, listener
        self._disk = Disk()

    async def complete(self, request: Request) -> Response:
        """Kept, or done before. With a refusal the connection ends: the rest of the body isn't waited for."""
        try:
            await self._complete(request)
        except MynaError as refusal:
            return structs.replace(envelope(refusal), close=True)
        return Response(DONE)

    async def _complete(self, request: Request) -> None:
        node = await self._door.node(request)
        announced = _announced(request)
        if not await self._door.wait(self._tasks.holds(node.id, announced.held)):
            raise Stale
        audio = await self._landed(request, announced, node.id)
        try:
            named = await self._tasks.complete(node.id, announced.held, audio)
        except Stale:
            await self._audio.discard(audio.name)
            raise
        if not named:
            await self._audio.discard(audio.name)

    async def _landed(self, request: Request, announced: Announced, node_id: int) -> Audio:
        """The body as a file that is what was announced, and speech, and on disk for good."""
        if self._disk.full():
            raise Unavailable("The disk has as many files waiting as it takes. Send it again.")
        name, path = self._audio.new(".mp3")
        landing = Landing(path)
        try:
            await self._disk.named(landing.begin)
            await _pour(request, landing)
            if landing.sha256 != announced.sha256:
                raise InvalidRequest(f"{SHA256_HEADER}: isn't that of the body; send the audio again.")
            await self._disk.done(landing.flush)
            await self._listen(landing, node_id)
            await self._disk.done(landing.commit)
        except BaseException:
            await self._disk.cleared(landing.undo)
            raise
        return Audio(name, landing.size_bytes, announced.sha256)

    async def _listen(self, landing: Landing, node_id: int) -> None:
        try:
            await self._listener.speech(landing.part, sender=node_id)
        except NoAudio as failure:
            raise InvalidRequest(f"The body is no audio that can be kept: {failure}") from None
        except EngineFailed as failure:
            raise Unavailable(f"The audio can't be listened to now: {failure} Send it again.") from None


async def _pour(request: Request, landing: Landing) -> None:
    """The body into the landing. By and large it must be faster than the slowest line that is waited for."""
    clock = asyncio.get_running_loop().time
    began, more = clock(), True
    while more:
        until = min(clock(), began + landing.size_bytes / SLOWEST_BYTES_PER_S) + PATIENCE_S
        try:
            async with asyncio.timeout_at(until):
                data, more = await request.part()
        except TimeoutError:
            raise BodyTooSlow(round(clock() - began, 1)) from None
        landing.write(data)


def _announced(request: Request) -> Announced:
    size_bytes = request.declared_bytes
    if not size_bytes:
        raise InvalidRequest("Content-Length: the body must be audio, its size told before.")
    if size_bytes > AUDIO_MAX_BYTES:
        raise BodyTooLarge(AUDIO_MAX_BYTES)
    job = _JOB.fullmatch((request.header(JOB_HEADER.encode()) or b"").decode("latin-1"))
    if not job:
        raise InvalidRequest(f"{JOB_HEADER}: must be kind, id, epoch and token of a job.")
    sha256 = (request.header(SHA256_HEADER.encode()) or b"").decode("latin-1")
    if not _SHA256.fullmatch(sha256):
        raise InvalidRequest(f"{SHA256_HEADER}: must be 64 hex digits.")
    kind, job_id, epoch, token = job.groups()
    held = Held("task" if kind == "task" else "clone", int(job_id), int(epoch), token)
    return Announced(held, bytes.fromhex(sha256))
