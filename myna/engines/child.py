"""The child's side of `process.py`: jobs come in over stdin, answers go out over what was stdout.

A frame is its length, four bytes big-endian, and so many bytes of msgpack. The parent begins with `Setup`;
the child answers `Ready`, or `Failed` with the number 0 and ends. For each `Order` the child says `Took`
before it starts, `Progress` as often as the work tells, and then `Done` or `Failed`, all with the order's
number, so that the parent knows whether a child that died had begun.
"""

import ctypes
import errno
import functools
import os
import queue
import signal
import struct
import sys
import threading
import traceback
from collections.abc import Callable
from typing import BinaryIO

import msgspec

from myna.engines.spoken import EngineFailed

FRAME_MAX_BYTES = 1 << 20
LENGTH = struct.Struct(">I")
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NICENESS = 10
_PR_SET_PDEATHSIG = 1


class Setup(msgspec.Struct, frozen=True, array_like=True):
    """Parent to child, first of all: what to get ready; nil where the program knows by itself."""

    setup: msgspec.Raw


class Order(msgspec.Struct, frozen=True, array_like=True):
    """Parent to child: do this job."""

    number: int
    job: msgspec.Raw


class Ready(msgspec.Struct, frozen=True, array_like=True, tag="ready"):
    """The child is warm and waits for its first job."""


class Took(msgspec.Struct, frozen=True, array_like=True, tag="took"):
    """The child begins this order."""

    number: int


class Progress(msgspec.Struct, frozen=True, array_like=True, tag="progress"):
    """How much of the order is done, 0 to 1."""

    number: int
    fraction: float


class Done(msgspec.Struct, frozen=True, array_like=True, tag="done"):
    """The order's result."""

    number: int
    result: msgspec.Raw


class Failed(msgspec.Struct, frozen=True, array_like=True, tag="failed"):
    """The order failed: `kind` is the name of an error of `spoken.py`."""

    number: int
    kind: str
    message: str


Reply = Ready | Took | Progress | Done | Failed
Tell = Callable[[float], None]
"""Tells the parent how much of the job is done, 0 to 1."""
Work = Callable[[bytes, Tell], msgspec.Struct]
"""A job in msgpack, and a way to tell of progress; gives the result."""


def framed(message: msgspec.Struct) -> bytes:
    """The message as one frame. Raises ValueError over FRAME_MAX_BYTES."""
    body = msgspec.msgpack.encode(message)
    if len(body) > FRAME_MAX_BYTES:
        raise ValueError(f"A frame of {len(body)} bytes is over the limit of {FRAME_MAX_BYTES}.")
    return LENGTH.pack(len(body)) + body


def serve(warm: Callable[[bytes], Work]) -> None:
    """Lives as a child until the parent goes. `warm` takes the setup in msgpack, makes ready, gives the work.

    The EngineFailed of either is told as what it is; any other error of the work by its type, with the trace
    on stderr unless the disk is full. Any other error of `warm` ends the process.
    """
    answers = _take_stdout()
    _bind_to_parent(int(sys.argv[1]))
    setup = _read_frame(sys.stdin.buffer)
    orders: queue.SimpleQueue[Order] = queue.SimpleQueue()
    threading.Thread(target=_read_orders, args=(sys.stdin.buffer, orders), daemon=True).start()
    try:
        work = warm(bytes(msgspec.msgpack.decode(setup, type=Setup).setup))
    except EngineFailed as error:
        _say(answers, Failed(0, type(error).__name__, str(error)))
        return
    _say(answers, Ready())
    while True:
        order = orders.get()
        _say(answers, Took(order.number))
        _say(answers, _answer(work, order, functools.partial(_tell, answers, order.number)))


def _answer(work: Work, order: Order, tell: Tell) -> Reply:
    try:
        return Done(order.number, msgspec.Raw(msgspec.msgpack.encode(work(bytes(order.job), tell))))
    except EngineFailed as error:
        return Failed(order.number, type(error).__name__, str(error))
    except Exception as error:
        if not (isinstance(error, OSError) and error.errno in _NO_ROOM):
            traceback.print_exc()
        # An OSError's own text would name the path; its strerror says enough ("No space left on device").
        reason = error.strerror if isinstance(error, OSError) else None
        return Failed(order.number, EngineFailed.__name__, reason or type(error).__name__)


def _tell(answers: BinaryIO, number: int, fraction: float) -> None:
    _say(answers, Progress(number, min(max(fraction, 0.0), 1.0)))


def _take_stdout() -> BinaryIO:
    """The pipe to the parent under another number; what C code prints to fd 1 goes to stderr from here on."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers


def _say(answers: BinaryIO, reply: Reply) -> None:
    answers.write(framed(reply))
    answers.flush()


def _read_orders(stream: BinaryIO, orders: "queue.SimpleQueue[Order]") -> None:
    """Passes orders on; a closed stdin means that the parent is gone, and ends the process, busy or not."""
    decoder = msgspec.msgpack.Decoder(Order)
    while True:
        orders.put(decoder.decode(_read_frame(stream)))


def _read_frame(stream: BinaryIO) -> bytes:
    """The next frame; where there is none, the process ends."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        os._exit(0)
    return stream.read(LENGTH.unpack(head)[0])


def _bind_to_parent(parent_pid: int) -> None:
    """Low priority, and deaf to Ctrl-C and a service manager's SIGTERM: the parent ends its work in order.

    On Linux the kernel ends the child with the thread that started it, even where that one is killed by -9.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.platform != "win32":
        os.nice(_NICENESS)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent_pid:  # it died before the line above
            os._exit(0)
