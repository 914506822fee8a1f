"""Processes as /proc shows them. A process that ends between two reads is missing, which is no error."""

import contextlib
import os
import signal
from pathlib import Path


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
