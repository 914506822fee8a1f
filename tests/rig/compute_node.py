"""A compute node as its owner runs it: a process of its own, and the command line beside it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rig import processes
from tests.rig.commands import CommandLine, Ended
from tests.rig.tether import tethered
from tests.rig.waiting import wait_until

START_DEADLINE_S = 30
STOP_DEADLINE_S = 40


class ComputeNode:
    """A data folder and, once started, a `myna node run` on it. `toml` is its node.toml, if any."""

    def __init__(self, folder: Path, commands: CommandLine, toml: str = "") -> None:
        self.folder = folder
        self.data = folder / "data"
        self._commands = commands
        self._process: subprocess.Popen[bytes] | None = None
        self._page = 0
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("MYNA_")}
        self.env = inherited | {"MYNA_DATA": str(self.data)}
        folder.mkdir(parents=True)
        if toml:
            (folder / "node.toml").write_text(toml, encoding="utf-8")

    def command(self, *arguments: str) -> Ended:
        """`myna node ARGUMENTS…`, however it ends."""
        return self._commands.run(["node", *arguments], self.env, self.folder)

    def join(self, url: str, token: str) -> "ComputeNode":
        ended = self.command("join", url, token)
        assert ended.code == 0, ended
        return self

    def spawn(self) -> "ComputeNode":
        """Starts the process and doesn't wait for anything."""
        with (self.folder / "stdout").open("ab") as out, (self.folder / "stderr").open("ab") as err:
            self._process = subprocess.Popen(
                tethered([sys.executable, "-m", "myna", "node", "run"]),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=self.env,
                cwd=self.folder,
            )
        return self

    def start(self) -> "ComputeNode":
        """Returns once it is connected."""
        said = len(self.messages("connected to"))
        self.spawn()
        self.wait(lambda: len(self.messages("connected to")) > said, "it is connected", START_DEADLINE_S)
        return self

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def stderr(self) -> str:
        path = self.folder / "stderr"
        return path.read_bytes()[self._page :].decode() if path.exists() else ""

    def turn_page(self) -> None:
        """What was logged until now isn't looked at any more."""
        self._page += len(self.stderr.encode())

    def lines(self) -> list[dict[str, Any]]:
        """The log; what isn't JSON stands in the way of nobody."""
        return [
            json.loads(line)
            for line in self.stderr.splitlines()
            if line.startswith("{") and line.endswith("}")
        ]

    def messages(self, part: str = "") -> list[str]:
        """Those messages of the log that hold `part`."""
        return [line["message"] for line in self.lines() if part in line["message"]]

    def wait(self, condition: Callable[[], bool], what: str, deadline_s: float = 20) -> None:
        try:
            wait_until(condition, deadline_s, what)
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{self.stderr}") from None

    def wait_said(self, part: str) -> str:
        """The first message of the log with `part` in it, once it is there."""
        self.wait(lambda: bool(self.messages(part)), f"the node says {part!r}")
        return self.messages(part)[0]

    def signal(self, number: signal.Signals) -> None:
        self._running().send_signal(number)

    def exit_code(self, deadline_s: float = STOP_DEADLINE_S) -> int:
        """Waits for the process to end."""
        process = self._running()
        try:
            return process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.signal(signal.SIGTERM)
        return self.exit_code()

    def kill(self) -> None:
        """As a crash would. Does nothing to a process that has ended."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def files(self, folder: str) -> list[str]:
        """What lies in a folder of its data."""
        return sorted(path.name for path in (self.data / folder).iterdir())

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise RuntimeError("the node was never started")
        return self._process


NodeMaker = Callable[..., ComputeNode]


@pytest.fixture
def make_node(tmp_path: Path, commands: CommandLine) -> Iterator[NodeMaker]:
    """Makes nodes that this test starts and ends as it likes; those left running are killed behind it."""
    made: list[ComputeNode] = []

    def make(toml: str = "") -> ComputeNode:
        made.append(ComputeNode(tmp_path / f"node-{len(made)}", commands, toml))
        return made[-1]

    yield make
    for node in made:
        node.kill()


class Voices:
    """The children of a node that speak; stopped ones take a job and don't come to its end."""

    def __init__(self, node: ComputeNode) -> None:
        self._node = node
        self._stopped: list[int] = []

    def pids(self) -> list[int]:
        return processes.children(self._node.pid)

    def stop(self) -> list[int]:
        for pid in self.pids():
            processes.send(pid, signal.SIGSTOP)
            self._stopped.append(pid)
        return self._stopped

    def go_on(self) -> None:
        for pid in self._stopped:
            processes.send(pid, signal.SIGCONT)
        self._stopped.clear()


VoicesOf = Callable[[ComputeNode], Voices]


@pytest.fixture
def voices() -> Iterator[VoicesOf]:
    """The voices of a running node; none is left stopped."""
    made: list[Voices] = []

    def of(node: ComputeNode) -> Voices:
        made.append(Voices(node))
        return made[-1]

    yield of
    for one in made:
        one.go_on()
