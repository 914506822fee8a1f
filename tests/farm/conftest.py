"""A service on SQLite without a speech channel: only nodes speak."""

from collections.abc import Iterator

import pytest

from tests.farm.node_client import NodeSite
from tests.rig.commands import CommandLine
from tests.rig.postgres import Postgres
from tests.rig.service import Service


@pytest.fixture(scope="session", params=["sqlite"])
def site(
    request: pytest.FixtureRequest, commands: CommandLine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NodeSite]:
    """`each_database` runs a test on a service on PostgreSQL as well."""
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
    yield NodeSite(service)
    assert service.stop() == 0


@pytest.fixture(scope="session")
def key(site: NodeSite) -> str:
    return site.service.account(units=100_000).key().plain
