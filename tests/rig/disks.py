"""Disks that fail: one that stands still, as a network's may, and one that lets nothing be changed."""

import errno
import threading
from typing import TypeVar

T = TypeVar("T")


class StillDisk:
    """Stands still until it `goes_on`."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self._moves = threading.Event()

    def take(self, what: T) -> T:
        self.asked.append(what)
        assert self._moves.wait(60)
        return what

    def goes_on(self) -> None:
        self._moves.set()


def read_only(*_: object, **__: object) -> None:
    """In place of what changes a file. The path that the error has must not get to anybody."""
    raise OSError(errno.EROFS, "Read-only file system", "/secret/place")
