"""A compute node as its owner runs it: a process, and commands."""

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rig import processes
from tests.rig.commands import CommandLine, Ended
from tests.rig.forks import Forks, Program
from tests.rig.waiting import wait_until

START_DEADLINE_S = 120


class ComputeNode(Program):
    """A data folder and, once started, a `myna node run` on it. `toml` is its node.toml, if any."""

    def __init__(
        self, folder: Path, commands: CommandLine, toml: str = "", forks: Forks | None = None
    ) -> None:
        self.data = folder / "data"
        self._commands = commands
        self._page = 0
        super().__init__(folder, forks, {"MYNA_DATA": str(self.data)})
        folder.mkdir(parents=True)
        if toml:
            (folder / "node.toml").write_text(toml, encoding="utf-8")

    def command(self, *arguments: str) -> Ended:
        """Runs `myna node ARGUMENTS…`; returns its exit code and output."""
        return self._commands.run(["node", *arguments], self.env, self.folder)

    def join(self, url: str, token: str) -> "ComputeNode":
        ended = self.command("join", url, token)
        assert ended.code == 0, ended
        return self

    def spawn(self) -> "ComputeNode":
        """Starts the process without waiting."""
        self._start(["node", "run"])
        return self

    def start(self) -> "ComputeNode":
        """Returns once it is connected."""
        said = len(self.messages("connected to"))
        self.spawn()
        self.wait(lambda: len(self.messages("connected to")) > said, "it is connected", START_DEADLINE_S)
        return self

    @property
    def stderr(self) -> str:
        path = self.folder / "stderr"
        return path.read_bytes()[self._page :].decode() if path.exists() else ""

    def skip_logged(self) -> None:
        """`lines` skips what was logged until now."""
        self._page += len(self.stderr.encode())

    def lines(self) -> list[dict[str, Any]]:
        """The log; lines that are not JSON are ignored."""
        return [
            json.loads(line)
            for line in self.stderr.splitlines()
            if line.startswith("{") and line.endswith("}")
        ]

    def messages(self, part: str = "") -> list[str]:
        """The messages of the log that contain `part`."""
        return [line["message"] for line in self.lines() if part in line["message"]]

    def wait(self, condition: Callable[[], bool], what: str, deadline_s: float = 60) -> None:
        try:
            wait_until(condition, deadline_s, what)
        except TimeoutError as late:
            raise TimeoutError(f"{late}\n{self.stderr}") from None

    def wait_logged(self, part: str) -> str:
        """Waits for a message of the log that contains `part`; returns the first."""
        self.wait(lambda: bool(self.messages(part)), f"the node says {part!r}")
        return self.messages(part)[0]

    def files(self, folder: str) -> list[str]:
        """The names in a folder of its data."""
        return sorted(path.name for path in (self.data / folder).iterdir())


NodeMaker = Callable[..., ComputeNode]


@pytest.fixture
def make_node(tmp_path: Path, commands: CommandLine, forks: Forks | None) -> Iterator[NodeMaker]:
    """Makes nodes that the test starts and ends; those still running are killed after it."""
    made: list[ComputeNode] = []

    def make(toml: str = "") -> ComputeNode:
        made.append(
            ComputeNode(folder=tmp_path / f"node-{len(made)}", commands=commands, toml=toml, forks=forks)
        )
        return made[-1]

    yield make
    for node in made:
        node.kill()


class Voices:
    """The speaking processes of a node; stopped ones accept a job and don't finish it."""

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

    def resume(self) -> None:
        for pid in self._stopped:
            processes.send(pid, signal.SIGCONT)
        self._stopped.clear()


VoicesOf = Callable[[ComputeNode], Voices]


@pytest.fixture
def voices() -> Iterator[VoicesOf]:
    """The speaking processes of running nodes; all are resumed after the test."""
    made: list[Voices] = []

    def of(node: ComputeNode) -> Voices:
        made.append(Voices(node))
        return made[-1]

    yield of
    for one in made:
        one.resume()
