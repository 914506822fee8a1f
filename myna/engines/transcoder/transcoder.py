"""Converts stored speech, an mp3, to the format of a response, in a confined child process."""

from collections.abc import Hashable
from pathlib import Path

from myna.engines.audio.encoders import SoundFormat
from myna.engines.pool.child_main import path_bytes
from myna.engines.pool.lazy_pool import LazyPool
from myna.engines.pool.pool import Pool
from myna.engines.transcoder.job import Transcoded, TranscodeJob
from myna.lib.sandbox import AllowedPaths


class Transcoder:
    """Converts files in one child, which starts at the first use; `queue_max` files may wait. Each file may
    take `deadline_s` seconds, waiting included."""

    def __init__(
        self, *, queue_max: int = 64, deadline_s: float = 60.0, files: AllowedPaths | None = None
    ) -> None:
        pool = Pool(
            "myna.engines.transcoder.child",
            Transcoded,
            processes=1,
            queue_max=queue_max,
            job_deadline_s=deadline_s,
        )
        self._pool = LazyPool(pool, files=files, deadline_s=deadline_s)

    def pids(self) -> list[int]:
        """The process ids, for monitoring; empty before the first use."""
        return self._pool.pids()

    async def transcode(
        self, source: Path, target: Path, kind: SoundFormat, client: Hashable = None
    ) -> Transcoded:
        """Writes the mp3 at `source` to the new file `target`, which the caller removes, also after an error.
        The queue is fair over clients. Raises EngineFailed."""
        job = TranscodeJob(path_bytes(source), path_bytes(target), kind)
        return await self._pool.run(job, client)

    async def close(self) -> None:
        """Ends the child; jobs that wait or run fail. May be called twice."""
        await self._pool.close()
