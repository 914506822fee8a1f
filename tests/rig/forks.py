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
from collections.abc import Mapping
from pathlib import Path

from tests.rig.tether import PR_SET_PDEATHSIG, tethered
from tests.rig.waiting import wait_until

IMPORTED = (
    *("myna.cli.serve", "myna.cli.node_run", "myna.store.sqlite", "myna.store.postgresql"),
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


class Forks:
    """The child that forks. `close()` ends it, and the forks with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child = subprocess.Popen(
            tethered([sys.executable, "-m", "tests.rig.forks"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[2],
            text=True,
        )

    def start(
        self, arguments: list[str], env: Mapping[str, str], cwd: Path, stdout: Path, stderr: Path
    ) -> Fork:
        """Starts `myna ARGUMENTS…` in the folder `cwd` with exactly this environment. Its output is appended
        to the files."""
        files = [str(stdout), str(stderr)]
        order = {"arguments": arguments, "env": dict(env), "cwd": str(cwd), "files": files}
        pid = self._ask(order)
        assert pid is not None
        return Fork(self, pid)

    def reaped(self, pid: int) -> int | None:
        """The exit code of a fork that has ended, as `subprocess` gives it; None while it runs. Once only."""
        return self._ask({"reap": pid})

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()

    def _ask(self, order: Mapping[str, object]) -> int | None:
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        with self._lock:
            self._child.stdin.write(json.dumps(order) + "\n")
            self._child.stdin.flush()
            line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the forking child ended with {self._child.wait(10)}")
        answer: int | None = json.loads(line)
        return answer


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
