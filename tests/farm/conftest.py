"""A service on SQLite without a speech channel: only nodes speak."""

from collections.abc import Iterator

import pytest

from tests.farm.node_client import NodeSite
from tests.rig.service import RunningService


@pytest.fixture(scope="session", params=["sqlite"])
def site(request: pytest.FixtureRequest, running_service: RunningService) -> Iterator[NodeSite]:
    """`each_database` runs a test on a service on PostgreSQL as well."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres").fresh_database()
    with running_service(database_url=url, env={"MYNA_SWEEP_EVERY_S": "0.2"}) as service:
        yield NodeSite(service)


@pytest.fixture(scope="session")
def key(site: NodeSite) -> str:
    return site.service.account(units=100_000).key().plain
