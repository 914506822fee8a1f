"""What engines have in common that speak a text as one job of a pool of processes."""

from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from myna.engines.interface import NO_CLIENT, Client, EngineLimits, SoundParts, SpeechResult, Utterance
from myna.engines.jobs import SpeechJob, TakePart, sound_of
from myna.engines.output_file import DurableFiles
from myna.engines.pool.admission import PACE_INITIAL, Admission, is_long
from myna.engines.pool.pool import START_DEADLINE_S, Pool
from myna.lib.sandbox import AllowedPaths

J = TypeVar("J", bound=SpeechJob)


class PoolEngine(Generic[J]):
    """The members of `StreamingEngine` except `label` and `voices`. A subclass makes the job of a text.
    `pace` is as in `Admission`, the other parameters are as in `Pool`."""

    blends = False

    def __init__(
        self,
        module: str,
        result: type[msgspec.Struct],
        limits: EngineLimits,
        *,
        setup: msgspec.Struct | None = None,
        start_deadline_s: float = START_DEADLINE_S,
        pace: float = PACE_INITIAL,
    ) -> None:
        self._pool: Pool[Any] = Pool(
            module,
            result,
            processes=limits.processes,
            queue_max=limits.queue_max,
            job_deadline_s=limits.job_deadline_s,
            setup=setup,
            start_deadline_s=start_deadline_s,
            retries=True,
        )
        self._files = DurableFiles(self._pool.counted_as_waiting, at_once=limits.processes)
        self.admission = Admission(limits.processes, limits.queue_max, limits.account_max, pace)

    @property
    def clones(self) -> tuple[str, ...]:
        return ()

    async def start(self, files: AllowedPaths | None = None) -> None:
        """Waits until all children are ready. Raises EngineUnavailable."""
        await self._pool.start(files)

    def up(self) -> bool:
        return self._pool.up()

    def full(self) -> bool:
        return self._pool.full()

    def pids(self) -> list[int]:
        """The process ids, for monitoring."""
        return self._pool.pids()

    async def speak(
        self, utterance: Utterance, path: Path, deadline_s: float, client: Client = NO_CLIENT
    ) -> SpeechResult:
        """Writes the sample rate of the voice, or STREAM_RATE_HZ for a client that streams. For files after a
        failure see `DurableFiles.write`."""
        result = await self._files.write_job(self._job(utterance), path, deadline_s, client, self._run)
        if client.sound_s and result.work_s:
            self.admission.measured(client.sound_s, result.work_s)
        return result

    def sound(self, utterance: Utterance, deadline_s: float, client: Client = NO_CLIENT) -> SoundParts:
        """See `StreamingEngine.sound`."""
        return sound_of(partial(self._run, self._job(utterance), deadline_s, client))

    async def close(self) -> None:
        await self._pool.close()

    def _job(self, utterance: Utterance) -> J:
        """The job, without its file. Raises UnsupportedUtterance."""
        raise NotImplementedError

    async def _run(self, job: J, deadline_s: float, client: Client, take_part: TakePart | None = None) -> Any:
        """The result of the job, a SpeechResult unless the subclass makes one of it."""
        return await self._pool.run(
            job,
            deadline_s,
            queue_key=client.queue_key,
            long=is_long(client.sound_s),
            progress=client.progress,
            unspoken=client.unspoken,
            disconnected=client.disconnected,
            take_part=take_part,
        )
