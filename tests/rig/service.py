"""The service as an operator runs it: a process, and commands."""

import itertools
import json
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from tests.rig.calls import call
from tests.rig.commands import CommandLine, Ended
from tests.rig.forks import Forks, Program
from tests.rig.waiting import SOON_S, free_port, wait_until

START_DEADLINE_S = 120
ALL_SCOPES = ("chat", "tts", "records")
ON_TWO_CORES = (
    "-c",
    "import os; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])\n"
    "from myna.cli import main; main(['serve'])",
)
"""The program of a service with as many speaking processes on every machine."""

_numbers = itertools.count(1)


@dataclass(frozen=True)
class Key:
    """An issued key: `plain` is what a caller sends, the rest is the output of `key issue`.

    `expires_at` is in Unix seconds, 0 for a key that never expires.
    """

    id: str
    plain: str
    masked: str
    scopes: list[str]
    expires_at: int


@dataclass(frozen=True)
class Account:
    """An account of a running service, by its name."""

    service: "Service"
    name: str

    def key(
        self, *, scopes: tuple[str, ...] = ALL_SCOPES, expires_in: str | None = None, name: str = "a key"
    ) -> Key:
        """Issue a key. `expires_in` is a duration such as `30d`; without it the key never expires."""
        arguments = ["key", "issue", self.name, "--name", name]
        for scope in scopes:
            arguments += ["--scope", scope]
        if expires_in is not None:
            arguments += ["--expires-in", expires_in]
        issued = self.service.cli(*arguments)
        shown = {name: issued[name] for name in ("masked", "scopes", "expires_at")}
        return Key(id=str(issued["id"]), plain=issued["key"], **shown)

    def grant(self, units: int) -> None:
        self.service.cli("account", "grant", self.name, str(units))

    def disable(self) -> None:
        self.service.cli("account", "disable", self.name)

    def enable(self) -> None:
        self.service.cli("account", "enable", self.name)


class Service(Program):
    """One `myna serve` process with its own data folder and port.

    `env` is added to the environment and overrides the other parameters. Without `database_url`
    the service keeps its SQLite file in `folder / "data"`. `program` is what the interpreter runs,
    if not the command. Standard output and error of the latest start are in `folder / "stdout"` and
    `folder / "stderr"`.
    """

    def __init__(
        self,
        folder: Path,
        commands: CommandLine,
        *,
        database_url: str | None = None,
        chat_url: str | None = None,
        chat_key: str | None = None,
        chat_model: str | None = None,
        speech: str | None = None,
        env: Mapping[str, str] | None = None,
        program: Sequence[str] = (),
        forks: Forks | None = None,
    ) -> None:
        self._program = program
        self.port = free_port()
        self.root_url = f"http://127.0.0.1:{self.port}"
        self.base_url = f"{self.root_url}/v1"
        self._commands = commands
        given = {
            "MYNA_DATA": str(folder / "data"),
            "MYNA_HOST": "127.0.0.1",
            "MYNA_PORT": str(self.port),
            "MYNA_DATABASE_URL": database_url,
            "MYNA_CHAT_URL": chat_url,
            "MYNA_CHAT_KEY": chat_key,
            "MYNA_CHAT_MODEL": chat_model,
            "MYNA_SPEECH": speech,
            **(env or {}),
        }
        super().__init__(folder, forks, {name: value for name, value in given.items() if value is not None})
        (folder / "data").mkdir(parents=True, exist_ok=True)

    @property
    def stdout(self) -> str:
        return (self.folder / "stdout").read_text()

    @property
    def stderr(self) -> str:
        return (self.folder / "stderr").read_text()

    @property
    def log_lines(self) -> list[str]:
        """The whole lines of standard error so far; the last one may be half written."""
        return self.stderr.rpartition("\n")[0].split("\n")

    def counted(self, *patterns: str) -> list[float]:
        """The sums of the metrics whose names and labels match each pattern, in one copy of the metrics."""
        text = call("GET", f"{self.root_url}/metrics").body.decode()
        found = (re.findall(rf"^{pattern} (\S+)$", text, re.MULTILINE) for pattern in patterns)
        return [sum(map(float, values)) for values in found]

    def logged(self, request_id: str) -> dict[str, Any]:
        """Waits for the line of the access log about this request, of which there is one."""
        found: list[dict[str, Any]] = []

        def written() -> bool:
            lines = [json.loads(line) for line in self.log_lines if '"logger":"access"' in line]
            found[:] = [line for line in lines if line["request_id"] == request_id]
            return bool(found)

        wait_until(written, SOON_S, "the access log has the request")
        (line,) = found
        return line

    def spawn(self, stderr: int | None = None) -> None:
        """Start the process and don't wait for it to be ready. `stderr` is a file descriptor in place of the
        file."""
        if self.is_running:
            raise RuntimeError("the service is running already")
        for name in ("stdout", "stderr"):
            (self.folder / name).write_bytes(b"")
        self._start(["serve"], self._program, stderr)

    def start(self, stderr: int | None = None) -> "Service":
        """Start the process and return once GET /readyz answers 200."""
        self.spawn(stderr)
        wait_until(self._ready, START_DEADLINE_S, "the service is ready")
        return self

    def terminate(self) -> None:
        """SIGTERM, without waiting."""
        self.signal(signal.SIGTERM)

    def pause(self) -> None:
        """SIGSTOP: the process is stopped, as by a debugger or a suspended machine."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.signal(signal.SIGCONT)

    def restart(self) -> None:
        """Stop the process if it runs, and start it again on the same folder and port."""
        if self.is_running:
            self.stop()
        self.start()

    def command(self, *arguments: str, env: Mapping[str, str] | None = None, stdin: str = "") -> Ended:
        """Run `myna ARGUMENTS…` with the service's environment and `env`; returns exit code and output."""
        return self._commands.run(list(arguments), {**self.env, **(env or {})}, self.folder, stdin)

    def cli(self, *arguments: str) -> Any:
        """Run `myna ARGUMENTS… --json`, which must succeed; its standard output as JSON."""
        ended = self.command(*arguments, "--json")
        if ended.code != 0:
            raise RuntimeError(f"myna {' '.join(arguments)} ended with {ended.code}:\n{ended.stderr}")
        return json.loads(ended.stdout)

    def account(self, *, units: int = 1000, name: str | None = None) -> Account:
        """A new account with this many units on it."""
        name = name or f"account-{next(_numbers)}"
        self.cli("account", "add", name, "--units", str(units))
        return Account(self, name)

    def revoke(self, key: Key) -> None:
        """Revoke a key, which is refused from the moment this returns."""
        self.cli("key", "revoke", key.id)

    def _ready(self) -> bool:
        process = self._running()
        if process.poll() is not None:
            raise RuntimeError(f"the service ended with {process.returncode}:\n{self.stderr}{self.stdout}")
        try:
            return call("GET", f"{self.root_url}/readyz", deadline_s=5).status == HTTPStatus.OK
        except OSError:
            return False


ServiceMaker = Callable[..., Service]
RunningService = Callable[..., AbstractContextManager[Service]]


@pytest.fixture(scope="session")
def commands() -> Iterator[CommandLine]:
    """The command line's forking child, shared by all services of the run."""
    line = CommandLine()
    yield line
    line.close()


@pytest.fixture(scope="session")
def forks() -> Iterator[Forks | None]:
    """Starts the services and nodes that a test has for itself. Where it is overridden with None they are
    started as any program, as those of a whole run are."""
    made = Forks()
    yield made
    made.close()


@pytest.fixture(scope="session")
def running_service(
    commands: CommandLine, forks: Forks | None, tmp_path_factory: pytest.TempPathFactory
) -> RunningService:
    """Runs a service for the tests of a module or of the session: with the parrot and without speech, unless
    the keyword parameters of `Service` say otherwise. It must end by itself."""

    @contextmanager
    def run(**parameters: Any) -> Iterator[Service]:
        given = {"chat_url": "parrot:", "speech": "none", "forks": forks} | parameters
        service = Service(tmp_path_factory.mktemp("service"), commands, **given).start()
        yield service
        assert service.stop() == 0

    return run


@pytest.fixture
def make_service(tmp_path: Path, commands: CommandLine, forks: Forks | None) -> Iterator[ServiceMaker]:
    """Make services that the test starts and ends; those still running are killed after it.

    Takes the keyword parameters of `Service`.
    """
    made: list[Service] = []

    def make(**parameters: Any) -> Service:
        folder = tmp_path / f"service-{len(made)}"
        in_a_fork = not parameters.get("program") and "MYNA_WORKERS" not in (parameters.get("env") or ())
        made.append(Service(folder, commands, **parameters, forks=forks if in_a_fork else None))
        return made[-1]

    yield make
    for service in made:
        service.kill()
