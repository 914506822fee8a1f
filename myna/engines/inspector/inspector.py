"""Decodes untrusted audio files: recordings to clone a voice from, and speech from compute nodes.

Decoders are large C libraries, and a file may be made to break them. So files are decoded in confined child
processes with limited memory (`inspector/child.py`). If a child crashes, only its file is refused.
"""

import secrets
from collections.abc import Hashable
from functools import partial
from pathlib import Path

import msgspec

from myna.engines.inspector.job import Inspected, SampleJob, SpeechJob
from myna.engines.interface import EngineCrashed, NoAudio, SampleRefused
from myna.engines.pool.child_main import path_bytes
from myna.engines.pool.lazy_pool import LazyPool
from myna.engines.pool.pool import Pool
from myna.lib.files import DiskExecutor, remove
from myna.lib.sandbox import AllowedPaths

__all__ = ["InspectedSpeech", "Inspector", "NoAudio", "Sample", "SampleRefused"]


class Sample(msgspec.Struct, frozen=True):
    """A durable voice sample: its length in seconds, its size and its SHA-256 (32 bytes)."""

    seconds: float
    size_bytes: int
    sha256: bytes


class InspectedSpeech(msgspec.Struct, frozen=True):
    """The length of an mp3 that decodes from its first to its last frame."""

    seconds: float


class Inspector:
    """Decodes files in `processes` children, which start at the first use; `queue_max` files may wait.

    Each file may take `job_deadline_s` seconds, and `deadline_s` with its waiting. The children may open only
    `files`.
    """

    def __init__(
        self,
        *,
        processes: int = 1,
        queue_max: int = 32,
        job_deadline_s: float = 30.0,
        deadline_s: float = 60.0,
        files: AllowedPaths | None = None,
    ) -> None:
        self._disk = DiskExecutor()
        pool = Pool(
            "myna.engines.inspector.child",
            Inspected,
            processes=processes,
            queue_max=queue_max,
            job_deadline_s=job_deadline_s,
        )
        self._pool = LazyPool(pool, files=files, deadline_s=deadline_s)

    def pids(self) -> list[int]:
        """The process ids, for monitoring; empty before the first use."""
        return self._pool.pids()

    async def sample(self, source: Path, target: Path, sender: Hashable = None) -> Sample:
        """Writes the recording as a voice sample (wav, 16 bits, mono, 24 kHz) to `target`, durably.

        The queue is fair over senders. `target` must be used by this call only. On failure or cancellation it
        is removed; a removal that takes over a second continues in the background. Raises SampleRefused,
        whose message is for the sender of the recording, or EngineBusy, EngineUnavailable, EngineTimedOut
        and EngineFailed for failures of the service.
        """
        part = target.with_name(f".{secrets.token_hex(8)}.part")
        job = SampleJob(path_bytes(source), path_bytes(part), path_bytes(target))
        try:
            inspected = await self._pool.run(job, sender)
        except BaseException as error:
            await self._disk.clean_up(partial(remove, part, target))
            if isinstance(error, EngineCrashed):
                raise SampleRefused("The recording could not be read; export it again, as wav.") from error
            raise
        return Sample(inspected.seconds, inspected.size_bytes, inspected.sha256)

    async def speech(self, source: Path, sender: Hashable) -> InspectedSpeech:
        """Decodes the mp3 at `source`. Raises NoAudio, and the errors of
        `sample` except SampleRefused."""
        try:
            inspected = await self._pool.run(SpeechJob(path_bytes(source)), sender)
        except EngineCrashed as error:
            raise NoAudio("The file could not be read; it must be an mp3.") from error
        return InspectedSpeech(inspected.seconds)

    async def close(self) -> None:
        """Ends the children; jobs that wait or run fail. May be called twice."""
        await self._pool.close()
