"""Services that a test may kill, with a controlled upstream. Their files are on a disk and synced.

With MYNA_TEST_ROUNDS=50, which `make campaigns` sets, campaigns have that length, and every test runs on both
databases with all its seeds. Without it PostgreSQL has one campaign and the tests of two processes.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.rig import postgres as rig
from tests.rig.postgres import Postgres
from tests.rig.service import Service, ServiceMaker
from tests.rig.upstream import Upstream

ServiceOn = Callable[..., Service]
RELEASE = "MYNA_TEST_ROUNDS" in os.environ
DATABASES = ("sqlite", "postgresql") if RELEASE else ("sqlite",)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server that answers a COMMIT after its fsync."""
    server = rig.start(durable=True)
    yield server
    server.close()


@pytest.fixture(scope="session")
def forks() -> None:
    """Services are started as an operator starts them."""


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder on the disk; other tests have theirs in memory."""
    with tempfile.TemporaryDirectory(prefix="myna-faults-") as name:
        yield Path(name)


@pytest.fixture(params=DATABASES)
def database_url(request: pytest.FixtureRequest) -> str | None:
    """The URL of a database, or None for SQLite in the service's data folder."""
    if request.param == "sqlite":
        return None
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def service_on(make_service: ServiceMaker, upstream: Upstream) -> ServiceOn:
    """Makes a service on a database, with settings as keyword parameters. `program` is as in `Service`."""

    def make(database_url: str | None, *, program: Sequence[str] = (), **env: str) -> Service:
        given = {"program": program, "env": env, **upstream.as_chat()}
        return make_service(database_url=database_url, speech="none", **given)

    return make


@pytest.fixture
def two_services(postgres: Postgres, service_on: ServiceOn) -> tuple[Service, Service]:
    """Two processes on one database; calls may take five seconds and are swept soon."""
    url = postgres.fresh_database()
    limits = {"MYNA_CALL_DEADLINE_S": "5", "MYNA_SWEEP_EVERY_S": "0.3"}
    first = service_on(url, **limits).start()
    return first, service_on(url, **limits, MYNA_DATA=str(first.folder / "data")).start()


def audited(service: Service) -> bool:
    """Whether the audit finds nothing."""
    return service.command("audit", "--json").code == 0
