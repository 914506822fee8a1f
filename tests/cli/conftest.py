"""A site of its own for the command line, without a server beside it."""

from pathlib import Path

import pytest

from tests.rig.commands import CommandLine, Ended
from tests.rig.service import Service

SAID_DATABASE = "myna: database: "
"""How the line begins by which a command says what it works on."""


class Desk:
    """Commands on one data folder. What they say of their database is left out of what they print."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def run(self, *arguments: str, **env: str) -> Ended:
        ended = self.service.command(*arguments, env=env)
        said = [line for line in ended.stderr.splitlines(True) if not line.startswith(SAID_DATABASE)]
        return Ended(ended.code, ended.stdout, "".join(said))

    def lines(self, *arguments: str, **env: str) -> list[str]:
        """What a command that must succeed prints."""
        ended = self.run(*arguments, **env)
        assert (ended.code, ended.stderr) == (0, ""), ended
        return ended.stdout.splitlines()

    def refused(self, *arguments: str, **env: str) -> str:
        """The one line of a command that is refused."""
        return self._complaint(1, arguments, env)

    def misused(self, *arguments: str, **env: str) -> str:
        """The one line of a command that can't even begin."""
        return self._complaint(2, arguments, env)

    def _complaint(self, code: int, arguments: tuple[str, ...], env: dict[str, str]) -> str:
        ended = self.run(*arguments, **env)
        assert (ended.code, ended.stdout) == (code, ""), ended
        (line,) = ended.stderr.splitlines()
        return line.removeprefix("myna: ")


@pytest.fixture
def bare_desk(tmp_path: Path, commands: CommandLine) -> Desk:
    """Where nothing was ever served."""
    return Desk(Service(tmp_path, commands, chat_url="parrot:", speech="none"))


@pytest.fixture
def desk(bare_desk: Desk) -> Desk:
    """Where there is a database, without an account."""
    bare_desk.lines("migrate")
    return bare_desk
