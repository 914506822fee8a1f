"""Processes of `myna serve` and `myna node run` without their imports, which are most of a start.

A child process imports the service, the node and both drivers once, and forks for each start. The fork runs
`main()` with its arguments, environment, folder and output files, and ends as an interpreter does. The child
runs nothing itself: a fork begins with modules as they are after their import.
"""

import ctypes
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.rig.processes import PR_SET_PDEATHSIG, tethered
from tests.rig.waiting import wait_until

STOP_DEADLINE_S = 60
IMPORTED = (
    *("myna.cli.serve", "myna.cli.nodes", "myna.store.sqlite", "myna.store.postgresql"),
    *("uvicorn.lifespan.on", "uvloop", "httptools"),
)


class Fork:
    """A forked process. The methods are those of `subprocess.Popen`."""

    def __init__(self, forks: "Forks", pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._forks = forks

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._forks.reaped(self.pid)
        return self.returncode

    def wait(self, timeout: float = 60) -> int:
        try:
            wait_until(lambda: self.poll() is not None, timeout, f"process {self.pid} ends")
        except TimeoutError:
            raise subprocess.TimeoutExpired("myna", timeout) from None
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:  # a process that wasn't reaped keeps its pid
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Child:
    """A module that runs as a child process and answers each line of JSON with one. `close()` ends it."""

    def __init__(self, module: str) -> None:
        self._lock = threading.Lock()
        self._child = subprocess.Popen(
            tethered([sys.executable, "-m", module]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            text=True,
        )

    def close(self) -> None:
        self._child.communicate(timeout=10)  # ends its input

    def _ask(self, order: Mapping[str, object]) -> Any:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with self._lock:
            self._child.stdin.write(json.dumps(order) + "\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the child ended with {self._child.wait(10)}")
        return json.loads(line)


class Forks(Child):
    """The child that forks. `close()` ends it, and the forks with it."""

    def __init__(self) -> None:
        super().__init__("tests.rig.forks")

    def start(
        self, arguments: list[str], env: Mapping[str, str], cwd: Path, stdout: Path, stderr: Path
    ) -> Fork:
        """Starts `myna ARGUMENTS…` in the folder `cwd` with exactly this environment. Its output is appended
        to the files."""
        files = [str(stdout), str(stderr)]
        order = {"arguments": arguments, "env": dict(env), "cwd": str(cwd), "files": files}
        return Fork(self, self._ask(order))

    def reaped(self, pid: int) -> int | None:
        """The exit code of a fork that has ended, as `subprocess` gives it; None while it runs. Once only."""
        code: int | None = self._ask({"reap": pid})
        return code


class Program:
    """A process of `myna` with its environment and its folder, where `stdout` and `stderr` are its output."""

    def __init__(self, folder: Path, forks: Forks | None, env: Mapping[str, str]) -> None:
        self.folder = folder
        self._forks = forks
        self._process: subprocess.Popen[bytes] | Fork | None = None
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MYNA_")}
        self.env = {**inherited, **env}

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self._running().send_signal(number)

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> int:
        """SIGTERM; the exit code. A process that outlives the deadline is killed: TimeoutExpired."""
        self.signal(signal.SIGTERM)
        return self.exit_code(deadline_s)

    def exit_code(self, deadline_s: float = STOP_DEADLINE_S) -> int:
        """Wait for the process to end by itself."""
        process = self._running()
        try:
            return process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def kill(self) -> None:
        """SIGKILL, like a crash. Does nothing if the process has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _start(self, arguments: list[str], program: Sequence[str] = (), stderr: int | None = None) -> None:
        """Starts `myna ARGUMENTS…`, or what the interpreter runs as `program`. `stderr` is a file descriptor
        in place of the file."""
        out_file, err_file = self.folder / "stdout", self.folder / "stderr"
        if self._forks is not None and stderr is None:
            self._process = self._forks.start(arguments, self.env, self.folder, out_file, err_file)
            return
        with out_file.open("ab") as out, err_file.open("ab") as err:
            self._process = subprocess.Popen(
                tethered([sys.executable, *(program or ("-m", "myna", *arguments))]),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err if stderr is None else stderr,
                env=self.env,
                cwd=self.folder,
            )

    def _running(self) -> subprocess.Popen[bytes] | Fork:
        if self._process is None:
            raise RuntimeError("it was never started")
        return self._process


def _serve() -> None:
    importlib.import_module("myna.cli").build()
    for module in IMPORTED:
        importlib.import_module(module)
    parent = os.getpid()
    for line in sys.stdin:
        order = json.loads(line)
        answer = _reaped(order["reap"]) if "reap" in order else os.fork()
        if os.getpid() != parent:
            _become(order["cwd"], order["files"], order["env"])
            sys.argv = ["myna", *order["arguments"]]
            sys.exit(importlib.import_module("myna.cli").main())
        print(json.dumps(answer), flush=True)  # noqa: T201 - this is the answer


def _reaped(pid: int) -> int | None:
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _become(cwd: str, files: list[str], env: Mapping[str, str]) -> None:
    """In the fork: the folder, the standard streams and the environment of the new process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    for number, file in enumerate([os.devnull, *files]):
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND if number else os.O_RDONLY
        opened = os.open(file, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)


if __name__ == "__main__":
    _serve()
