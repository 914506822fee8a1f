"""One service for each database, without a voice of its own: whatever is spoken, a node speaks."""

from collections.abc import Iterator

import pytest

from tests.farm.machines import Yard
from tests.rig.commands import CommandLine
from tests.rig.postgres import Postgres
from tests.rig.service import Service


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def yard(
    request: pytest.FixtureRequest, commands: CommandLine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Yard]:
    database_url = None
    if request.param == "postgresql":
        postgres: Postgres = request.getfixturevalue("postgres")
        database_url = postgres.fresh_database()
    service = Service(
        tmp_path_factory.mktemp("farm"),
        commands,
        database_url=database_url,
        chat_url="parrot:",
        speech="none",
        env={"MYNA_SWEEP_EVERY_S": "0.2"},
    ).start()
    yield Yard(service)
    assert service.stop() == 0
