"""The parent's side of one child process of a pool, and its jobs."""

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import NamedTuple, cast

import msgspec

from myna.engines.interface import Client, EngineFailed, EngineUnavailable
from myna.engines.pool.admission import is_long
from myna.engines.pool.child_main import (
    FRAME_MAX_BYTES,
    LENGTH,
    ChildReady,
    JobDone,
    JobFailed,
    JobPart,
    JobProgress,
    JobStarted,
    JobUnspoken,
    Reply,
)
from myna.lib.files import wait_shielded
from myna.lib.sandbox import Confinement, child_environ

PROGRAM = "import sys; from myna.engines.pool.child_main import serve; serve(sys.argv[1], int(sys.argv[2]))"
"""The program of all child processes. Its arguments are the module and the id of the parent process."""
# numpy's OpenBLAS would start a thread for each core in every child, and no child uses it.
_ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
_SET_BY_OPERATOR = "OMP_NUM_THREADS"  # applies to OpenBLAS too, which would prefer the variable above
# A job that waited for a larger share of its time than this is not started: it would probably be killed at
# its deadline, and replacing a killed process takes a second. Under overload that would add to the overload.
QUEUE_SHARE_MAX = 0.75
KILL_WAIT_S = 5.0
"""Time limit for a killed process to end; it takes milliseconds."""
EXIT_POLL_S = 1.0

log = logging.getLogger(__name__)

TakePart = Callable[[bytes], Awaitable[None]]


class ChildProgram(NamedTuple):
    """The module that a child runs, its first frame, and its time limit to become ready."""

    module: str
    setup: bytes
    start_deadline_s: float


class PendingJob:
    """A job until it ends: `answer` gets its result or error; `released` is done while no process runs it.

    Both are futures, not tasks, so the end of the event loop does not cancel them.
    """

    def __init__(
        self, number: int, frame: bytes, deadline_s: float, client: Client, take_part: TakePart | None
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.number = number
        self.frame = frame
        self.client = client
        self.long = is_long(client.sound_s)
        self.take_part = take_part
        self.queued_at = self.loop.time()
        self.ends_at = self.queued_at + deadline_s
        self._start_by = self.loop.time() + deadline_s * QUEUE_SHARE_MAX
        self.answer: asyncio.Future[bytes] = self.loop.create_future()
        self.released: asyncio.Future[None] = self.loop.create_future()
        self.released.set_result(None)
        self.started = False
        self.retried = False
        self.has_sent = False  # a part of its output

    def worth_starting(self) -> bool:
        return not self.answer.done() and self.loop.time() <= self._start_by

    def report_progress(self, fraction: float) -> None:
        """Calls the caller's `progress`. If it raises, only this job fails."""
        if self.client.progress is not None and not self.answer.done():
            try:
                self.client.progress(fraction)
            except Exception as error:
                self.answer.set_exception(error)

    def succeed(self, result: bytes) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, error: EngineFailed) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Child:
    """One process. `unusable` once it can take no more jobs; `wakeup` is set when it may have one."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._stdin = cast(asyncio.StreamWriter, process.stdin)  # both are pipes, see `_spawn`
        self._stdout = cast(asyncio.StreamReader, process.stdout)
        self.unusable = False
        self.wakeup = asyncio.Event()
        self._exit = asyncio.create_task(self._watch())
        self._kill_deadline: float | None = None
        self._exit_timed_out = False
        self.confinement = Confinement()

    @classmethod
    async def start(cls, program: "ChildProgram") -> "Child":
        """Starts a process and waits until it reports that it is ready.

        Raises EngineUnavailable, and ChildNotEnded if the process was killed and has not ended.
        """
        spawning = asyncio.create_task(_spawn(program.module))
        try:
            child = cls(await asyncio.shield(spawning))
        except asyncio.CancelledError:  # the process would have no owner
            await cls(await spawning).kill()
            raise
        try:
            async with asyncio.timeout(program.start_deadline_s):
                reply = await child._receive() if await child._send(program.setup) else None
            failure = _start_failure(reply)
            if isinstance(reply, ChildReady):
                child.confinement = reply.confinement
        except TimeoutError:
            failure = "The engine's process did not become ready in time."
        except BaseException:
            await child.kill()
            raise
        if failure:
            await child.kill()
            raise EngineUnavailable(failure) if child.has_exited() else ChildNotEnded(failure, child)
        return child

    async def run(self, job: PendingJob) -> JobDone | JobFailed | None:
        """The child's reply to the job. None if it ended or broke the protocol; it is unusable then."""
        if not await self._send(job.frame):
            self.unusable = True
            return None
        while reply := await self._receive():
            match reply:
                case JobStarted(number=job.number):
                    job.started = True
                case JobUnspoken(number=job.number, counts=counts):
                    if job.client.unspoken is not None:
                        job.client.unspoken(counts)
                case JobProgress(number=job.number, fraction=fraction):
                    job.report_progress(fraction)
                case JobPart(number=job.number, part=part) if job.take_part is not None:
                    job.has_sent = True
                    await job.take_part(part)
                case JobDone(number=job.number) | JobFailed(number=job.number):
                    return reply
                case _:
                    break
        self.unusable = True
        return None

    async def kill(self) -> None:
        """Kills the process, also a stopped or hung one, and waits until it has ended.

        A process in uninterruptible I/O does not end: returns KILL_WAIT_S after the first call.
        """
        self.unusable = True
        now = asyncio.get_running_loop().time()
        if self._kill_deadline is None:
            self._kill_deadline = now + KILL_WAIT_S
            if self.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):  # it has just ended
                    self.process.kill()
            self._stdin.close()
        await wait_shielded(self._exit, self._kill_deadline - now)
        if not self.has_exited() and not self._exit_timed_out:
            self._exit_timed_out = True
            log.error("process %d was killed and has not ended", self.process.pid)

    def has_exited(self) -> bool:
        # Without uvloop `_exit` also waits for the end of stdout, which may have no reader any more.
        return self._exit.done() or self.process.returncode is not None

    async def wait_exited(self) -> None:
        """Waits without a time limit."""
        while not self.has_exited():
            await asyncio.wait([self._exit], timeout=EXIT_POLL_S)

    async def _send(self, frame: bytes) -> bool:
        try:
            self._stdin.write(frame)
            await self._stdin.drain()
        except (
            OSError,
            RuntimeError,
        ):  # asyncio raises the first when the child has ended, uvloop the second
            return False
        return True

    async def _receive(self) -> Reply | None:
        try:
            length: int = LENGTH.unpack(await self._stdout.readexactly(LENGTH.size))[0]
            if length > FRAME_MAX_BYTES:
                return None
            return _REPLIES.decode(await self._stdout.readexactly(length))
        except (asyncio.IncompleteReadError, OSError, msgspec.MsgspecError):
            return None

    async def _watch(self) -> None:
        await self.process.wait()
        self.unusable = True
        self.wakeup.set()


class ChildNotEnded(EngineUnavailable):
    """A process did not become ready. It was killed, and `child` has not ended."""

    def __init__(self, message: str, child: Child) -> None:
        super().__init__(message)
        self.child = child


def _start_failure(reply: Reply | None) -> str:
    """Why a child with this reply to its setup is not ready; empty if it is."""
    if isinstance(reply, ChildReady):
        return ""
    if isinstance(reply, JobFailed):
        return reply.message
    return "The engine's process ended before it was ready; its stderr says why."


_REPLIES: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


async def _spawn(module: str) -> asyncio.subprocess.Process:
    """A child process for the module. Its import path excludes the working folder, and its environment has
    only the variables that it needs."""
    environ = child_environ(os.environ)
    if _SET_BY_OPERATOR not in environ:
        environ = _ONE_BLAS_THREAD | environ
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", PROGRAM, module, str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
        )
    except OSError as error:
        raise EngineUnavailable("The engine's process can't be started.") from error
