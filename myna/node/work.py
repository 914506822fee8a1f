"""The leased jobs of a node. Each is spoken to a file, which is uploaded, or its failure is reported."""

import asyncio
import logging
import os
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from myna.engines.interface import (
    EngineFailed,
    NothingSpoken,
    SpeechResult,
    UnsupportedUtterance,
    Utterance,
    UtteranceRefused,
    VoiceReference,
)
from myna.lib.files import DiskExecutor, remove, write_atomically
from myna.node.engines import Engines, VoiceUnavailable
from myna.node.server_client import (
    Backoff,
    CredentialRefused,
    LeaseLost,
    OutageLog,
    ProtocolTooOld,
    RequestRefused,
    ServerClient,
    ServerFailed,
    ServerUnavailable,
)
from myna.wire.farm import AUDIO_MAX_BYTES, Failure, Job, JobReference, LeaseKey

T = TypeVar("T")
REASON_MAX_CHARS: Final = 300
REFERENCES_MAX: Final = 1000
"""Above this number the least recently used copy is deleted. It can be fetched again."""
_REFERENCE: Final = re.compile(r"([0-9a-f]{64})\.wav")
_FINAL: Final = (NothingSpoken, UnsupportedUtterance, UtteranceRefused)
"""Errors that other nodes would have as well."""
log = logging.getLogger(__name__)


class LeasedJob:
    """A job under way. It is dropped when the service cancels it or its lease expires.

    A heartbeat can cross the upload of the audio: the service then cancels a job that it has just completed.
    While `uploading`, such a cancellation is ignored, and the answer to the upload decides.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.lease = job.lease
        self.name = f"{job.kind} {job.id}"
        self.progress = 0.0
        self.uploading = False
        self.dropped = ""
        self._task: asyncio.Task[None] | None = None
        self._expiry: asyncio.TimerHandle | None = None

    def start(self, work: Coroutine[Any, Any, None], group: asyncio.TaskGroup) -> asyncio.Task[None]:
        """Runs the work in the group, and starts the timer of the lease."""
        self._task = group.create_task(work)
        self.extend(asyncio.get_running_loop().time() + self.job.lease_s)
        return self._task

    def extend(self, until: float) -> None:
        """Sets the expiry of the lease, in seconds of the event loop's clock."""
        if self._task is None or self._task.done() or self.dropped:
            return
        if self._expiry is not None:
            self._expiry.cancel()
        self._expiry = asyncio.get_running_loop().call_at(until, self.drop, "its lease expired")

    def drop(self, reason: str) -> None:
        """Cancels the work, and the engine's."""
        if self._task is not None and not self._task.done() and not self.dropped:
            self.dropped = reason
            self._task.cancel()

    def end(self) -> None:
        """Stops the timer of the lease."""
        if self._expiry is not None:
            self._expiry.cancel()


class LeasedJobs:
    """The leased jobs, at most `slots`."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._jobs: dict[LeaseKey, LeasedJob] = {}
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[LeasedJob]:
        return iter(tuple(self._jobs.values()))

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, leased: LeasedJob) -> bool:
        return leased.lease.key in self._jobs

    def free(self) -> int:
        """The number of free slots."""
        return max(self._slots - len(self._jobs), 0)

    def add(self, leased: LeasedJob) -> None:
        self._jobs[leased.lease.key] = leased
        self._changed.set()

    def remove(self, leased: LeasedJob) -> None:
        leased.end()
        del self._jobs[leased.lease.key]
        self._changed.set()

    def drop_all(self, reason: str) -> None:
        for leased in self:
            leased.drop(reason)

    async def wait(self, condition: Callable[[], bool]) -> None:
        """Returns when the condition holds, which is about these jobs."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()


class References:
    """Copies of the recordings of cloned voices, fetched once, kept until the service says to forget them: in
    a folder, each a wav named by its SHA-256. Deletes other files there, which a crash left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fetching = asyncio.Lock()
        folder.mkdir(mode=0o700, exist_ok=True)
        for path in folder.iterdir():
            if not _REFERENCE.fullmatch(path.name):
                path.unlink()

    def cached(self) -> list[str]:
        """The SHA-256 of each copy, that of the copy used last at the end."""
        paths = sorted(self._folder.glob("*.wav"), key=lambda path: path.stat().st_mtime_ns)
        return [path.stem for path in paths]

    async def get(self, server: ServerClient, reference: JobReference) -> Path:
        """The path of the wav, which is fetched if there is no copy. Raises ServerFailed or OSError."""
        path = self._folder / f"{reference.sha256}.wav"
        async with self._fetching:  # two jobs with the same voice fetch it once
            if not path.exists():
                wav = await server.reference(reference)
                await asyncio.to_thread(write_atomically, path, wav)
            os.utime(path)
            for sha256 in self.cached()[:-REFERENCES_MAX]:
                self.forget(sha256)
        return path

    def forget(self, sha256: str) -> bool:
        """Deletes the copy. False if there is none."""
        if sha256 not in self.cached():
            return False
        (self._folder / f"{sha256}.wav").unlink()
        return True


@dataclass(eq=False)
class Work:
    """Runs jobs. `folder` is for audio that is not uploaded yet; other files in it are deleted."""

    server: ServerClient
    engines: Engines
    references: References
    outages: OutageLog
    folder: Path

    def __post_init__(self) -> None:
        self._disk = DiskExecutor()
        self.folder.mkdir(mode=0o700, exist_ok=True)
        for file in self.folder.iterdir():  # left by a node that was killed
            file.unlink()

    async def run(self, leased: LeasedJob) -> None:
        """Completes the job or reports its failure. Deletes its file in any case, also when cancelled."""
        path = self.folder / f"{secrets.token_hex(16)}.mp3"
        try:
            await self._speak_and_upload(leased, path)
        except EngineFailed as failure:
            final = isinstance(failure, _FINAL) and not isinstance(failure, VoiceUnavailable)
            await self._report(leased, str(failure), final=final)
        except OSError as failure:
            reason = failure.strerror or type(failure).__name__
            await self._report(leased, f"The node's disk: {reason}.", final=False)
        except (LeaseLost, CredentialRefused, ProtocolTooOld) as refused:
            log.info("%s: dropped: %s", leased.name, refused)
        except RequestRefused as refused:
            await self._report(leased, str(refused), final=False)
        except Exception:
            log.exception("%s: an unhandled exception", leased.name)
            await self._report(
                leased, "An internal error of the node; its log has the traceback.", final=False
            )
        finally:
            await self._disk.clean_up(partial(remove, path))

    async def requeue(self, leased: LeasedJob) -> None:
        """Returns the job to the queue because the node shuts down. Does not retry."""
        try:
            await self.server.fail(Failure(leased.lease, "The node is shutting down.", returned=True))
        except ServerFailed as failed:
            log.warning("%s: not requeued: %s", leased.name, failed)
        else:
            log.info("%s: requeued", leased.name)

    async def _speak_and_upload(self, leased: LeasedJob, path: Path) -> None:
        job = leased.job
        reference = None
        if sample := job.reference:
            wav = await self._retry(lambda: self.references.get(self.server, sample))
            reference = VoiceReference(wav, sample.transcript, sample.language)
        started = time.monotonic()
        utterance = Utterance(job.text, job.voice_id, job.speed, language=job.language, reference=reference)

        def progress(fraction: float) -> None:
            leased.progress = min(max(fraction, leased.progress), 1.0)

        spoken = await self.engines.speak(utterance, path, progress)
        took_s = time.monotonic() - started
        leased.progress = 1.0
        await self._upload(leased, path, spoken)
        log.info(
            "%s: %d characters, %.2f s of audio in %.2f s, real-time factor %.3f",
            *(leased.name, len(job.text), spoken.seconds, took_s, took_s / max(spoken.seconds, 0.001)),
        )

    async def _upload(self, leased: LeasedJob, path: Path, spoken: SpeechResult) -> None:
        if spoken.size_bytes > AUDIO_MAX_BYTES:
            raise EngineFailed(f"The audio has {spoken.size_bytes} bytes, more than the service accepts.")
        audio = await asyncio.to_thread(path.read_bytes)
        leased.uploading = True
        await self._retry(lambda: self.server.complete(leased.lease, audio, spoken.sha256.hex()))

    async def _report(self, leased: LeasedJob, reason: str, *, final: bool) -> None:
        """Reports the failure of the job. If the service refuses the report, it is only logged."""
        log.warning("%s: failed%s: %s", leased.name, " for good" if final else "", reason)
        failure = Failure(leased.lease, reason[:REASON_MAX_CHARS], final=final)
        try:
            await self._retry(lambda: self.server.fail(failure))
        except ServerFailed as failed:
            log.info("%s: the service refuses the failure report: %s", leased.name, failed)

    async def _retry(self, request: Callable[[], Awaitable[T]]) -> T:
        """Sends the request until the service answers. The expiry of the lease cancels it."""
        backoff = Backoff(self.outages)
        try:
            while True:
                try:
                    answer = await request()
                except ServerUnavailable as unavailable:
                    await asyncio.sleep(backoff.failed(unavailable))
                else:
                    backoff.succeeded()
                    return answer
        finally:
            backoff.stopped()
