"""A pool of processes that do one job at a time and can be killed.

What runs in the process is of no concern here: a module that calls `child.serve` takes msgpack jobs and gives
msgpack results. A job ends by its answer, by its deadline or by its caller's cancelling; in the last two
cases the process is killed and another takes its place, so that nothing goes on behind the caller's back. A
process that dies fails the job it had begun; a job it hadn't begun goes to the next one.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections import deque
from typing import Any, Generic, TypeVar, cast

import msgspec

from myna.engines.child import FRAME_MAX_BYTES, LENGTH, Done, Failed, Order, Ready, Reply, Took, framed
from myna.engines.spoken import EngineBusy, EngineDied, EngineDown, EngineFailed, EngineTimedOut

R = TypeVar("R", bound=msgspec.Struct)

_START_DEADLINE_S = 60.0
if sys.platform == "win32":
    _CREATION_FLAGS = subprocess.BELOW_NORMAL_PRIORITY_CLASS
else:
    _CREATION_FLAGS = 0  # the child lowers its own priority
_RETRY_FIRST_S, _RETRY_MAX_S = 0.2, 5.0
# A job that spent more of its time than this in the queue isn't begun: it would only be killed half done, and
# a process that is killed is missing for a second. Under overload that would feed on itself.
_QUEUE_SHARE_MAX = 0.75


class Pool(Generic[R]):
    """`processes` children that run `python -m module`, with at most `queue_max` jobs waiting for them.

    A job may take `job_deadline_s` seconds from its begin. `result` is the struct that a job gives.
    """

    def __init__(
        self, module: str, result: type[R], *, processes: int, queue_max: int, job_deadline_s: float
    ) -> None:
        self._module = module
        self._results = msgspec.msgpack.Decoder(result)
        self._processes, self._queue_max = processes, queue_max
        self._job_deadline_s = job_deadline_s
        self._waiting: deque[_Job] = deque()
        self._idle: list[_Child] = []
        self._standing: dict[int, _Child] = {}  # by seat; a seat whose last start failed isn't there
        self._seats: list[asyncio.Task[None]] = []
        self._orders = 0

    async def start(self) -> None:
        """All processes are up and ready. Raises EngineDown when one isn't, and then none is left."""
        async with contextlib.AsyncExitStack() as undo:
            starts = (_Child.start(self._module) for _ in range(self._processes))
            started = await asyncio.gather(*starts, return_exceptions=True)
            children = [child for child in started if isinstance(child, _Child)]
            for child in children:
                undo.push_async_callback(child.kill)
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
        return len(self._waiting) >= self._queue_max + len(self._idle)

    def pids(self) -> list[int]:
        """The processes, for whoever watches over them."""
        return [child.process.pid for child in self._standing.values()]

    async def run(self, job: msgspec.Struct, deadline_s: float) -> R:
        """The job's result, at most `deadline_s` seconds from now, waiting included.

        Raises EngineBusy, EngineDown, EngineTimedOut, EngineDied, or the EngineFailed that the work raised.
        """
        if not self.up():
            raise EngineDown("The engine has no process that runs.")
        if self.full():
            raise EngineBusy("The engine has as many jobs waiting as it takes.")
        self._orders += 1
        entry = _Job(
            self._orders, framed(Order(self._orders, msgspec.Raw(msgspec.msgpack.encode(job)))), deadline_s
        )
        timer = entry.loop.call_at(entry.ends_at, self._expire, entry)
        self._waiting.append(entry)
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
        await asyncio.gather(*self._seats, return_exceptions=True)
        self._seats.clear()
        self._fail_waiting("The engine is closing.")

    async def _abandoned(self, job: "_Job") -> None:
        """Returns once no process works on the job any more."""
        if job in self._waiting:
            self._waiting.remove(job)
        else:
            await job.left.wait()

    def _expire(self, job: "_Job") -> None:
        """Takes the job out of the queue at its deadline; one that runs is ended by whoever runs it."""
        if job in self._waiting:
            self._waiting.remove(job)
            job.fail(EngineTimedOut("The deadline passed while the job waited for its turn."))

    def _wake(self) -> None:
        for child in self._idle:
            child.nudge.set()

    def _fail_waiting(self, reason: str) -> None:
        while self._waiting:
            self._waiting.popleft().fail(EngineDown(reason))

    async def _keep(self, seat: int, child: "_Child") -> None:
        """Holds one seat: a child serves until it dies, then another one sits down."""
        while True:
            try:
                while job := await self._next(child):
                    await self._run(child, job)
            finally:
                await child.kill()
            child = await self._replaced(seat)

    async def _replaced(self, seat: int) -> "_Child":
        """A new child, tried for until one starts, ever more slowly; the seat counts as down meanwhile."""
        pause_s = _RETRY_FIRST_S
        while True:
            try:
                child = await _Child.start(self._module)
            except EngineDown as down:
                self._standing.pop(seat, None)
                if not self._standing:
                    self._fail_waiting(str(down))
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _RETRY_MAX_S)
            else:
                self._standing[seat] = child
                return child

    async def _next(self, child: "_Child") -> "_Job | None":
        """The oldest job that is worth beginning; None when the child is no longer fit for one."""
        while not child.spent:
            while self._waiting:
                job = self._waiting.popleft()
                if job.worth_beginning():
                    return job
                job.fail(EngineTimedOut("The job waited too long for its turn."))
            child.nudge.clear()
            self._idle.append(child)
            try:
                await child.nudge.wait()
            finally:
                self._idle.remove(child)
        return None

    async def _run(self, child: "_Child", job: "_Job") -> None:
        """Gives the job to the child and settles it, whatever happens; a child that isn't done is killed."""
        job.left.clear()
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
            await child.kill()
            job.fail(EngineDown("The engine is closing."))
            raise
        finally:
            await talk  # a killed child ends it
            job.left.set()

    def _settle(self, job: "_Job", reply: "Done | Failed | None") -> None:
        match reply:
            case Done(result=result):
                job.succeed(bytes(result))
            case Failed(kind=kind, message=message):
                job.fail(_FAILURES.get(kind, EngineFailed)(message))
            case None if job.begun:
                job.fail(EngineDied("The engine's process died in the middle of the job."))
            case None if not job.answer.done():
                self._waiting.appendleft(job)
                self._wake()


class _Job:
    """One order on its way: `answer` is settled once; `left` is set while no process works on it."""

    def __init__(self, number: int, frame: bytes, deadline_s: float) -> None:
        self.loop = asyncio.get_running_loop()
        self.number, self.frame = number, frame
        self.ends_at = self.loop.time() + deadline_s
        self._begins_by = self.loop.time() + deadline_s * _QUEUE_SHARE_MAX
        self.answer: asyncio.Future[bytes] = self.loop.create_future()
        self.left = asyncio.Event()
        self.left.set()
        self.begun = False

    def worth_beginning(self) -> bool:
        return not self.answer.done() and self.loop.time() <= self._begins_by

    def succeed(self, result: bytes) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, error: EngineFailed) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class _Child:
    """One process: `spent` once it can take no more jobs, and `nudge` is set when it should look up."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._stdin = cast(asyncio.StreamWriter, process.stdin)  # both are pipes, see `_spawned`
        self._stdout = cast(asyncio.StreamReader, process.stdout)
        self.spent = False
        self.nudge = asyncio.Event()
        self._exit = asyncio.create_task(self._watch())

    @classmethod
    async def start(cls, module: str) -> "_Child":
        """A process that has said it is ready. Raises EngineDown."""
        spawning = asyncio.create_task(_spawned(module))
        try:
            child = cls(await asyncio.shield(spawning))
        except asyncio.CancelledError:  # a start that is broken off leaves a process without an owner
            await cls(await spawning).kill()
            raise
        ready = False
        try:
            async with asyncio.timeout(_START_DEADLINE_S):
                ready = isinstance(await child._reply(), Ready)
        except TimeoutError as late:
            raise EngineDown("The engine's process doesn't get ready in time.") from late
        finally:
            if not ready:
                await child.kill()
        if not ready:
            raise EngineDown("The engine's process ended before it was ready; its stderr says why.")
        return child

    async def talk(self, job: _Job) -> Done | Failed | None:
        """The child's answer to the job; None when it died or talks nonsense, and is then spent."""
        try:
            self._stdin.write(job.frame)
            await self._stdin.drain()
        except (OSError, RuntimeError):  # asyncio raises the first when the child is gone, uvloop the second
            self.spent = True
            return None
        while reply := await self._reply():
            match reply:
                case Took(number=job.number):
                    job.begun = True
                case Done(number=job.number) | Failed(number=job.number):
                    return reply
                case _:
                    break
        self.spent = True
        return None

    async def kill(self) -> None:
        """Returns once the process is gone; stopped or hung ones go too."""
        self.spent = True
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it went by itself just now
                self.process.kill()
        self._stdin.close()
        await asyncio.shield(self._exit)

    async def _reply(self) -> Reply | None:
        try:
            length: int = LENGTH.unpack(await self._stdout.readexactly(LENGTH.size))[0]
            if length > FRAME_MAX_BYTES:
                return None
            return _REPLIES.decode(await self._stdout.readexactly(length))
        except (asyncio.IncompleteReadError, OSError, msgspec.MsgspecError):
            return None

    async def _watch(self) -> None:
        await self.process.wait()
        self.spent = True
        self.nudge.set()


_REPLIES: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
_FAILURES = {error.__name__: error for error in EngineFailed.__subclasses__()}


async def _spawned(module: str) -> asyncio.subprocess.Process:
    """The module as a program, without the folder it is started in on its path and without our settings."""
    settings = "MYNA_"
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", module, str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if not name.startswith(settings)},
            creationflags=_CREATION_FLAGS,
        )
    except OSError as error:
        raise EngineDown("The engine's process can't be started.") from error
