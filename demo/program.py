"""A long-running `myna` command: a child process with a log, which the demo stops at its end."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

STOP_WAIT_S = 30.0
LOG_LINES = 12


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
