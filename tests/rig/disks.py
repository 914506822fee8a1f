"""Faulty disks: a stalled one, like a network file system, and a read-only one."""

import contextlib
import errno
import fcntl
import os
import signal
import threading
from pathlib import Path
from typing import TypeVar

from tests.rig.waiting import SOON_S

T = TypeVar("T")


class StalledDisk:
    """Blocks every call until `resume`."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self._resumed = threading.Event()

    def block(self, result: T) -> T:
        """Counts the call, and returns `result` after `resume`."""
        self.calls.append(result)
        assert self._resumed.wait(SOON_S)
        return result

    def resume(self) -> None:
        self._resumed.set()


class BlockedFile:
    """Blocks the next process that opens the file, until `release`, by a lease (fcntl(2))."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDONLY)
        fcntl.fcntl(self._handle, fcntl.F_SETSIG, signal.SIGURG)  # ignored, unlike SIGIO
        fcntl.fcntl(self._handle, fcntl.F_SETLEASE, fcntl.F_WRLCK)

    def blocks(self) -> bool:
        """Whether a process waits to open the file."""
        return fcntl.fcntl(self._handle, fcntl.F_GETLEASE) != fcntl.F_WRLCK

    def release(self) -> None:
        os.close(self._handle)


class StuckFile:
    """A file whose reader waits forever: a pipe that is open for writing without data."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._writers: list[int] = []

    def has_reader(self) -> bool:
        with contextlib.suppress(OSError):  # the pipe has no reader yet
            self._writers.append(os.open(self.path, os.O_WRONLY | os.O_NONBLOCK))
        return bool(self._writers)

    def close(self) -> None:
        for writer in self._writers:
            os.close(writer)


def read_only(*_: object, **__: object) -> None:
    """Replaces a function that changes a file. The path in its error must not be logged or sent."""
    raise OSError(errno.EROFS, "Read-only file system", "/secret/place")
