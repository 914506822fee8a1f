"""Runs a demo: Ctrl-C shuts down cleanly, and a failure is one line. Its long-running `myna` commands are
child processes with logs, which it stops at its end."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from demo.output import Output
from myna.errors import ConfigError

STOP_WAIT_S = 30.0
LOG_LINES = 12
FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130
LOOK_EVERY_S = 0.2


class DemoFailed(Exception):
    """A step of the demo failed. The message is one line; its notes are the ends of logs."""


class Program:
    """`myna ARGUMENTS…` as a child process, called `name`, in this process's folder or another.

    It has a separate process group, so that Ctrl-C reaches only the demo. As a context manager it is stopped
    at the end of the block, and an error raised in the block gets the end of the log as a note.
    """

    def __init__(
        self, name: str, *arguments: str, log: Path, env: Mapping[str, str], folder: Path | None = None
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as file:  # never cut short: another demo may be writing to it
            self._log_start = file.tell()
            self._process = subprocess.Popen(  # noqa: S603  our own program
                [sys.executable, "-m", "myna", *arguments],
                stdin=subprocess.DEVNULL, stdout=file, stderr=file, env=env, cwd=folder, process_group=0,
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if isinstance(error, DemoFailed | OSError):
            for line in self._log_tail():
                error.add_note(line)

    def check(self) -> None:
        """Raises DemoFailed if it has ended."""
        code = self._process.poll()
        if code is not None:
            raise DemoFailed(f"{self.name} exited with code {code}.")

    def stop(self) -> int:
        """Sends SIGTERM and waits; a second Ctrl-C kills it. Returns the exit code."""
        self._process.terminate()  # does nothing to one that has ended
        try:
            return self._process.wait(STOP_WAIT_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            self._process.kill()
            return self._process.wait()

    def _log_tail(self) -> list[str]:
        """The last lines of the log that are warnings or errors."""
        lines = self.log.read_bytes()[self._log_start :].decode(errors="replace").splitlines()
        notable = [line for line in lines if '"info"' not in line][-LOG_LINES:]
        return [f"The end of {self.name}'s log:", *notable] if notable else []


def run_demo(demo: Callable[[Output], None]) -> int:
    """Runs a demo. Returns the exit code.

    0: all steps succeeded, or Ctrl-C after them; 1: a step failed; 2: a setting is wrong; 130: Ctrl-C before
    the end."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # all of them are Ctrl-C
        signal.signal(number, signal.default_int_handler)
    output = Output()
    try:
        demo(output)
    except ConfigError as error:
        output.failure(str(error))
        return WRONG_USAGE
    except (DemoFailed, OSError) as error:
        output.failure(str(error), getattr(error, "__notes__", ()))
        return FAILED
    except KeyboardInterrupt:
        output.failure("interrupted.")
        return INTERRUPTED
    return 0


def stops_after_tour() -> bool:
    """Whether the demo exits after its last step, instead of serving until Ctrl-C."""
    return os.environ.get("ONCE", "") not in ("", "0")


def keep_running(output: Output, *programs: Program) -> None:
    """Waits until Ctrl-C. Raises DemoFailed if one of the programs exits."""
    try:
        while True:
            for program in programs:
                program.check()
            time.sleep(LOOK_EVERY_S)
    except KeyboardInterrupt:
        output.title("\nStopping; open calls finish first.")
