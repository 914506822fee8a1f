"""A pool of processes that do one job at a time and can be killed.

What runs in the process is of no concern here: a module that calls `child.serve` takes msgpack jobs and gives
msgpack results. A job ends by its answer, by its deadline or by its caller's cancelling; in the last two
cases the process is killed and another takes its place, so that nothing goes on behind the caller's back; one
that no signal ends, since the kernel is at work for it, is left to the kernel. A process that dies fails the
job it had begun; a job it hadn't begun goes to the next one. Waiting jobs of different turns (who asks for
them) take turns, see `turns.py`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from myna.disk_threads import settled
from myna.engines.child import Done, Failed, Order, Setup, framed
from myna.engines.process_child import KILL_WAIT_S, Child, Job, NotGone, Program
from myna.engines.spoken import EngineBusy, EngineDied, EngineDown, EngineFailed, EngineTimedOut
from myna.engines.turns import Turns

R = TypeVar("R", bound=msgspec.Struct)

START_DEADLINE_S = 60.0
_RETRY_FIRST_S, _RETRY_MAX_S = 0.2, 5.0
_TOO_LATE = "The job waited too long for its turn."
_FAILURES = {error.__name__: error for error in EngineFailed.__subclasses__()}


class Pool(Generic[R]):
    """`processes` children that run `python -m module`, with at most `queue_max` jobs waiting for them.

    A job may take `job_deadline_s` seconds from its begin. `result` is the struct that a job gives. A child
    is given `setup` before all else, and `start_deadline_s` seconds to get ready.
    """

    def __init__(
        self,
        module: str,
        result: type[R],
        *,
        processes: int,
        queue_max: int,
        job_deadline_s: float,
        setup: msgspec.Struct | None = None,
        start_deadline_s: float = START_DEADLINE_S,
    ) -> None:
        self._program = Program(
            module, framed(Setup(msgspec.Raw(msgspec.msgpack.encode(setup)))), start_deadline_s
        )
        self._results = msgspec.msgpack.Decoder(result)
        self._processes, self._queue_max = processes, queue_max
        self._job_deadline_s = job_deadline_s
        self._waiting: Turns[Job] = Turns()
        self._idle: list[Child] = []
        self._standing: dict[int, Child] = {}  # by seat; a seat whose last start failed isn't there
        self._seats: list[asyncio.Task[None]] = []
        self._orders = 0
        self._held = 0

    async def start(self) -> None:
        """All processes are up and ready. Raises EngineDown when one isn't, and then none is left."""
        async with contextlib.AsyncExitStack() as undo:
            starts = (self._started(undo) for _ in range(self._processes))
            started = await asyncio.gather(*starts, return_exceptions=True)
            children = [child for child in started if isinstance(child, Child)]
            for failure in started:
                if isinstance(failure, BaseException):
                    raise failure
            undo.pop_all()
        self._standing = dict(enumerate(children))
        self._seats = [asyncio.create_task(self._keep(seat, child)) for seat, child in enumerate(children)]

    def up(self) -> bool:
        """Jobs are taken: a process is there, or being started again after it was well."""
        return bool(self._standing)

    def full(self) -> bool:
        """As many jobs wait as may."""
        return len(self._waiting) + self._held >= self._queue_max + len(self._idle)

    @contextlib.contextmanager
    def place_held(self) -> Iterator[None]:
        """A job that has left its process and isn't over yet counts among those that wait."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1

    def pids(self) -> list[int]:
        """The processes, for whoever watches over them."""
        return [child.process.pid for child in self._standing.values()]

    async def run(
        self,
        job: msgspec.Struct,
        deadline_s: float,
        *,
        turn: Hashable = None,
        progress: Callable[[float], None] | None = None,
    ) -> R:
        """The job's result, at most `deadline_s` seconds from now, waiting included.

        Jobs that wait are begun by `turn`s, which go round. `progress` hears how much of the job is done,
        0 to 1, where the work tells; what it raises ends the job.
        Raises EngineBusy, EngineDown, EngineTimedOut, EngineDied, or the EngineFailed that the work raised.
        """
        if not self.up():
            raise EngineDown("The engine has no process that runs.")
        if self.full():
            raise EngineBusy("The engine has as many jobs waiting as it takes.")
        self._orders += 1
        frame = framed(Order(self._orders, msgspec.Raw(msgspec.msgpack.encode(job))))
        entry = Job(self._orders, frame, deadline_s, turn, progress)
        timer = entry.loop.call_at(entry.ends_at, self._expire, entry)
        self._waiting.put(turn, entry)
        self._wake()
        try:
            return self._results.decode(await entry.answer)
        except asyncio.CancelledError:
            await self._abandoned(entry)
            raise
        finally:
            timer.cancel()

    async def close(self) -> None:
        """Ends every process; jobs that wait or run fail with EngineDown. May be called twice."""
        self._standing.clear()
        for seat in self._seats:
            seat.cancel()
        try:
            await asyncio.gather(*self._seats, return_exceptions=True)
        finally:
            self._seats.clear()
            self._fail_waiting("The engine is closing.")

    async def _started(self, undo: contextlib.AsyncExitStack) -> Child:
        """A child that is ready; `undo` ends it, also where the start of the others is broken off."""
        child = await Child.start(self._program)
        undo.push_async_callback(child.kill)
        return child

    async def _abandoned(self, job: "Job") -> None:
        """Returns once no process works on the job any more, unless it is killed and doesn't go."""
        if not self._waiting.remove(job.turn, job):
            await settled(job.left, KILL_WAIT_S)

    def _expire(self, job: "Job") -> None:
        """Takes the job out of the queue at its deadline; one that runs is ended by whoever runs it."""
        if self._waiting.remove(job.turn, job):
            job.fail(EngineTimedOut("The deadline passed while the job waited for its turn."))

    def _wake(self) -> None:
        for child in self._idle:
            child.nudge.set()

    def _fail_waiting(self, reason: str) -> None:
        while self._waiting:
            self._waiting.take().fail(EngineDown(reason))

    async def _keep(self, seat: int, child: "Child") -> None:
        """Holds one seat: a child serves until it is gone, then another one sits down. One that doesn't go
        has no successor, which would meet the same disk and stay too."""
        while True:
            try:
                while job := await self._next(child):
                    await self._run(child, job)
            finally:
                await child.kill()
            if not child.is_gone():
                self._stand_up(seat, "The engine's process doesn't go.")
                await child.gone()
            child = await self._replaced(seat)

    def _stand_up(self, seat: int, reason: str) -> None:
        self._standing.pop(seat, None)
        if not self._standing:
            self._fail_waiting(reason)

    async def _replaced(self, seat: int) -> "Child":
        """A new child, tried for until one starts, ever more slowly; the seat counts as down meanwhile."""
        pause_s = _RETRY_FIRST_S
        while True:
            try:
                child = await Child.start(self._program)
            except EngineDown as down:
                self._stand_up(seat, str(down))
                if isinstance(down, NotGone):
                    await down.child.gone()
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _RETRY_MAX_S)
            else:
                self._standing[seat] = child
                return child

    async def _next(self, child: "Child") -> "Job | None":
        """The next job that is worth beginning; None when the child is no longer fit for one."""
        while not child.spent:
            while self._waiting:
                job = self._waiting.take()
                if job.worth_beginning():
                    self._waiting.served(job.turn)
                    return job
                job.fail(EngineTimedOut(_TOO_LATE))
            child.nudge.clear()
            self._idle.append(child)
            try:
                await child.nudge.wait()
            finally:
                self._idle.remove(child)
        return None

    async def _run(self, child: "Child", job: "Job") -> None:
        """Gives the job to the child and settles it, whatever happens; a child that isn't done is killed."""
        job.left = job.loop.create_future()
        talk = asyncio.create_task(child.talk(job))
        try:
            timeout_s = min(job.ends_at - job.loop.time(), self._job_deadline_s)
            ends: set[asyncio.Future[Any]] = {talk, job.answer}
            await asyncio.wait(ends, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            in_time = talk.done()
            if not in_time or talk.result() is None:
                await child.kill()
            if in_time:
                self._settle(job, talk.result())
            else:
                job.fail(EngineTimedOut("The job took longer than its deadline."))
        except asyncio.CancelledError:
            try:
                await child.kill()
            finally:
                job.fail(EngineDown("The engine is closing."))
            raise
        finally:
            talk.cancel()  # a killed child has ended it, but for one that isn't gone
            try:
                await settled(talk)
            finally:
                job.left.set_result(None)

    def _settle(self, job: "Job", reply: "Done | Failed | None") -> None:
        match reply:
            case Done(result=result):
                job.succeed(bytes(result))
            case Failed(kind=kind, message=message):
                job.fail(_FAILURES.get(kind, EngineFailed)(message))
            case None if job.begun:
                job.fail(EngineDied("The engine's process died in the middle of the job."))
            case None if job.worth_beginning():
                self._waiting.put_back(job.turn, job)
                self._wake()
            case None:  # the timer that would have taken it out of the queue may be over
                job.fail(EngineTimedOut(_TOO_LATE))
