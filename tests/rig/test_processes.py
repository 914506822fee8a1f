"""A process that ends while /proc is read counts as ended."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.rig import processes


@pytest.fixture
def ended_pid() -> int:
    """The pid of a process that ended and was reaped."""
    ended = subprocess.Popen(["true"])
    ended.wait()
    return ended.pid


def test_a_process_that_ended_has_no_state(ended_pid: int) -> None:
    assert (
        processes.proc_file(ended_pid, "comm"),
        processes.state(ended_pid),
        processes.children(ended_pid),
    ) == ("", "", [])
    assert not processes.runs(ended_pid)
    processes.send(ended_pid, signal.SIGTERM)


@pytest.mark.parametrize("error", [FileNotFoundError, ProcessLookupError])
def test_a_process_that_ends_during_a_read_has_no_state(
    error: type[OSError], monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanish(*_: object, **__: object) -> str:
        raise error

    monkeypatch.setattr(Path, "read_text", vanish)
    assert processes.state(os.getpid()) == ""


def test_an_open_proc_file_cannot_be_read_after_the_process_is_reaped() -> None:
    """The reason why both errors are expected."""
    running = subprocess.Popen(["sleep", "100"])
    with Path(f"/proc/{running.pid}/comm").open() as comm:
        running.kill()
        running.wait()
        with pytest.raises(ProcessLookupError):
            comm.read()
    assert processes.proc_file(running.pid, "comm") == ""


def test_a_running_process_has_state_and_children() -> None:
    running = subprocess.Popen(["sleep", "100"])
    try:
        assert running.pid in processes.children(os.getpid()) and processes.runs(running.pid)
    finally:
        running.kill()
    os.waitid(os.P_PID, running.pid, os.WEXITED | os.WNOWAIT)
    assert processes.state(running.pid) == "Z" and not processes.runs(running.pid)
    running.wait()
