"""What engines have in common that speak with a pool of processes."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from msgspec import structs

from myna.engines.interface import (
    NO_CLIENT,
    Client,
    EngineLimits,
    SoundPart,
    SoundParts,
    SpeechResult,
    Utterance,
)
from myna.engines.jobs import OutputFile, SpeechJob
from myna.engines.output_file import DurableFiles
from myna.engines.pool.admission import PACE_INITIAL, Admission
from myna.engines.pool.child_handle import TakePart
from myna.engines.pool.pool import Pool
from myna.lib.aio import cancel_and_wait
from myna.lib.sandbox import AllowedPaths

J = TypeVar("J", bound=SpeechJob)

_PARTS_MAX: Final = 10
"""The parts that wait for the caller; then the child waits."""
REST_MAX_S: Final = 5.0


class PoolEngine:
    """The members of `StreamingEngine` except `label` and `voices`; a subclass has `sound`. `pool` speaks; a
    subclass may add pools that prepare texts for it."""

    blends = False

    def __init__(self, pool: Pool[Any], admission: Admission) -> None:
        self._pool = pool
        self._pools = [pool]
        self._files = DurableFiles(pool.counted_as_waiting, at_once=admission.processes)
        self.admission = admission

    @property
    def clones(self) -> tuple[str, ...]:
        return ()

    async def start(self, files: AllowedPaths | None = None) -> None:
        """Waits until all children are ready. Raises EngineUnavailable."""
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.close)
            await self._start(files)
            undo.pop_all()

    def up(self) -> bool:
        return all(pool.up() for pool in self._pools)

    def full(self) -> bool:
        return self._pool.full()

    def pids(self) -> list[int]:
        """The process ids, for monitoring."""
        return list(chain.from_iterable(pool.pids() for pool in self._pools))

    def sound(self, utterance: Utterance, deadline_s: float, client: Client = NO_CLIENT) -> SoundParts:
        """See `StreamingEngine.sound`."""
        raise NotImplementedError

    async def speak(
        self, utterance: Utterance, path: Path, deadline_s: float, client: Client = NO_CLIENT
    ) -> SpeechResult:
        """Writes the sample rate of the voice, or STREAM_RATE_HZ for a client that streams. For files after a
        failure see `DurableFiles.write`."""
        result = await self._write(utterance, path, deadline_s, client)
        self.admission.measured(client.sound_s, result.work_s)
        return result

    async def close(self) -> None:
        await asyncio.gather(*(pool.close() for pool in self._pools))

    async def _start(self, files: AllowedPaths | None) -> None:
        await self._pool.start(files)

    async def _write(
        self, utterance: Utterance, path: Path, deadline_s: float, client: Client
    ) -> SpeechResult:
        return await self._files.write_sound(self.sound, utterance, path, deadline_s, client)


class JobEngine(PoolEngine, Generic[J]):
    """Speaks a text as one job of its pool, which a subclass makes."""

    def __init__(self, pool: Pool[Any], limits: EngineLimits, pace: float = PACE_INITIAL) -> None:
        super().__init__(pool, Admission(limits.processes, limits.queue_max, limits.account_max, pace))

    def sound(self, utterance: Utterance, deadline_s: float, client: Client = NO_CLIENT) -> SoundParts:
        """See `StreamingEngine.sound`."""
        return sound_of(partial(self._run, self._job(utterance), deadline_s, client))

    async def _write(
        self, utterance: Utterance, path: Path, deadline_s: float, client: Client
    ) -> SpeechResult:
        """Without `relay` the child writes the file itself."""
        if client.relay is not None:
            return await super()._write(utterance, path, deadline_s, client)
        job = self._job(utterance)

        def write(part: Path) -> Awaitable[SpeechResult]:
            return self._run(structs.replace(job, file=OutputFile.at(part, path)), deadline_s, client)

        return await self._files.write(path, deadline_s, write)

    def _job(self, utterance: Utterance) -> J:
        """The job, without its file. Raises UnsupportedUtterance."""
        raise NotImplementedError

    async def _run(
        self, job: J, deadline_s: float, client: Client, take_part: TakePart | None = None
    ) -> SpeechResult:
        """The result of the job."""
        spoken: SpeechResult = await self._pool.run(job, deadline_s, client, take_part)
        return spoken


async def sound_of(run: Callable[[TakePart], Awaitable[SpeechResult]]) -> SoundParts:
    """The parts that a job sends, as they arrive. `run` runs the job: see `Pool.run`.

    The time that the process worked is known at the end: an empty part has it. Raises errors of `run`, after
    the parts before the error. Closing the generator discards the rest of a job that ends within REST_MAX_S,
    and cancels any other: a killed process takes seconds to replace.
    """
    arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
    room = asyncio.Semaphore(_PARTS_MAX)
    closed = False

    async def take(part: bytes) -> None:
        await room.acquire()
        if closed:
            room.release()
        else:
            arrived.put_nowait(part)

    job = asyncio.ensure_future(run(take))
    job.add_done_callback(lambda _: arrived.put_nowait(None))
    try:
        while (part := await arrived.get()) is not None:
            room.release()
            yield SoundPart(part, 0.0)
        yield SoundPart(b"", (await job).work_s)
    except GeneratorExit:
        closed = True
        room.release()
        await asyncio.wait({job}, timeout=REST_MAX_S)
        raise
    finally:
        await cancel_and_wait(job)
