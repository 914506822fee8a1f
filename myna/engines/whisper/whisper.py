"""Transcribes recordings with Whisper, in a confined child process.

The child starts at the first recording: it takes some 400 MB. A recording that takes longer than its deadline
ends with the child, which is replaced.
"""

import importlib.util
from collections.abc import Awaitable, Callable, Hashable
from pathlib import Path
from typing import Final

from myna.engines.pool.child_main import path_bytes
from myna.engines.pool.lazy_pool import LazyPool
from myna.engines.pool.pool import Pool
from myna.engines.whisper.job import Transcript, TranscriptionJob, WhisperModel
from myna.lib.sandbox import AllowedPaths

QUEUE_MAX: Final = 64
START_DEADLINE_S: Final = 120.0


def is_installed() -> bool:
    """Whether this installation has the extra `hear`."""
    return all(importlib.util.find_spec(name) for name in ("faster_whisper", "opencc"))


class Whisper:
    """The model in `folder`. The child reads it and the recordings in `recordings`. A recording may take
    `job_deadline_s` seconds."""

    def __init__(self, folder: Path, recordings: Path, *, threads: int, job_deadline_s: float) -> None:
        pool = Pool(
            "myna.engines.whisper.child",
            Transcript,
            processes=1,
            queue_max=QUEUE_MAX,
            job_deadline_s=job_deadline_s,
            setup=WhisperModel(path_bytes(folder), threads),
            start_deadline_s=START_DEADLINE_S,
        )
        files = AllowedPaths.of(reads=(folder, recordings))
        self._pool = LazyPool(pool, files=files, deadline_s=job_deadline_s)

    def pids(self) -> list[int]:
        """The process ids, for monitoring; empty before the first use."""
        return self._pool.pids()

    def full(self) -> bool:
        """Whether the queue is full."""
        return self._pool.full()

    async def transcribe(
        self,
        job: TranscriptionJob,
        deadline_s: float,
        client: Hashable = None,
        disconnected: Callable[[], Awaitable[None]] | None = None,
    ) -> Transcript:
        """The transcript, at most `deadline_s` seconds from now. The queue is fair over clients; a recording
        whose client disconnects while it waits is dropped. Raises SampleRefused for a recording that can't be
        read, and other EngineFailed."""
        return await self._pool.run(job, client, deadline_s, disconnected)

    async def close(self) -> None:
        """Ends the child; jobs that wait or run fail. May be called twice."""
        await self._pool.close()
