"""Runs the real command line many times without the cost of its imports.

A child process imports all commands and both drivers once. It runs most commands itself, one after the other,
each with its own arguments, environment, folder and standard streams. It forks for those that start processes
or threads, lock the data folder or change their process (`FORKED`).
"""

import contextlib
import importlib
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.rig.forks import Child

COMMAND_DEADLINE_S = 180
FORKED = frozenset(
    [
        *("serve", "backup", "restore", "move", "models"),
        *("node run", "node join", "node check", "voice clone", "voice read", "channel test"),
    ]
)
"""Commands by their first word or their first two."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    stdout: str
    stderr: str


def output_of(
    command: Sequence[str], env: Mapping[str, str], cwd: Path, deadline_s: float = COMMAND_DEADLINE_S
) -> str:
    """What a program without input prints, which must succeed."""
    ended = subprocess.run(
        command,
        env=env,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=deadline_s,
    )
    assert ended.returncode == 0, (command, ended.returncode, ended.stdout, ended.stderr)
    return ended.stdout


class CommandLine(Child):
    """The child process. All services of a test run may share one."""

    def __init__(self) -> None:
        super().__init__("tests.rig.commands")

    def run(self, arguments: list[str], env: Mapping[str, str], cwd: Path, stdin: str = "") -> Ended:
        """Run `myna ARGUMENTS…` in the folder `cwd` with exactly this environment and standard input."""
        order = {"arguments": arguments, "env": dict(env), "cwd": str(cwd), "stdin": stdin}
        return Ended(**self._ask(order))


def _serve() -> None:
    importlib.import_module("myna.cli").build().resolved_commands()
    for imported_late in ("myna.store.sqlite", "myna.store.postgresql"):
        importlib.import_module(imported_late)
    orders, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    for line in orders:
        answers.write(json.dumps(_ended(json.loads(line))) + "\n")
        answers.flush()


def _ended(order: dict[str, Any]) -> dict[str, int | str]:
    words = order["arguments"][:2]
    run = _forked if FORKED.intersection([" ".join(words), *words[:1]]) else _in_this_process
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = run(order, out.fileno(), err.fileno())
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode())
    return {"code": code, "stdout": texts[0], "stderr": texts[1]}


def _forked(order: dict[str, Any], out: int, err: int) -> int:
    child = os.fork()
    if child == 0:
        code = 70
        try:
            with _streams(order["stdin"], out, err):
                code = _exit_code(order)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def _in_this_process(order: dict[str, Any], out: int, err: int) -> int:
    try:
        with _streams(order["stdin"], out, err):
            return _exit_code(order)
    finally:
        signal.alarm(0)


@contextlib.contextmanager
def _streams(given: str, out: int, err: int) -> Iterator[None]:
    """Points the standard output and error of this process to these files for a while, and has its standard
    input read what is given."""
    sys.stdin = io.StringIO(given)
    kept = [os.dup(1), os.dup(2)]
    os.dup2(out, 1)
    os.dup2(err, 2)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)


def _exit_code(order: dict[str, Any]) -> int:
    """What `sys.exit(main())` of the console script would end with."""
    signal.alarm(COMMAND_DEADLINE_S)  # whose default action ends the process
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    sys.argv = ["myna", *order["arguments"]]
    try:
        result = importlib.import_module("myna.cli").main()
    except SystemExit as end:
        result = end.code
    except BaseException:
        traceback.print_exc()
        return 70
    if result is None or isinstance(result, int):
        return result or 0
    print(result, file=sys.stderr)  # noqa: T201 - as sys.exit() does with a text
    return 1


if __name__ == "__main__":
    _serve()
