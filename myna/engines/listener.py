"""What listens to files that strangers send: recordings to clone a voice from, and speech of compute nodes.

Decoders are large and written in C, and such files are made to break them. So no file is decoded here:
`listener_child.py` is the program that does, with its memory bounded, and whatever happens to it is a
refusal of one file.
"""

import asyncio
import os
import secrets
from collections.abc import Hashable
from functools import partial
from pathlib import Path

import msgspec

from myna.disk_threads import Disk
from myna.engines.listener_job import Found, SampleJob, SpeechJob
from myna.engines.process import Pool
from myna.engines.spoken import EngineDied, EngineDown, NoAudio, SampleRefused
from myna.sound.durable import remove

__all__ = ["Heard", "Listener", "NoAudio", "Sample", "SampleRefused"]


class Sample(msgspec.Struct, frozen=True):
    """A voice sample that is on disk for good: its length in seconds, its size and its SHA-256 (32 bytes)."""

    seconds: float
    size_bytes: int
    sha256: bytes


class Heard(msgspec.Struct, frozen=True):
    """An mp3 that decodes from its first to its last frame, and how long it sounds."""

    seconds: float


class Listener:
    """Listens with `processes` children, which start at the first use; `queue_max` files may wait.

    Each file may take `job_deadline_s` seconds, and `deadline_s` with its waiting.
    """

    def __init__(
        self,
        *,
        processes: int = 1,
        queue_max: int = 32,
        job_deadline_s: float = 30.0,
        deadline_s: float = 60.0,
    ) -> None:
        self._disk = Disk()
        self._pool = Pool(
            "myna.engines.listener_child",
            Found,
            processes=processes,
            queue_max=queue_max,
            job_deadline_s=job_deadline_s,
        )
        self._deadline_s = deadline_s
        self._turning = asyncio.Lock()  # on, or off
        self._started = self._closed = False

    def pids(self) -> list[int]:
        """The children, for whoever watches over them; none before the first use."""
        return self._pool.pids()

    async def sample(self, source: Path, target: Path) -> Sample:
        """The recording as a voice sample at `target`: wav, 16 bits, mono, 24 kHz, on disk for good.

        `target` must be this call's own, and not be used again. However the call ends but well, also by
        cancelling, nothing is left there but what the disk doesn't let be removed; what it takes over a
        second for goes later. Raises SampleRefused, whose message is for who sent the recording, or
        EngineBusy, EngineDown, EngineTimedOut and EngineFailed, which say nothing of it.
        """
        part = target.with_name(f".{secrets.token_hex(8)}.part")
        job = SampleJob(_packed(source), _packed(part), _packed(target))
        try:
            found = await self._found(job)
        except BaseException as error:
            await self._disk.cleared(partial(remove, part, target))
            if isinstance(error, EngineDied):
                raise SampleRefused("The recording could not be read; export it again, as wav.") from error
            raise
        return Sample(found.seconds, found.size_bytes, found.sha256)

    async def speech(self, source: Path, sender: Hashable) -> Heard:
        """What the mp3 at `source` is, decoded whole. Senders take turns, so that one whose files take long
        doesn't hold up the others. Raises NoAudio, or what `sample` raises besides."""
        try:
            found = await self._found(SpeechJob(_packed(source)), sender)
        except EngineDied as error:
            raise NoAudio("The file could not be read; it must be an mp3.") from error
        return Heard(found.seconds)

    async def close(self) -> None:
        """Ends the children; what waits or runs fails. May be called twice."""
        async with self._turning:
            self._closed = True
            await self._pool.close()

    async def _found(self, job: SampleJob | SpeechJob, sender: Hashable = None) -> Found:
        async with self._turning:
            if self._closed:
                raise EngineDown("The listener is closed.")
            if not self._started:
                await self._pool.start()
                self._started = True
        return await self._pool.run(job, self._deadline_s, turn=sender)


def _packed(path: Path) -> bytes:
    return os.fsencode(path.absolute())
