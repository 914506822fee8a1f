"""Processes as /proc shows them. A process that ends between two reads is missing, which is no error."""

import contextlib
import os
import signal
from pathlib import Path


def told(pid: int, file: str) -> str:
    """What /proc/PID/FILE says; empty for a process that isn't there.

    Its folder vanishes when it is reaped (FileNotFoundError). A file of it that was opened before can't be
    read from then on (ProcessLookupError).
    """
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8", errors="replace")
    return ""


def state(pid: int) -> str:
    """One letter as proc_pid_stat(5) has them: `R` runs, `S` sleeps, `T` stopped, `Z` waits to be reaped;
    empty for a process that isn't there."""
    fields = told(pid, "stat").rpartition(")")[2].split()
    return fields[0] if fields else ""


def runs(pid: int) -> bool:
    """The process is there and not merely waiting to be reaped."""
    return state(pid) not in ("", "Z")


def children(pid: int) -> list[int]:
    """Those that the process's main thread started and hasn't reaped."""
    return [int(child) for child in told(pid, f"task/{pid}/children").split()]


def send(pid: int, number: signal.Signals) -> None:
    """Sends a signal to a process, if it is there."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
