"""A site of its own for the command line, without a server beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.commands import CommandLine, Ended
from tests.rig.service import Service


class Desk:
    """Commands on one data folder."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def run(self, *arguments: str, **env: str) -> Ended:
        return self.service.command(*arguments, env=env)

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
def desk(tmp_path: Path, commands: CommandLine) -> Iterator[Desk]:
    yield Desk(Service(tmp_path, commands, chat_url="parrot:", speech="none"))
