"""New data folders and databases for the command line, without a running server; and a site to back up,
restore and move."""

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.rig.calls import call
from tests.rig.commands import CommandLine, Ended
from tests.rig.samples import write_voice
from tests.rig.service import Key, Service, ServiceMaker

CHAT = {"model": "svc-chat", "messages": [{"role": "user", "content": "Hi"}]}
SAID_DATABASE = "myna: database: "
"""How the line begins by which a command says what it works on."""


class Cli:
    """Runs commands on one data folder. The line that names the database is removed from their output."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def run(self, *arguments: str, stdin: str = "", **env: str) -> Ended:
        ended = self.service.command(*arguments, env=env, stdin=stdin)
        said = [line for line in ended.stderr.splitlines(True) if not line.startswith(SAID_DATABASE)]
        return Ended(ended.code, ended.stdout, "".join(said))

    def lines(self, *arguments: str, **env: str) -> list[str]:
        """The output of a command that must succeed."""
        ended = self.run(*arguments, **env)
        assert (ended.code, ended.stderr) == (0, ""), ended
        return ended.stdout.splitlines()

    def json(self, *arguments: str, **env: str) -> Any:
        """What a command prints with --json, in one line."""
        (line,) = self.lines(*arguments, "--json", **env)
        return json.loads(line)

    def refused(self, *arguments: str, **env: str) -> str:
        """The error line of a refused command."""
        return self._error_line(1, arguments, env)

    def misused(self, *arguments: str, **env: str) -> str:
        """The error line of a command with wrong usage."""
        return self._error_line(2, arguments, env)

    def _error_line(self, code: int, arguments: tuple[str, ...], env: dict[str, str]) -> str:
        ended = self.run(*arguments, **env)
        assert (ended.code, ended.stdout) == (code, ""), ended
        (line,) = ended.stderr.splitlines()
        return line.removeprefix("myna: ")


@dataclass(frozen=True)
class Site:
    """The account `talkative` has a key, has chatted and spoken, and had a voice cloned.

    `audio` is the name of the file it spoke, `voice` the id of its voice.
    """

    service: Service
    key: Key
    audio: str
    voice: str

    def copied_to(self, service: Service) -> "Site":
        """Copies the files to the folder of another service, whose PostgreSQL database is a copy already."""
        shutil.copytree(self.service.folder / "data", service.folder / "data", dirs_exist_ok=True)
        return replace(self, service=service)

    def post(self, path: str, data: object) -> Any:
        return call("POST", f"{self.service.base_url}{path}", key=self.key.plain, data=data)

    def chat(self) -> None:
        assert self.post("/chat/completions", CHAT).status == 200

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Sends calls during the block."""
        over = threading.Event()
        failed: list[BaseException] = []

        def send_calls() -> None:
            while not over.is_set():
                try:
                    self.chat()
                except BaseException as error:
                    failed.append(error)
                    raise

        threads = [threading.Thread(target=send_calls) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()
        assert not failed


def furnished(service: Service) -> Site:
    """Starts the service, fills its database and stops it."""
    service.start()
    site = Site(service, service.account(name="talkative", units=1000).key(), audio="", voice="")
    site.chat()
    audio = site.post("/tts", {"text": "你好"}).json["audio_url"].rpartition("/")[2]
    write_voice(service.folder / "ann.wav", 5.0)
    voice = service.cli(
        *("voice", "clone", "talkative", "--name", "Ann", "--language", "en"),
        *("--sample", "ann.wav", "--transcript", "What Ann says.", "--consent"),
    )["voice_id"]
    assert service.stop() == 0
    return replace(site, audio=audio, voice=voice)


@pytest.fixture
def bare_cli(tmp_path: Path, commands: CommandLine) -> Cli:
    """A folder without a database."""
    return Cli(Service(tmp_path, commands, chat_url="parrot:", speech="none"))


@pytest.fixture
def cli(bare_cli: Cli) -> Cli:
    """A folder with a database without accounts."""
    bare_cli.lines("migrate")
    return bare_cli


@pytest.fixture(scope="session")
def sqlite_original(commands: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return furnished(Service(tmp_path_factory.mktemp("sqlite-site"), commands, chat_url="parrot:"))


@pytest.fixture
def sqlite_site(sqlite_original: Site, make_service: ServiceMaker) -> Site:
    """A site on SQLite whose service doesn't run."""
    return sqlite_original.copied_to(make_service(chat_url="parrot:", speech="none"))


@pytest.fixture
def postgresql_site(sqlite_site: Site, postgres_url: str) -> Iterator[Site]:
    """The same on PostgreSQL, to which it was moved."""
    service = sqlite_site.service
    service.cli("move", "--to", postgres_url)
    service.env["MYNA_DATABASE_URL"] = postgres_url
    yield sqlite_site
    service.kill()
