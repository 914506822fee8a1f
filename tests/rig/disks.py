"""Faulty disks: a stalled one, like a network file system, and a read-only one."""

import errno
import threading
from typing import TypeVar

T = TypeVar("T")


class StalledDisk:
    """Blocks every call until `resume`."""

    def __init__(self) -> None:
        self.calls: list[object] = []
        self._resumed = threading.Event()

    def block(self, result: T) -> T:
        """Counts the call, and returns `result` after `resume`."""
        self.calls.append(result)
        assert self._resumed.wait(60)
        return result

    def resume(self) -> None:
        self._resumed.set()


def read_only(*_: object, **__: object) -> None:
    """Replaces a function that changes a file. The path in its error must not be logged or sent."""
    raise OSError(errno.EROFS, "Read-only file system", "/secret/place")
