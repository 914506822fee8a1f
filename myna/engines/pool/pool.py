"""A pool of processes that do one job at a time and can be killed.

The processes run a module with `warm` (see `child_main.serve`): it takes jobs and returns results in msgpack.

- A job ends by its result, by its deadline or by its caller's cancellation. In the last two cases the process
  is killed and replaced, so that no work continues after the call. A process in uninterruptible I/O, which no
  signal ends, is not waited for.
- If a process dies, a job that it had not started is requeued; one that it had started fails, or is tried
  once more by another process if the pool `retries` and no part of its output has been sent.
- Waiting jobs are in a fair queue over their keys. Long jobs have their own queue and use at most half of the
  processes, so that short jobs never wait for long ones alone.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from myna.engines.interface import (
    FAILURES,
    NO_CLIENT,
    CallerDisconnected,
    Client,
    EngineBusy,
    EngineCrashed,
    EngineFailed,
    EngineLimits,
    EngineTimedOut,
    EngineUnavailable,
)
from myna.engines.pool.admission import long_max
from myna.engines.pool.child_handle import (
    KILL_WAIT_S,
    Child,
    ChildNotEnded,
    ChildProgram,
    PendingJob,
    TakePart,
)
from myna.engines.pool.child_main import JobDone, JobFailed, Setup, StartJob, framed
from myna.lib.aio import cancel_and_wait
from myna.lib.files import wait_shielded
from myna.lib.sandbox import AllowedPaths, Confinement
from myna.lib.shares import FairQueue
from myna.lib.telemetry import metrics

log = logging.getLogger(__name__)
R = TypeVar("R", bound=msgspec.Struct)

START_DEADLINE_S = 60.0
_RETRY_FIRST_S, _RETRY_MAX_S = 0.2, 5.0
_TOO_LATE = "The job waited too long in the queue."


class Pool(Generic[R]):
    """Children that run `module`, within `limits`. `result` is the struct that a job returns.

    A child is sent `setup` first and has `start_deadline_s` seconds to become ready. The metrics name
    `engine`, or the package of the module.
    """

    def __init__(
        self,
        module: str,
        result: type[R],
        limits: EngineLimits,
        *,
        setup: msgspec.Struct | None = None,
        start_deadline_s: float = START_DEADLINE_S,
        retries: bool = False,
        engine: str = "",
    ) -> None:
        self._module = module
        engine = engine or module.split(".")[-2:][0]
        self._jobs_waiting = metrics.ENGINE_WAITING.labels(engine)
        self._processes_running = metrics.ENGINE_PROCESSES.labels(engine)
        self._wait_seconds = metrics.ENGINE_WAIT_SECONDS.labels(engine)
        self._setup = msgspec.Raw(msgspec.msgpack.encode(setup))
        self._start_deadline_s = start_deadline_s
        self._program = self._child_program(None)
        self._results = msgspec.msgpack.Decoder(result)
        self._retries = retries
        self.places = limits.processes + limits.queue_max
        self._limits = limits
        self._waiting: FairQueue[PendingJob] = FairQueue()
        self._waiting_long: FairQueue[PendingJob] = FairQueue()
        self._long_max = long_max(limits.processes)
        self._long_running = 0
        self._last_was_long = False
        self._idle: list[Child] = []
        self._running: dict[int, Child] = {}  # by index; without those whose last start failed
        self._supervisors: list[asyncio.Task[None]] = []
        self._last_number = 0
        self._finishing = 0

    async def start(self, files: AllowedPaths | None = None) -> None:
        """Starts all processes and waits until they are ready; they may open `files` and no others.

        Raises EngineUnavailable when one is not ready in time, and then none is running.
        """
        self._program = self._child_program(files)
        async with contextlib.AsyncExitStack() as undo:
            starts = (self._start_child(undo) for _ in range(self._limits.processes))
            started = await asyncio.gather(*starts, return_exceptions=True)
            children = [child for child in started if isinstance(child, Child)]
            for failure in started:
                if isinstance(failure, BaseException):
                    raise failure
            undo.pop_all()
        self._log_confinement(children[0].confinement)
        self._running = dict(enumerate(children))
        self._processes_running.set(len(self._running))
        self._supervisors = [asyncio.create_task(self._supervise(*item)) for item in self._running.items()]

    def _child_program(self, files: AllowedPaths | None) -> ChildProgram:
        return ChildProgram(self._module, framed(Setup(self._setup, files)), self._start_deadline_s)

    def _log_confinement(self, confinement: Confinement) -> None:
        level = logging.WARNING if confinement.kept else logging.INFO
        log.log(level, "processes of %s are %s", self._module, confinement)

    def up(self) -> bool:
        """Whether jobs are accepted: a process runs, or is being replaced for the first time."""
        return bool(self._running)

    def full(self) -> bool:
        """Whether the queue is full."""
        waiting = self._waiting.size + self._waiting_long.size + self._finishing
        return waiting >= self._limits.queue_max + len(self._idle)

    @contextlib.contextmanager
    def counted_as_waiting(self) -> Iterator[None]:
        """Counts a job that has left its process and has not ended as a waiting one."""
        self._finishing += 1
        try:
            yield
        finally:
            self._finishing -= 1

    def pids(self) -> list[int]:
        """The process ids, for monitoring."""
        return [child.process.pid for child in self._running.values()]

    async def run(
        self,
        job: msgspec.Struct,
        deadline_s: float,
        client: Client = NO_CLIENT,
        take_part: TakePart | None = None,
    ) -> R:
        """The job's result, at most `deadline_s` seconds from now, waiting included.

        Waiting jobs are started round robin over the client's `queue_key`. An exception of its `progress`
        ends the job. When the client has disconnected, a waiting job is dropped, and a started one
        continues. `take_part` gets the parts of the output that the work sends before its result, in order;
        the process waits while it is awaited. A job that sends parts to a caller without it ends its process.
        Raises EngineBusy, EngineUnavailable, EngineTimedOut, EngineCrashed, CallerDisconnected, or the
        EngineFailed that the work raised.
        """
        if not self.up():
            raise EngineUnavailable("The engine has no running process.")
        if self.full():
            raise EngineBusy("The engine's queue is full.")
        self._last_number += 1
        frame = framed(StartJob(self._last_number, msgspec.Raw(msgspec.msgpack.encode(job))))
        entry = PendingJob(self._last_number, frame, deadline_s, client, take_part)
        timer = entry.loop.call_at(entry.ends_at, self._expire, entry)
        # An idle child starts the job at once: no need to watch for a disconnect.
        waits = entry.long or self._waiting.size >= len(self._idle)
        disconnected = client.disconnected if waits else None
        watch = asyncio.create_task(self._drop(entry, disconnected)) if disconnected else None
        self._queue(entry).put(client.queue_key, entry)
        self._measure()
        self._wake_idle()
        try:
            return self._results.decode(await entry.answer)
        except asyncio.CancelledError:
            await self._cancel(entry)
            raise
        finally:
            timer.cancel()
            if watch:
                watch.cancel()
            self._measure()

    async def close(self) -> None:
        """Ends all processes; jobs that wait or run fail with EngineUnavailable. May be called twice."""
        running = list(self._running.values())
        self._running.clear()
        self._processes_running.set(0)
        try:
            await cancel_and_wait(*self._supervisors)
            # A supervisor that was cancelled before its first step has not killed its child.
            await asyncio.gather(*(child.kill() for child in running))
        finally:
            self._supervisors.clear()
            self._fail_waiting("The engine is closing.")

    async def _start_child(self, undo: contextlib.AsyncExitStack) -> Child:
        """A ready child; `undo` kills it, also if another start fails."""
        child = await Child.start(self._program)
        undo.push_async_callback(child.kill)
        return child

    async def _cancel(self, job: PendingJob) -> None:
        """Dequeues the job, or waits up to KILL_WAIT_S until no process runs it."""
        if not self._queue(job).remove(job.client.queue_key, job):
            await wait_shielded(job.released, KILL_WAIT_S)

    async def _drop(self, job: PendingJob, disconnected: Callable[[], Awaitable[None]]) -> None:
        """Dequeues the job when the client has disconnected."""
        await disconnected()
        if self._queue(job).remove(job.client.queue_key, job):
            job.fail(CallerDisconnected("The client disconnected while its job waited."))

    def _expire(self, job: PendingJob) -> None:
        """Dequeues the job at its deadline. `_run_until_deadline` ends a running job."""
        if self._queue(job).remove(job.client.queue_key, job):
            job.fail(EngineTimedOut("The deadline passed while the job waited in the queue."))

    def _measure(self) -> None:
        metrics.levels[self._jobs_waiting] = self._waiting.size + self._waiting_long.size

    def _queue(self, job: PendingJob) -> FairQueue[PendingJob]:
        return self._waiting_long if job.long else self._waiting

    def _wake_idle(self) -> None:
        for child in self._idle:
            child.wakeup.set()

    def _fail_waiting(self, reason: str) -> None:
        for queue in (self._waiting, self._waiting_long):
            while queue.size:
                queue.take().fail(EngineUnavailable(reason))

    async def _supervise(self, index: int, child: Child) -> None:
        """Runs jobs in the child and replaces it when it has ended. A child that does not end after SIGKILL
        is not replaced before: its successor would block on the same disk."""
        while True:
            try:
                while job := await self._next_job(child):
                    await self._run(child, job)
            finally:
                await child.kill()
            if not child.has_exited():
                self._mark_down(index, "The engine's process does not end.")
                await child.wait_exited()
            child = await self._replace(index)

    def _mark_down(self, index: int, reason: str) -> None:
        self._running.pop(index, None)
        self._processes_running.set(len(self._running))
        self._measure()
        if not self._running:
            self._fail_waiting(reason)

    async def _replace(self, index: int) -> Child:
        """Starts a new child, with backoff until one is ready. The index is down after the first failure."""
        pause_s = _RETRY_FIRST_S
        while True:
            try:
                child = await Child.start(self._program)
            except EngineUnavailable as down:
                self._mark_down(index, str(down))
                if isinstance(down, ChildNotEnded):
                    await down.child.wait_exited()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _RETRY_MAX_S)
            else:
                self._running[index] = child
                self._processes_running.set(len(self._running))
                self._measure()
                return child

    async def _next_job(self, child: Child) -> PendingJob | None:
        """The next job that is worth starting; None when the child is unusable."""
        while not child.unusable:
            while (queue := self._next_queue()) is not None:
                job = queue.take()
                if job.worth_starting():
                    queue.served(job.client.queue_key)
                    waited_s = job.loop.time() - job.queued_at
                    metrics.observed[self._wait_seconds].append(waited_s)
                    return job
                job.fail(EngineTimedOut(_TOO_LATE))
            child.wakeup.clear()
            self._idle.append(child)
            try:
                await child.wakeup.wait()
            finally:
                self._idle.remove(child)
        return None

    def _next_queue(self) -> FairQueue[PendingJob] | None:
        """The queue of the next job: that of long jobs if one may run, but not twice in a row while others
        wait."""
        if self._waiting_long.size and self._long_running < self._long_max:
            return self._waiting if self._last_was_long and self._waiting.size else self._waiting_long
        return self._waiting if self._waiting.size else None

    async def _run(self, child: Child, job: PendingJob) -> None:
        self._last_was_long = job.long
        self._long_running += job.long
        try:
            await self._run_until_deadline(child, job)
        finally:
            self._long_running -= job.long
            if job.long:
                self._wake_idle()  # another one may start, on another child if this one is unusable

    async def _run_until_deadline(self, child: Child, job: PendingJob) -> None:
        """Sets the job's result or error in all cases. Kills the child unless it has replied."""
        job.released = job.loop.create_future()
        reply = asyncio.create_task(child.run(job))
        try:
            timeout_s = min(job.ends_at - job.loop.time(), self._limits.job_deadline_s)
            ends: set[asyncio.Future[Any]] = {reply, job.answer}
            await asyncio.wait(ends, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            in_time = reply.done()
            if not in_time or reply.result() is None:
                await child.kill()
            if in_time:
                self._end(job, reply.result(), may_retry=self._retries and child.has_exited())
            else:
                job.fail(EngineTimedOut("The job took longer than its deadline."))
        except asyncio.CancelledError:
            try:
                await child.kill()
            finally:
                job.fail(EngineUnavailable("The engine is closing."))
            raise
        finally:
            try:
                if not reply.done():  # the killed child has not ended
                    reply.cancel()
                    await wait_shielded(reply)
            finally:
                job.released.set_result(None)

    def _end(self, job: PendingJob, reply: JobDone | JobFailed | None, *, may_retry: bool) -> None:
        match reply:
            case JobDone(result=result):
                job.succeed(bytes(result))
            case JobFailed(kind=kind, message=message):
                job.fail(FAILURES.get(kind, EngineFailed)(message))
            case None if job.started and (job.retried or job.has_sent or not may_retry):
                job.fail(EngineCrashed("The engine's process died in the middle of the job."))
            case None if job.worth_starting():
                job.retried, job.started = job.started, False
                self._queue(job).requeue(job.client.queue_key, job)
                self._wake_idle()
            case None:  # `_expire` may have run already, so the job is not requeued
                job.fail(EngineTimedOut(_TOO_LATE))
