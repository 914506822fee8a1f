"""A process with no more connections to PostgreSQL than it says it needs, with too few, and with another
version's schema."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from myna.app import SCHEMA_CHANGED
from myna.settings import POSTGRESQL_CONNECTIONS
from myna.store.schema import newest
from tests.conformance.caller import UNCHARGED, check_error
from tests.conformance.conftest import make_caller
from tests.rig.calls import call
from tests.rig.office import People
from tests.rig.postgres import Postgres
from tests.rig.service import Service, ServiceMaker
from tests.rig.waiting import SOON_S, wait_until

LEAST = 8
ROLE = "limited"
ENV = {"MYNA_CHARGE_WAIT_S": "0.5", "MYNA_SWEEP_EVERY_S": "0.2", "MYNA_SHUTDOWN_GRACE_S": "1"}
END_WRITERS = f"""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE usename = '{ROLE}' AND application_name IN ('myna-writer', 'myna-contended')"""


def execute(url: str, *statements: str) -> None:
    async def run() -> None:
        connection = await asyncpg.connect(url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    asyncio.run(run())


@pytest.fixture
def limited_url(postgres: Postgres) -> Iterator[str]:
    """A new database that belongs to ROLE, which is no superuser: these have no limit."""
    url = postgres.fresh_database()
    name = urlsplit(url).path[1:]
    execute(url, f"CREATE ROLE {ROLE} LOGIN", f'ALTER DATABASE "{name}" OWNER TO {ROLE}')
    parts = urlsplit(url)
    yield urlunsplit(parts._replace(netloc=f"{ROLE}@{parts.hostname}:{parts.port}"))
    postgres.drop(url)
    execute(postgres.url, f"DROP ROLE {ROLE}")


def readiness(service: Service) -> tuple[int, bool]:
    """The status of /readyz, and its check of the database."""
    answer = call("GET", f"{service.root_url}/readyz")
    return answer.status, answer.json["checks"]["database"]


@pytest.mark.parametrize("connections", [LEAST, POSTGRESQL_CONNECTIONS])
def test_a_process_works_with_as_many_connections_as_it_says_under_load(
    postgres: Postgres, limited_url: str, make_service: ServiceMaker, connections: int
) -> None:
    execute(postgres.url, f"ALTER ROLE {ROLE} CONNECTION LIMIT {connections}")
    env = ENV | {"MYNA_POSTGRESQL_CONNECTIONS": str(connections), "MYNA_CHARGE_WAIT_S": "20"}
    service = make_service(chat_url="parrot:", speech="none", database_url=limited_url, env=env).start()
    caller = make_caller(service, units=10_000)
    visitor = People(service).signed_in("reader")

    def use(_: int) -> list[int]:
        answers = [caller.chat("hello"), caller.get("/me"), visitor.get("/usage")]
        answers.append(visitor.post("/me", language="en", low_balance="5"))
        return [answer.status for answer in answers]

    with ThreadPoolExecutor(24) as pool:
        chats, reads, pages, forms = zip(*pool.map(use, range(72)), strict=True)
    assert {*chats, *reads, *pages} == {200}
    assert 303 in forms and {*forms} <= {303, 503}  # one account's forms at a time have a limit
    assert readiness(service) == (200, True)
    assert "connections; MYNA_WORKERS" not in service.stderr
    assert "TooManyConnections" not in service.stderr


def test_a_process_without_a_connection_for_charges_is_not_ready(
    postgres: Postgres, limited_url: str, make_service: ServiceMaker
) -> None:
    service = make_service(chat_url="parrot:", speech="none", database_url=limited_url, env=ENV).start()
    caller = make_caller(service)
    execute(postgres.url, f"ALTER ROLE {ROLE} CONNECTION LIMIT 1", END_WRITERS)
    wait_until(lambda: readiness(service) == (503, False), SOON_S, "the process is not ready")
    check_error(caller.chat("hello"), 503)
    assert caller.get("/me").status == 200
    few = POSTGRESQL_CONNECTIONS - 1
    execute(postgres.url, f"ALTER ROLE {ROLE} CONNECTION LIMIT {few}")
    wait_until(lambda: readiness(service) == (200, True), SOON_S, "the process is ready again")
    assert caller.chat("hello").status == 200
    service.restart()
    warning = f"the database allows {few} connections; MYNA_WORKERS x MYNA_POSTGRESQL_CONNECTIONS is"
    assert f"{warning} {POSTGRESQL_CONNECTIONS}" in service.stderr


def test_a_process_whose_schema_became_another_versions_refuses_calls_and_exits_with_1(
    postgres_url: str, make_service: ServiceMaker
) -> None:
    service = make_service(
        chat_url="parrot:", speech="none", database_url=postgres_url, env=ENV | {"MYNA_SWEEP_EVERY_S": "60"}
    ).start()
    caller = make_caller(service)
    before = caller.stats()
    version = newest("postgresql") + 1
    execute(
        postgres_url,
        "ALTER FUNCTION commit_batch RENAME TO commit_batch_of_another_build",
        f"INSERT INTO schema_version (version) VALUES ({version})",
    )
    check_error(caller.chat("hello"), 503)
    assert service.exit_code() == 1
    assert f"the database has schema {version}, this process needs {version - 1}" in service.stderr
    assert SCHEMA_CHANGED in service.stderr
    execute(
        postgres_url,
        "ALTER FUNCTION commit_batch_of_another_build RENAME TO commit_batch",
        f"DELETE FROM schema_version WHERE version = {version}",
    )
    service.start()
    assert caller.stats() - before == UNCHARGED
