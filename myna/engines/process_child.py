"""A child of a pool as its parent sees it, and the jobs it is given."""

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Hashable
from typing import NamedTuple, cast

import msgspec

from myna.disk_threads import settled
from myna.engines.child import FRAME_MAX_BYTES, LENGTH, Done, Failed, Progress, Ready, Reply, Took
from myna.engines.spoken import EngineDown, EngineFailed

if sys.platform == "win32":
    _CREATION_FLAGS = subprocess.BELOW_NORMAL_PRIORITY_CLASS
else:
    _CREATION_FLAGS = 0  # the child lowers its own priority
# numpy's OpenBLAS would start a thread for each core in every child, and none of them has work for it.
_NO_THREADS_OF_BLAS = {"OPENBLAS_NUM_THREADS": "1"}
_SET_BY_THE_OPERATOR = "OMP_NUM_THREADS"  # it goes for OpenBLAS too, which would take ours first
# A job that spent more of its time than this in the queue isn't begun: it would only be killed half done, and
# a process that is killed is missing for a second. Under overload that would feed on itself.
_QUEUE_SHARE_MAX = 0.75
KILL_WAIT_S = 5.0
"""How long anybody waits for a process that was killed; it takes milliseconds."""
GONE_LOOK_S = 1.0

log = logging.getLogger(__name__)


class Program(NamedTuple):
    """What a child runs, the frame it is set up with, and how many seconds it has to get ready."""

    module: str
    setup: bytes
    start_deadline_s: float


class Job:
    """One order on its way: `answer` is settled once; `left` is done while no process works on it. Neither is
    a task, so the end of the event loop cancels none of them."""

    def __init__(
        self,
        number: int,
        frame: bytes,
        deadline_s: float,
        turn: Hashable,
        progress: Callable[[float], None] | None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.number, self.frame, self.turn = number, frame, turn
        self._progress = progress
        self.ends_at = self.loop.time() + deadline_s
        self._begins_by = self.loop.time() + deadline_s * _QUEUE_SHARE_MAX
        self.answer: asyncio.Future[bytes] = self.loop.create_future()
        self.left: asyncio.Future[None] = self.loop.create_future()
        self.left.set_result(None)
        self.begun = False

    def worth_beginning(self) -> bool:
        return not self.answer.done() and self.loop.time() <= self._begins_by

    def tell(self, fraction: float) -> None:
        """Passes progress on; a caller that can't take it fails its own job and nothing else."""
        if self._progress is not None and not self.answer.done():
            try:
                self._progress(fraction)
            except Exception as error:
                self.answer.set_exception(error)

    def succeed(self, result: bytes) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, error: EngineFailed) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Child:
    """One process: `spent` once it can take no more jobs, and `nudge` is set when it should look up."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self._stdin = cast(asyncio.StreamWriter, process.stdin)  # both are pipes, see `_spawned`
        self._stdout = cast(asyncio.StreamReader, process.stdout)
        self.spent = False
        self.nudge = asyncio.Event()
        self._exit = asyncio.create_task(self._watch())
        self._waited_until: float | None = None
        self._given_up = False

    @classmethod
    async def start(cls, program: "Program") -> "Child":
        """A process that has said it is ready. Raises EngineDown, and NotGone where it left one behind."""
        spawning = asyncio.create_task(_spawned(program.module))
        try:
            child = cls(await asyncio.shield(spawning))
        except asyncio.CancelledError:  # a start that is broken off leaves a process without an owner
            await cls(await spawning).kill()
            raise
        try:
            async with asyncio.timeout(program.start_deadline_s):
                fault = _unready(await child._prepared(program.setup))
        except TimeoutError:
            fault = "The engine's process doesn't get ready in time."
        except BaseException:
            await child.kill()
            raise
        if fault:
            await child.kill()
            raise EngineDown(fault) if child.is_gone() else NotGone(fault, child)
        return child

    async def _prepared(self, setup: bytes) -> Reply | None:
        """What the child says to its setup."""
        return await self._reply() if await self._send(setup) else None

    async def talk(self, job: Job) -> Done | Failed | None:
        """The child's answer to the job; None when it died or talks nonsense, and is then spent."""
        if not await self._send(job.frame):
            self.spent = True
            return None
        while reply := await self._reply():
            match reply:
                case Took(number=job.number):
                    job.begun = True
                case Progress(number=job.number, fraction=fraction):
                    job.tell(fraction)
                case Done(number=job.number) | Failed(number=job.number):
                    return reply
                case _:
                    break
        self.spent = True
        return None

    async def kill(self) -> None:
        """Returns once the process is gone; stopped or hung ones go too. What the kernel holds on to, for a
        disk that stands still, is left to it KILL_WAIT_S after the first of these calls."""
        self.spent = True
        now = asyncio.get_running_loop().time()
        if self._waited_until is None:
            self._waited_until = now + KILL_WAIT_S
            if self.process.returncode is None:
                with contextlib.suppress(ProcessLookupError):  # it went by itself just now
                    self.process.kill()
            self._stdin.close()
        await settled(self._exit, self._waited_until - now)
        if not self.is_gone() and not self._given_up:
            self._given_up = True
            log.error("process %d was killed and isn't gone", self.process.pid)

    def is_gone(self) -> bool:
        """Without uvloop `_exit` also waits for a pipe that nobody may read any more."""
        return self._exit.done() or self.process.returncode is not None

    async def gone(self) -> None:
        """However long that takes."""
        while not self.is_gone():
            await asyncio.wait([self._exit], timeout=GONE_LOOK_S)

    async def _send(self, frame: bytes) -> bool:
        try:
            self._stdin.write(frame)
            await self._stdin.drain()
        except (OSError, RuntimeError):  # asyncio raises the first when the child is gone, uvloop the second
            return False
        return True

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


class NotGone(EngineDown):
    """A process that didn't get ready was killed, and `child` is still there."""

    def __init__(self, message: str, child: Child) -> None:
        super().__init__(message)
        self.child = child


def _unready(reply: Reply | None) -> str:
    """Why a child that said this to its setup isn't ready; empty where it is."""
    if isinstance(reply, Ready):
        return ""
    if isinstance(reply, Failed):
        return reply.message
    return "The engine's process ended before it was ready; its stderr says why."


_REPLIES: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)


async def _spawned(module: str) -> asyncio.subprocess.Process:
    """The module as a program, without the folder it is started in on its path and without our settings."""
    settings = "MYNA_"
    environ = {name: value for name, value in os.environ.items() if not name.startswith(settings)}
    if _SET_BY_THE_OPERATOR not in environ:
        environ = _NO_THREADS_OF_BLAS | environ
    try:
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", module, str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
            creationflags=_CREATION_FLAGS,
        )
    except OSError as error:
        raise EngineDown("The engine's process can't be started.") from error
