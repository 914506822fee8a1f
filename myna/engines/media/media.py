"""Works on files that come from outside, in confined child processes that start at their first job.

Decoders are large C libraries, and a file may be made to break them. So each purpose has processes of its own
(`child.py`), with the memory and the files that it needs. If one crashes, only its file is refused.
"""

import asyncio
import importlib.util
import secrets
from collections.abc import Awaitable, Callable, Hashable
from functools import partial
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

from myna.engines.interface import (
    Client,
    EngineBusy,
    EngineCrashed,
    EngineLimits,
    EngineUnavailable,
    NoAudio,
    SampleRefused,
)
from myna.engines.media.job import (
    DecodeJob,
    Measured,
    MediaJob,
    MediaSetup,
    SampleJob,
    TranscodeJob,
    Transcript,
    TranscriptionJob,
    WhisperModel,
)
from myna.engines.pool.child_main import path_bytes
from myna.engines.pool.pool import START_DEADLINE_S, Pool
from myna.lib.files import DiskExecutor, remove
from myna.lib.sandbox import AllowedPaths
from myna.lib.shares import Shares
from myna.wire.openai import SpeechFormat

R = TypeVar("R", bound=msgspec.Struct)

_MIB: Final = 2**20
_INSPECTOR: Final = MediaSetup(256 * _MIB, 4 * _MIB)  # a file, twice, and decoding; a sample has 2.9 MB
_TRANSCODER: Final = MediaSetup(256 * _MIB, 256 * _MIB)  # an hour of PCM has 173 MB
_WHISPER: Final = MediaSetup(4096 * _MIB, _MIB)  # the model, and two hours with their spectrum; no file
_MODEL_START_S: Final = 120.0
_TRANSCODE_S: Final = 60.0


class _Media(Generic[R]):
    """A child, which may open only `files`; `queue_max` jobs may wait, of them three quarters for one sender.
    A job may take `job_deadline_s` seconds, and `deadline_s` with its waiting and the start."""

    def __init__(
        self,
        result: type[R],
        setup: MediaSetup,
        files: AllowedPaths | None,
        *,
        queue_max: int,
        job_deadline_s: float,
        deadline_s: float,
    ) -> None:
        self._pool = Pool(
            "myna.engines.media.child",
            result,
            EngineLimits(processes=1, queue_max=queue_max, job_deadline_s=job_deadline_s),
            setup=setup,
            start_deadline_s=_MODEL_START_S if setup.model else START_DEADLINE_S,
            engine=type(self).__name__.lower(),
        )
        self._files = files
        self._deadline_s = deadline_s
        self._lifecycle = asyncio.Lock()
        self._started = self._closed = False
        busy = partial(EngineBusy, "The engine's queue is full.")
        self._places = Shares[Hashable](self._pool.places, self._pool.places * 3 // 4, busy)

    def pids(self) -> list[int]:
        """The process ids, for monitoring; empty before the first job."""
        return self._pool.pids()

    def full(self) -> bool:
        """Whether the queue is full."""
        return self._started and self._pool.full()

    async def close(self) -> None:
        """Ends the children; jobs that wait or run fail. May be called twice."""
        async with self._lifecycle:
            self._closed = True
            await self._pool.close()

    async def _run(
        self,
        job: MediaJob,
        sender: Hashable,
        deadline_s: float = 0.0,
        disconnected: Callable[[], Awaitable[None]] | None = None,
    ) -> R:
        """The job's result; the queue is fair over senders. See `Pool.run`."""
        async with self._lifecycle:
            if self._closed:
                raise EngineUnavailable("The service is closing.")
            if not self._started:
                await self._pool.start(self._files)
                self._started = True
        with self._places.place(sender):
            client = Client(sender, disconnected=disconnected)
            return await self._pool.run(job, deadline_s or self._deadline_s, client)


class Inspector(_Media[Measured]):
    """Decodes recordings to clone a voice from, and speech from compute nodes."""

    def __init__(
        self, files: AllowedPaths | None = None, job_deadline_s: float = 30.0, deadline_s: float = 60.0
    ) -> None:
        super().__init__(
            Measured, _INSPECTOR, files, queue_max=32, job_deadline_s=job_deadline_s, deadline_s=deadline_s
        )
        self._disk = DiskExecutor()

    async def sample(self, source: Path, target: Path, sender: Hashable = None) -> Measured:
        """Writes the recording as a voice sample (wav, 16 bits, mono, 24 kHz) to `target`, durably.

        `target` must be used by this call only. On failure or cancellation it is removed; a removal that
        takes over a second continues in the background. Raises SampleRefused, whose message is for the sender
        of the recording, or EngineBusy, EngineUnavailable, EngineTimedOut and EngineFailed for failures of
        the service.
        """
        part = target.with_name(f".{secrets.token_hex(8)}.part")
        try:
            return await self._run(
                SampleJob(path_bytes(source), path_bytes(part), path_bytes(target)), sender
            )
        except BaseException as error:
            await self._disk.clean_up(partial(remove, part, target))
            if isinstance(error, EngineCrashed):
                raise SampleRefused("The recording could not be read; export it again, as wav.") from error
            raise

    async def speech(self, source: Path, sender: Hashable) -> Measured:
        """Decodes the mp3 at `source`, from its first to its last frame. Raises NoAudio, and the errors of
        `sample` except SampleRefused."""
        try:
            return await self._run(DecodeJob(path_bytes(source)), sender)
        except EngineCrashed as error:
            raise NoAudio("The file could not be read; it must be an mp3.") from error


class Transcoder(_Media[Measured]):
    """Converts stored speech, an mp3 that may come from a speech server or a node, to the format of a
    response."""

    def __init__(self, files: AllowedPaths) -> None:
        super().__init__(
            Measured, _TRANSCODER, files, queue_max=64, job_deadline_s=_TRANSCODE_S, deadline_s=_TRANSCODE_S
        )

    async def transcode(
        self, source: Path, target: Path, kind: SpeechFormat, client: Hashable = None
    ) -> Measured:
        """Writes the mp3 at `source` to the new file `target`, which the caller removes, also after an error.
        Raises EngineFailed."""
        return await self._run(TranscodeJob(path_bytes(source), path_bytes(target), kind), client)


class Whisper(_Media[Transcript]):
    """Transcribes with the model in `folder`, which takes some 400 MB. The child reads it and the recordings
    in `recordings`. One that takes longer than `job_deadline_s` seconds ends with the child."""

    def __init__(self, folder: Path, recordings: Path, *, threads: int, job_deadline_s: float) -> None:
        super().__init__(
            Transcript,
            msgspec.structs.replace(_WHISPER, model=WhisperModel(path_bytes(folder), threads)),
            AllowedPaths.of(reads=(folder, recordings)),
            queue_max=64,
            job_deadline_s=job_deadline_s,
            deadline_s=job_deadline_s,
        )

    async def transcribe(
        self,
        job: TranscriptionJob,
        deadline_s: float,
        client: Hashable = None,
        disconnected: Callable[[], Awaitable[None]] | None = None,
    ) -> Transcript:
        """The transcript, at most `deadline_s` seconds from now. A recording whose client disconnects while
        it waits is dropped. Raises SampleRefused for a recording that can't be read, and other
        EngineFailed."""
        return await self._run(job, client, deadline_s, disconnected)


def whisper_is_installed() -> bool:
    """Whether this installation has the extra `hear`."""
    return all(importlib.util.find_spec(name) for name in ("faster_whisper", "opencc"))
