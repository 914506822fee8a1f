"""Programs of the benchmark: pinned to cores, measured with all their children, stopped while idle.

On a machine of two cores the program under test has core 0; load, upstream and databases share core 1. With
three or more the databases get the last one; with four or more a second process of the program gets core 2.
All traffic is loopback. A program dies with the benchmark, however that ends.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from myna.engines.pool.child_handle import PROGRAM
from tests.rig.processes import tethered

READY_WAIT_S = 120.0
END_WAIT_S = 30.0
LOG_SHOWN_CHARS = 400
CORES_FOR_TWO = 4
INHERITED = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")


class CannotRun(Exception):
    """A program of the benchmark is not installed or does not start. The table shows the message."""


class Cores(NamedTuple):
    """Which core does what."""

    program: set[int]
    two: set[int]
    load: set[int]
    database: set[int]


def cores(count: int = 0) -> Cores:
    """The layout on a machine of `count` cores; 0 asks the machine."""
    count = count or os.cpu_count() or 1
    load = {1 % count}
    two = {0, 2} if count >= CORES_FOR_TWO else {0, 1 % count}
    return Cores(program={0}, two=two, load=load, database={count - 1} if count > 2 else load)


class Program:
    """A running program and all its children, by its pid; 0 for one that isn't on this machine."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def cpu_s(self) -> float:
        """User and system seconds of the whole tree, children that ended included."""
        return sum(_cpu_s(pid) for pid in tree(self.pid))

    def cpu_nanos(self) -> dict[int, int]:
        """Nanoseconds of each process that runs now, by its pid; those of processes that ended are not told.
        `cpu_s` counts ticks of 10 ms."""
        pids = tree(self.pid) if self.pid else []
        return {pid: int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[0]) for pid in pids}

    def peak_bytes(self) -> int:
        """The sum of each process's own peak of resident memory: what they share is counted for each."""
        return sum(memory_bytes(pid, "VmHWM") for pid in tree(self.pid))

    def peaks_bytes(self) -> dict[str, int]:
        """The same sum for each kind of process: `main`, and the module that a child process of Myna runs."""
        found: dict[str, int] = {}
        for pid in tree(self.pid):
            kind = _kind(pid)
            found[kind] = found.get(kind, 0) + memory_bytes(pid, "VmHWM")
        return found

    def memory_bytes(self) -> int:
        """Resident memory of its main process alone."""
        return memory_bytes(self.pid)

    def pause(self) -> None:
        """Stops it, so that it takes no CPU time from the next target."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for pid in tree(self.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


class Started(Program):
    """A program that we started and will end."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path) -> None:
        super().__init__(process.pid)
        self.log = log
        self._process = process

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> None:
        """SIGTERM; SIGKILL if that is ignored, and for remaining children."""
        self.resume()
        self._process.terminate()
        try:
            self._process.wait(END_WAIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(END_WAIT_S)
        with contextlib.suppress(ProcessLookupError):  # all of them went by themselves
            os.killpg(self.pid, signal.SIGKILL)

    def said(self) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace").strip()[-LOG_SHOWN_CHARS:]


@contextlib.contextmanager
def running(
    command: list[str], on: set[int], log: Path, environ: Mapping[str, str], folder: Path | None = None
) -> Iterator[Started]:
    """The command on these cores until the block ends, with a minimal environment."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    with log.open("wb") as out:
        process = subprocess.Popen(
            ["taskset", "-c", ",".join(map(str, sorted(on))), *tethered(command)],
            stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder, env={**inherited, **environ},
            start_new_session=True,
        )  # fmt: skip
    program = Started(process, log)
    try:
        yield program
    finally:
        program.end()


@contextlib.contextmanager
def pinned(on: set[int]) -> Iterator[None]:
    """What this process starts within the block runs on these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, on)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def wait_for(url: str, program: Started, wait_s: float = READY_WAIT_S) -> None:
    """Waits for an answer of any status. Raises CannotRun."""

    def answers() -> bool:
        try:
            urllib.request.urlopen(url, timeout=5).close()
        except urllib.error.HTTPError:
            return True
        except OSError:
            return False
        return True

    wait_until(answers, program, wait_s)


def wait_until(condition: Callable[[], bool], program: Started, wait_s: float = READY_WAIT_S) -> None:
    """Raises CannotRun when the program ends or takes too long."""
    until = time.monotonic() + wait_s
    while not condition():
        if program.ended:
            raise CannotRun(f"it ended: {program.said()}")
        if time.monotonic() > until:
            raise CannotRun(f"it wasn't ready within {wait_s:g} s: {program.said()}")
        time.sleep(0.05)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def tree(pid: int) -> list[int]:
    """The process and all below it; without those that ended."""
    found = [pid] if pid else []
    for known in found:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{known}/task").iterdir():
                with contextlib.suppress(OSError):  # a thread that ended hides none of the others' children
                    found += map(int, (task / "children").read_text(encoding="ascii").split())
    return found


def parent(pid: int) -> int:
    """The pid of the process's parent; 0 for a process that isn't here."""
    return _field(pid, "PPid")


def memory_bytes(pid: int, field: str = "VmRSS") -> int:
    """A figure of /proc/PID/status, such as VmRSS, VmHWM (the peak) or RssAnon; 0 if it has ended."""
    return _field(pid, field) * 1024


def _field(pid: int, name: str) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1])
    return 0


def _kind(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8").split("\0")
        if PROGRAM in words[:-1]:
            return words[words.index(PROGRAM) + 1]
    return "main"


def _cpu_s(pid: int) -> float:
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        own_and_reaped = fields[11:15]
        return sum(map(int, own_and_reaped)) / os.sysconf("SC_CLK_TCK")
    return 0.0


def machine_memory_bytes() -> int:
    """The total memory of the machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def installed(name: str) -> bool:
    """Whether a command of this name is there; Debian keeps some where only root looks."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is not None
