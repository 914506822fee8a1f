"""The child's side of `pool.py`: jobs arrive on stdin, replies leave on the former stdout.

A frame is its length in four bytes, big-endian, and that many bytes of msgpack. The parent sends `Setup`
first; the child answers `ChildReady`, or `JobFailed` with the number 0 and exits. For each `StartJob` the
child sends `JobStarted` before it starts, `JobUnspoken`, `JobProgress` and `JobPart` as often as the work has
them, and then `JobDone` or `JobFailed`, all with the job's number: the parent knows whether a child that
crashed had started the job.
"""

import errno
import importlib
import os
import queue
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec

from myna.engines.interface import EngineFailed
from myna.lib.sandbox import AllowedPaths, Confinement, confine, end_with_parent

FRAME_MAX_BYTES = 8 << 20
"""More than a minute of sound, at any speed of a piece of text."""
LENGTH = struct.Struct(">I")
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NICENESS = 10


class Setup(msgspec.Struct, frozen=True, array_like=True):
    """Parent to child, first: `setup` is the argument of the module's `warm`, or nil. `files` are the only
    files that the child may open; nil does not restrict it."""

    setup: msgspec.Raw
    files: AllowedPaths | None = None


class StartJob(msgspec.Struct, frozen=True, array_like=True):
    """Parent to child: run this job."""

    number: int
    job: msgspec.Raw


class ChildReady(msgspec.Struct, frozen=True, array_like=True, tag="ready"):
    """The child is ready for its first job."""

    confinement: Confinement


class JobStarted(msgspec.Struct, frozen=True, array_like=True, tag="started"):
    """The child starts this job."""

    number: int


class JobUnspoken(msgspec.Struct, frozen=True, array_like=True, tag="unspoken"):
    """What of the job's text is not spoken, and how often."""

    number: int
    counts: dict[str, int]


class JobProgress(msgspec.Struct, frozen=True, array_like=True, tag="progress"):
    """The fraction of the job that is done, 0 to 1."""

    number: int
    fraction: float


class JobPart(msgspec.Struct, frozen=True, array_like=True, tag="part"):
    """The next part of the job's output."""

    number: int
    part: bytes


class JobDone(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """The job's result."""

    number: int
    result: msgspec.Raw


class JobFailed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """The job failed: `kind` is the name of an error of `interface.py`."""

    number: int
    kind: str
    message: str


Reply = ChildReady | JobStarted | JobUnspoken | JobProgress | JobPart | JobDone | JobFailed


class RunningJob:
    """Sends progress and parts of the output of a job to the parent, before its result."""

    def __init__(self, replies: BinaryIO, number: int) -> None:
        self._replies = replies
        self._number = number

    def unspoken(self, counts: dict[str, int]) -> None:
        """Reports what of the text is not spoken, before the first part."""
        _send(self._replies, JobUnspoken(self._number, counts))

    def progress(self, fraction: float) -> None:
        """Reports the fraction of the job that is done, 0 to 1."""
        _send(self._replies, JobProgress(self._number, min(max(fraction, 0.0), 1.0)))

    def part(self, part: bytes) -> None:
        """Sends the next part of the output, for a job whose caller takes parts. Blocks while the parent has
        enough of them. Raises ValueError if it is too large for a frame."""
        _send(self._replies, JobPart(self._number, part))


Work = Callable[[bytes, RunningJob], msgspec.Struct]
"""Runs a job, given in msgpack, and returns its result."""


def framed(message: msgspec.Struct) -> bytes:
    """The message as one frame. Raises ValueError over FRAME_MAX_BYTES."""
    body = msgspec.msgpack.encode(message)
    if len(body) > FRAME_MAX_BYTES:
        raise ValueError(f"A frame of {len(body)} bytes is over the limit of {FRAME_MAX_BYTES}.")
    return LENGTH.pack(len(body)) + body


def path_bytes(path: Path) -> bytes:
    """The path for a job: absolute, since a child may have another working folder."""
    return os.fsencode(path.absolute())


def serve(module: str, parent_pid: int) -> None:
    """Runs jobs until the parent ends. The module's `warm` takes the setup in msgpack and returns the `Work`.

    The module is imported after the process is confined: libraries start threads and read files when they are
    imported. An EngineFailed of `warm` or of a job is reported as such. Any other error of a job is reported
    by its type, with the trace on stderr unless the disk is full. Any other error of `warm` ends the process.
    """
    replies = _take_stdout()
    _bind_to_parent(parent_pid)
    setup = msgspec.msgpack.decode(_read_frame(sys.stdin.buffer), type=Setup)
    confinement = confine(setup.files)
    jobs: queue.SimpleQueue[StartJob] = queue.SimpleQueue()
    threading.Thread(target=_read_jobs, args=(sys.stdin.buffer, jobs), daemon=True).start()
    try:
        work: Work = importlib.import_module(module).warm(bytes(setup.setup))
    except EngineFailed as error:
        _send(replies, JobFailed(0, type(error).__name__, str(error)))
        return
    _send(replies, ChildReady(confinement))
    while True:
        job = jobs.get()
        _send(replies, JobStarted(job.number))
        _write(replies, _run(work, job, RunningJob(replies, job.number)))


def _run(work: Work, job: StartJob, running: RunningJob) -> bytes:
    """The frame of the reply. A result that is too large for a frame is an error of the job."""
    try:
        result = work(bytes(job.job), running)
        return framed(JobDone(job.number, msgspec.Raw(msgspec.msgpack.encode(result))))
    except EngineFailed as error:
        return framed(JobFailed(job.number, type(error).__name__, str(error)))
    except Exception as error:
        if not (isinstance(error, OSError) and error.errno in _NO_ROOM):
            traceback.print_exc()
        # An OSError's text names the path; its strerror does not ("No space left on device").
        reason = error.strerror if isinstance(error, OSError) else None
        return framed(JobFailed(job.number, EngineFailed.__name__, reason or type(error).__name__))


def _take_stdout() -> BinaryIO:
    """The pipe to the parent under another descriptor; output of C code to fd 1 now goes to stderr."""
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return replies


def silence_libraries() -> None:
    """Discards output of C code. Python's errors still go to stderr."""
    sys.stderr = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    os.close(devnull)


def _send(replies: BinaryIO, reply: Reply) -> None:
    _write(replies, framed(reply))


def _write(replies: BinaryIO, frame: bytes) -> None:
    replies.write(frame)
    replies.flush()


def _read_jobs(stream: BinaryIO, jobs: "queue.SimpleQueue[StartJob]") -> None:
    """Queues jobs. A closed stdin means that the parent has ended, and ends the process, busy or not."""
    decoder = msgspec.msgpack.Decoder(StartJob)
    while True:
        jobs.put(decoder.decode(_read_frame(stream)))


def _read_frame(stream: BinaryIO) -> bytes:
    """The next frame. Ends the process at the end of the stream."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        os._exit(0)
    return stream.read(LENGTH.unpack(head)[0])


def _bind_to_parent(parent_pid: int) -> None:
    """Lowers the priority, and ignores SIGINT and SIGTERM: the parent drains its work and then ends the
    child, or is killed itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(_NICENESS)
    end_with_parent(parent_pid, signal.SIGKILL)
