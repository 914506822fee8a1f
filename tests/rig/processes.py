"""Processes as /proc shows them, and programs that end with the test run.

A process that ends between two reads of /proc is missing, which is not an error.

`python -I -S processes.py SIGNAL USER PROGRAM ARGUMENT…` runs a program to which the kernel sends SIGNAL when
the thread that started it ends (PR_SET_PDEATHSIG, see prctl(2)), so a test run that is killed leaves no
server. This is a separate program, and not a `preexec_fn`, because forking a process that has threads is
unsafe and a warning since Python 3.12. Off Linux it only runs the program. With a USER other than `-` it
first becomes that user, because that user may not be allowed to run this interpreter.
"""

import contextlib
import ctypes
import os
import pwd
import signal
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1


def proc_file(pid: int, file: str) -> str:
    """The text of /proc/PID/FILE; empty for a process that doesn't exist.

    Its folder is removed when it is reaped (FileNotFoundError). A file of it that was opened before can't be
    read afterwards (ProcessLookupError).
    """
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8", errors="replace")
    return ""


def state(pid: int) -> str:
    """One letter as proc_pid_stat(5) has them: `R` runs, `S` sleeps, `T` stopped, `Z` waits to be reaped;
    empty for a process that doesn't exist."""
    fields = proc_file(pid, "stat").rpartition(")")[2].split()
    return fields[0] if fields else ""


def cpu_ticks(pid: int) -> int:
    """The CPU time of the process so far, as proc_pid_stat(5) counts it; 0 for one that doesn't exist."""
    fields = proc_file(pid, "stat").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) if fields else 0


def runs(pid: int) -> bool:
    """True if the process exists and is no zombie."""
    return state(pid) not in ("", "Z")


def children(pid: int) -> list[int]:
    """The child processes that it has not reaped."""
    threads = (thread.name for thread in Path(f"/proc/{pid}/task").glob("*"))
    return [int(child) for thread in threads for child in proc_file(pid, f"task/{thread}/children").split()]


def send(pid: int, number: signal.Signals) -> None:
    """Sends a signal to a process, if it exists."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def tethered(
    arguments: list[str], ends_with: signal.Signals = signal.SIGKILL, user: str | None = None
) -> list[str]:
    """The command line that runs `arguments`, as `user`, tied to the calling thread's life."""
    return [sys.executable, "-I", "-S", str(Path(__file__)), str(int(ends_with)), user or "-", *arguments]


def _become(user: str) -> None:
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def _main() -> None:
    if sys.argv[2] != "-":
        _become(sys.argv[2])
    if sys.platform == "linux":
        # After the change of user, which resets it.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(sys.argv[1]), 0, 0, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell ignores it for its background jobs
    os.execvp(sys.argv[3], sys.argv[3:])  # noqa: S606 - the arguments are the test's own


if __name__ == "__main__":
    _main()
