"""Health checks and metrics are answered in time, even with a stalled disk, at little cost."""

import asyncio
import html
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import msgspec
import pytest
from starlette.requests import Request

from myna.api import health as module
from myna.api.health import CACHE_MAX_AGE_S, HealthApi
from myna.channels.circuits import FAILURES_MAX
from myna.errors import DatabaseUnavailable
from myna.errors.sentences import CHAT_CHANNELS_FAIL
from myna.http.exchange import EXCHANGE
from myna.lib.telemetry import metrics
from myna.server.app import SCHEMA_CHANGED
from myna.settings import POSTGRESQL_CONNECTIONS
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import Folder
from myna.store.schema import newest
from tests.conformance.caller import UNCHARGED, Caller, check_error, make_caller
from tests.rig.calls import call
from tests.rig.office import People
from tests.rig.postgres import Postgres
from tests.rig.service import Service, ServiceMaker
from tests.rig.waiting import SOON_S, Clock, free_port, wait_until
from tests.store.books import Books

TOKEN = "a-token-of-the-watchers"


def request(**headers: str) -> Request:
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    running = SimpleNamespace(draining=False)
    return Request({"type": "http", "headers": fields, EXCHANGE: running})


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def none_missing() -> dict[str, str]:
    return {}


async def committed() -> None:
    """A database that commits."""


class MakeHealth(Protocol):
    """Makes the health endpoints of a service on books and a folder."""

    def __call__(self, folder: Folder | None = None, **parts: Callable[[], Awaitable[Any]]) -> HealthApi: ...


@pytest.fixture
def make_health(sqlite_books: Books, tmp_path: Path, clock: Clock) -> MakeHealth:
    def make(folder: Folder | None = None, **parts: Callable[[], Awaitable[Any]]) -> HealthApi:
        parts = {"missing": none_missing, "try_commit": committed} | parts
        return HealthApi(sqlite_books.db, AudioStore(folder or Folder(tmp_path)), "", clock=clock, **parts)

    return make


class StalledFolder(Folder):
    """Its disk answers no probe until it is released."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.probes = 0
        self.released = threading.Event()

    def usable(self) -> bool:
        self.probes += 1
        self.released.wait(SOON_S)
        return super().usable()


async def test_a_stalled_disk_fails_readiness_and_blocks_nothing_else(
    make_health: MakeHealth, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READY_WAIT_S", 0.3)
    folder = StalledFolder(tmp_path)
    health = make_health(folder)
    waiting = [asyncio.create_task(health.readyz(request())) for _ in range(40)]
    assert await asyncio.to_thread(lambda: "at once") == "at once"
    answers = await asyncio.wait_for(asyncio.gather(*waiting), SOON_S)
    assert folder.probes == 1
    assert {answer.status_code for answer in answers} == {503}
    checks = msgspec.json.decode(bytes(answers[0].body))["checks"]
    assert checks == {"running": True, "database": True, "storage": False}
    folder.released.set()
    assert (await health.readyz(request())).status_code == 503
    clock.now += CACHE_MAX_AGE_S
    assert (await health.readyz(request())).status_code == 200


async def test_readiness_is_cached_a_second_except_at_shutdown(make_health: MakeHealth, clock: Clock) -> None:
    looks = 0

    async def count() -> dict[str, str]:
        nonlocal looks
        looks += 1
        return {}

    health = make_health(missing=count)
    for _ in range(5):
        await asyncio.gather(*(health.readyz(request()) for _ in range(5)))
    assert looks == 1
    clock.now += CACHE_MAX_AGE_S
    assert (await health.readyz(request())).status_code == 200
    assert looks == 2
    health.stopping = True
    assert (await health.readyz(request())).status_code == 503
    assert looks == 2


async def test_a_scrape_has_what_was_noted_before_it(make_health: MakeHealth, clock: Clock) -> None:
    health = make_health()

    async def lost() -> float:
        clock.now += CACHE_MAX_AGE_S
        text = bytes((await health.metrics(request())).body).decode()
        return float(text.partition('myna_calls_total{end="lost"} ')[2].partition("\n")[0])

    metrics.added[metrics.calls("lost")] += 1
    before = await lost()
    metrics.added[metrics.calls("lost")] += 1
    assert await lost() == before + 1


async def _disconnected() -> dict[str, str]:
    raise DatabaseUnavailable


async def _stalled() -> dict[str, str]:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("missing", [_disconnected, _stalled])
async def test_a_service_that_cannot_read_capabilities_is_not_ready(
    make_health: MakeHealth, monkeypatch: pytest.MonkeyPatch, missing: Callable[[], Awaitable[dict[str, str]]]
) -> None:
    monkeypatch.setattr(module, "READY_WAIT_S", 0.1)
    answer = await asyncio.wait_for(make_health(missing=missing).readyz(request()), 30)
    report = msgspec.json.decode(bytes(answer.body))
    assert (answer.status_code, report["checks"]["database"]) == (503, False)
    assert (report["capabilities"], report["reasons"]) == ({}, {})


async def test_a_service_whose_database_does_not_commit_is_not_ready(
    make_health: MakeHealth, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READY_WAIT_S", 0.1)
    commits, answered = 0, asyncio.Event()

    async def commit() -> None:
        nonlocal commits
        commits += 1
        await answered.wait()

    health = make_health(try_commit=commit)
    for _ in range(3):
        answer = await health.readyz(request())
        assert (answer.status_code, msgspec.json.decode(answer.body)["checks"]["database"]) == (503, False)
        clock.now += CACHE_MAX_AGE_S
    assert commits == 1  # it is not sent again while it is waiting
    answered.set()
    assert (await health.readyz(request())).status_code == 200


def test_metrics_require_the_token_if_one_is_set_and_readiness_none(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none", env={"MYNA_METRICS_TOKEN": TOKEN}).start()
    url = f"{service.root_url}/metrics"
    for wrong in (
        {},
        {"Authorization": TOKEN},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": "é"},
    ):
        refused = call("GET", url, headers=wrong)
        assert (refused.status, refused.json["error"]["type"]) == (401, "authentication_error")
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.headers["x-request-id"]
        assert b"myna_requests" not in refused.body
    for right in (f"Bearer {TOKEN}", f"bearer {TOKEN}"):
        assert b"myna_requests_total" in call("GET", url, headers={"Authorization": right}).body
    ready = call("GET", f"{service.root_url}/readyz")
    assert (ready.status, ready.json["ok"]) == (200, True)
    assert ready.json["capabilities"] == {"chat": True, "speech": False}
    assert list(ready.json["reasons"]) == ["speech"] and ready.json["reasons"]["speech"]
    assert service.stop() == 0
    assert TOKEN not in service.stderr
    assert TOKEN not in service.command("settings", "list").stdout


def test_chat_is_unavailable_while_every_chat_channels_circuit_is_open(make_service: ServiceMaker) -> None:
    service = make_service(
        chat_url=f"http://127.0.0.1:{free_port()}/v1", speech="none", env={"MYNA_CHANNEL_COOLDOWN_S": "600"}
    ).start()
    operator = People(service).signed_in("operator", operator=True)
    account = service.account()
    caller = Caller(service, account, account.key())

    def readiness() -> tuple[bool, str]:
        answer = call("GET", f"{service.root_url}/readyz")
        assert answer.status == 200
        return answer.json["capabilities"]["chat"], answer.json["reasons"].get("chat", "")

    assert readiness() == (True, "")
    for _ in range(FAILURES_MAX):
        check_error(caller.chat("hello"), 500, "upstream_error")
    failing = (False, CHAT_CHANNELS_FAIL)
    wait_until(lambda: readiness() == failing, SOON_S, "chat is reported as unavailable", every_s=0.1)
    assert CHAT_CHANNELS_FAIL in html.unescape(operator.page("/site/health"))

    service.cli("channel", "add", "chat", "another", "parrot:")
    wait_until(lambda: readiness() == (True, ""), SOON_S, "the other channel is known", every_s=0.1)
    assert CHAT_CHANNELS_FAIL not in html.unescape(operator.page("/site/health"))


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
