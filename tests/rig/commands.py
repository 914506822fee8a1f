"""The real command line, many times, without paying for the imports each time.

A child process imports all commands and both drivers once and forks for every command; the fork runs `main()`
with that command's arguments, environment and standard streams, as a new process would, without the imports,
which are most of what a short command does.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rig.tether import tethered

COMMAND_DEADLINE_S = 60


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


class CommandLine:
    """The child that forks. One may be shared by all services of a test run; `close()` ends it."""

    def __init__(self) -> None:
        root = str(Path(__file__).parents[2])
        self._child = subprocess.Popen(
            tethered([sys.executable, "-m", "tests.rig.commands"]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=root,
            text=True,
        )

    def run(self, arguments: list[str], env: Mapping[str, str], cwd: Path) -> Ended:
        """Run `myna ARGUMENTS…` in the folder `cwd` with exactly this environment."""
        if self._child.stdin is None or self._child.stdout is None:
            raise RuntimeError("the command line's child has no pipes")
        order = {"arguments": arguments, "env": dict(env), "cwd": str(cwd)}
        self._child.stdin.write(json.dumps(order) + "\n")
        self._child.stdin.flush()
        line = self._child.stdout.readline()
        if not line:
            raise RuntimeError(f"the command line's child ended with {self._child.wait(10)}")
        return Ended(**json.loads(line))

    def close(self) -> None:
        if self._child.stdin is not None:
            self._child.stdin.close()
        self._child.wait(10)
        if self._child.stdout is not None:
            self._child.stdout.close()


def _serve() -> None:
    importlib.import_module("myna.cli").build().resolved_commands()
    for imported_late in ("myna.store.sqlite", "myna.store.postgresql"):
        importlib.import_module(imported_late)
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        answers.write(json.dumps(_forked(json.loads(line))) + "\n")
        answers.flush()


def _forked(order: dict[str, Any]) -> dict[str, int | str]:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if child == 0:
            _become_command(order, out.fileno(), err.fileno())
        _, status = os.waitpid(child, 0)
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode())
    return {"code": os.waitstatus_to_exitcode(status), "stdout": texts[0], "stderr": texts[1]}


def _become_command(order: dict[str, Any], out: int, err: int) -> None:
    """In the fork: run the command as a fresh process would, and never return."""
    code = 70
    try:
        signal.alarm(COMMAND_DEADLINE_S)  # whose default action ends the fork
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.chdir(order["cwd"])
        os.environ.clear()
        os.environ.update(order["env"])
        sys.argv = ["myna", *order["arguments"]]
        code = _exit_code()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _exit_code() -> int:
    """What `sys.exit(main())` of the console script would end with."""
    try:
        result = importlib.import_module("myna.cli").main()
    except SystemExit as end:
        result = end.code
    if result is None or isinstance(result, int):
        return result or 0
    print(result, file=sys.stderr)  # noqa: T201 - as sys.exit() does with a text
    return 1


if __name__ == "__main__":
    _serve()
