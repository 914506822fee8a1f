"""One service for all tests of the back office that need no service for themselves."""

from collections.abc import Iterator

import pytest

from tests.rig.commands import CommandLine
from tests.rig.forks import Forks
from tests.rig.office import People
from tests.rig.service import Service


@pytest.fixture(scope="session")
def site(
    tmp_path_factory: pytest.TempPathFactory, commands: CommandLine, forks: Forks | None
) -> Iterator[Service]:
    """A site with the parrot as its chat channel, and espeak's voices."""
    folder = tmp_path_factory.mktemp("office")
    made = Service(folder, commands, chat_url="parrot:", speech="espeak", forks=forks)
    made.start()
    yield made
    made.kill()


@pytest.fixture
def people(site: Service) -> People:
    """The people of that site."""
    return People(site)
