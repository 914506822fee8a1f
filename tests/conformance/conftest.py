"""The services under test and their callers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pytest

from tests.conformance.caller import Caller, make_caller
from tests.rig.postgres import Postgres
from tests.rig.service import ALL_SCOPES, RunningService, Service, ServiceMaker
from tests.rig.upstream import Upstream

BODY_MAX_BYTES = 200_000
LIMITS = {"MYNA_CALL_DEADLINE_S": "20", "MYNA_BODY_MAX_BYTES": str(BODY_MAX_BYTES)}
HASTE = LIMITS | {"MYNA_CALL_DEADLINE_S": "1", "MYNA_BODY_TIMEOUT_S": "0.5"}

ON_BOTH_DATABASES = pytest.mark.parametrize(
    "database", ["sqlite", "postgresql"], indirect=True, scope="session"
)
"""For tests of what is charged, repeated, interrupted and audited. The others run on SQLite."""

CallerMaker = Callable[..., Caller]


@pytest.fixture(scope="session", params=["sqlite"])
def database(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def new_database(database: str, request: pytest.FixtureRequest) -> Callable[[], str | None]:
    """Makes a database for one more service. Returns its URL, or None for SQLite in the data folder."""
    if database == "sqlite":
        return lambda: None
    postgres: Postgres = request.getfixturevalue("postgres")
    return postgres.fresh_books


@pytest.fixture(scope="session")
def serving(
    new_database: Callable[[], str | None], session_upstream: Upstream, running_service: RunningService
) -> RunningService:
    """Runs services with the shared chat upstream and the embedded voice, unless told otherwise."""

    def run(**parameters: Any) -> AbstractContextManager[Service]:
        session_upstream.forget()  # a service reads the voices of its upstream when it starts
        given = {"speech": None, "env": LIMITS, **session_upstream.as_chat(), **parameters}
        return running_service(database_url=new_database(), **given)

    return run


@pytest.fixture(scope="session")
def service(serving: RunningService) -> Iterator[Service]:
    """A service with a chat upstream and the embedded voice, shared by all tests that do not stop it."""
    with serving() as running:
        yield running


@pytest.fixture(scope="session")
def service_without_speech(serving: RunningService) -> Iterator[Service]:
    """A service with a chat channel and without a speech channel."""
    with serving(speech="none") as running:
        yield running


@pytest.fixture(scope="session")
def hasty_service(serving: RunningService, session_upstream: Upstream) -> Iterator[Service]:
    """A service with short deadlines, whose chat and speech channels are the upstream."""
    with serving(speech=session_upstream.url, env=HASTE) as running:
        yield running


@pytest.fixture
def own_service(
    new_database: Callable[[], str | None], make_service: ServiceMaker, upstream: Upstream
) -> Callable[..., Service]:
    """Makes services for one test, with a separate chat upstream, which the test may stop and kill.

    By default they have no speech channel, so that they start faster. `program` is as in `Service`; other
    parameters are settings.
    """

    def make(*, speech: str = "none", program: Sequence[str] = (), **env: str) -> Service:
        given = {"speech": speech, "program": program, "env": {**LIMITS, **env}}
        return make_service(database_url=new_database(), **given, **upstream.as_chat())

    return make


@pytest.fixture(scope="module", autouse=True)
def the_audit_finds_nothing(service: Service) -> Iterator[None]:
    """Runs the audit after every module."""
    yield
    ended = service.command("audit", "--json")
    assert ended.code == 0, ended


@pytest.fixture(scope="session")
def caller(service: Service) -> Caller:
    """A caller with every scope and enough units for all tests, for tests that compare counters."""
    return make_caller(service, units=1_000_000)


@pytest.fixture
def new_caller(service: Service) -> CallerMaker:
    """Makes callers with new accounts: `new_caller(units=…, scopes=…, expires_in=…, name=…)`."""
    return lambda **parameters: make_caller(service, **parameters)


@pytest.fixture
def fresh_caller(new_caller: CallerMaker, chat_upstream: Upstream) -> Caller:
    """A caller with a new account of 1,000 units, and a reset upstream."""
    return new_caller()


@pytest.fixture(scope="session")
def scoped(service: Service) -> dict[tuple[str, ...], Caller]:
    """Callers by their scopes: each scope alone, and all but each."""
    account = service.account(units=1000)
    alone = [(scope,) for scope in ALL_SCOPES]
    all_but_one = [tuple(scope for scope in ALL_SCOPES if scope != missing) for missing in ALL_SCOPES]
    return {scopes: Caller(service, account, account.key(scopes=scopes)) for scopes in alone + all_but_one}


@pytest.fixture(scope="session")
def caller_without_speech(service_without_speech: Service) -> Caller:
    return make_caller(service_without_speech, units=1_000_000)


@pytest.fixture
def tts_max_chars(service: Service) -> Iterator[int]:
    """A low text limit for one test."""
    service.cli("settings", "set", "tts_max_chars", "12")
    yield 12
    service.cli("settings", "set", "tts_max_chars", "1000")
