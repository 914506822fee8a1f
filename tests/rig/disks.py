"""The folder for the files of tests, and faulty disks: a stalled one, like a network file system, a full one
and a read-only one."""

import contextlib
import errno
import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar

from tests.rig.commands import COMMAND_DEADLINE_S, Ended
from tests.rig.processes import tethered
from tests.rig.waiting import SOON_S

_MEMORY = Path("/dev/shm")  # noqa: S108 - every user of it makes a folder with a random name
_MEMORY_NEEDED_BYTES = 4 * 2**30
"""Room for two workers' folders and PostgreSQL servers, 1.2 GiB at their largest, and as much again."""
_LIMITED: Final = (
    "import os, resource, sys;"
    "size = int(sys.argv[1]);"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (size, size));"
    "os.execv(sys.executable, [sys.executable, '-m', 'myna', *sys.argv[2:]])"
)
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


def on_full_disk(file_max_bytes: int, arguments: list[str], env: Mapping[str, str], cwd: Path) -> Ended:
    """Runs `myna ARGUMENTS…` as on a full disk: neither it nor its children can make a file longer than this.

    They cache no compiled modules, which would be cut at the limit and fail every later process.
    """
    ended = subprocess.run(
        tethered([sys.executable, "-c", _LIMITED, str(file_max_bytes), *arguments]),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**env, "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=cwd,
        timeout=COMMAND_DEADLINE_S,
        text=True,
        check=False,
    )
    return Ended(ended.returncode, ended.stdout, ended.stderr)


def temporary_folder() -> Path:
    """An existing folder for temporary files: TMPDIR where it is set, or memory if the machine has enough, or
    the system's default."""
    usable = "TMPDIR" not in os.environ and _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK)
    if usable and shutil.disk_usage(_MEMORY).free >= _MEMORY_NEEDED_BYTES:
        return _MEMORY
    return Path(tempfile.gettempdir())
