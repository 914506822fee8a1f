"""Health checks and metrics are answered in time, even with a stalled disk, at little cost."""

import asyncio
import html
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
from starlette.requests import Request

from myna.api import health as module
from myna.api.health import CACHE_MAX_AGE_S, HealthApi
from myna.channel_circuits import FAILURES_MAX
from myna.errors import DatabaseUnavailable
from myna.sentences import CHAT_CHANNELS_FAIL
from myna.store.files.audio import AudioStore
from tests.conformance.caller import Caller, check_error
from tests.rig.calls import call
from tests.rig.office import People
from tests.rig.service import ServiceMaker
from tests.rig.waiting import SOON_S, free_port, wait_until
from tests.store.books import Books

pytestmark = pytest.mark.anyio

TOKEN = "a-token-of-the-watchers"


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def request(**headers: str) -> Request:
    fields = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "headers": fields})


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(sqlite_books: Books, tmp_path: Path, clock: Clock) -> HealthApi:
    return HealthApi(sqlite_books.db, AudioStore(tmp_path / "audio"), clock=clock)


class StalledAudio(AudioStore):
    """Its disk answers no probe until it is released."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.probes = 0
        self.released = threading.Event()

    def writable(self) -> bool:
        self.probes += 1
        self.released.wait(SOON_S)
        return super().writable()


async def test_a_stalled_disk_fails_readiness_and_blocks_nothing_else(
    sqlite_books: Books, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READY_WAIT_S", 0.3)
    audio = StalledAudio(tmp_path / "audio")
    health = HealthApi(sqlite_books.db, audio, clock=clock)
    waiting = [asyncio.create_task(health.readyz(request())) for _ in range(40)]
    assert await asyncio.to_thread(lambda: "at once") == "at once"
    async with asyncio.timeout(SOON_S):
        answers = await asyncio.gather(*waiting)
    assert audio.probes == 1
    assert {answer.status_code for answer in answers} == {503}
    checks = msgspec.json.decode(bytes(answers[0].body))["checks"]
    assert checks == {"running": True, "database": True, "storage": False}
    audio.released.set()
    assert (await health.readyz(request())).status_code == 503
    clock.now += CACHE_MAX_AGE_S
    assert (await health.readyz(request())).status_code == 200


async def test_readiness_is_cached_for_a_second_except_at_shutdown(
    sqlite_books: Books, tmp_path: Path, clock: Clock
) -> None:
    looks = 0

    async def count() -> dict[str, str]:
        nonlocal looks
        looks += 1
        return {}

    health = HealthApi(sqlite_books.db, AudioStore(tmp_path / "audio"), missing=count, clock=clock)
    for _ in range(5):
        await asyncio.gather(*(health.readyz(request()) for _ in range(5)))
    assert looks == 1
    clock.now += CACHE_MAX_AGE_S
    assert (await health.readyz(request())).status_code == 200
    assert looks == 2
    health.stopping = True
    assert (await health.readyz(request())).status_code == 503
    assert looks == 2


async def _disconnected() -> dict[str, str]:
    raise DatabaseUnavailable


async def _stalled() -> dict[str, str]:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("missing", [_disconnected, _stalled])
async def test_a_service_that_cannot_read_capabilities_is_not_ready(
    sqlite_books: Books,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    missing: Callable[[], Awaitable[dict[str, str]]],
) -> None:
    monkeypatch.setattr(module, "READY_WAIT_S", 0.1)
    health = HealthApi(sqlite_books.db, AudioStore(tmp_path / "audio"), missing=missing)
    async with asyncio.timeout(30):
        answer = await health.readyz(request())
    report = msgspec.json.decode(bytes(answer.body))
    assert (answer.status_code, report["checks"]["database"]) == (503, False)
    assert (report["capabilities"], report["reasons"]) == ({}, {})


async def test_a_service_whose_database_does_not_commit_is_not_ready(
    sqlite_books: Books, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READY_WAIT_S", 0.1)
    commits, answered = 0, asyncio.Event()

    async def commit() -> None:
        nonlocal commits
        commits += 1
        await answered.wait()

    health = HealthApi(sqlite_books.db, AudioStore(tmp_path / "audio"), try_commit=commit, clock=clock)
    for _ in range(3):
        answer = await health.readyz(request())
        assert (answer.status_code, msgspec.json.decode(answer.body)["checks"]["database"]) == (503, False)
        clock.now += CACHE_MAX_AGE_S
    assert commits == 1  # it is not sent again while it is waiting
    answered.set()
    assert (await health.readyz(request())).status_code == 200


async def test_metrics_that_failed_are_not_cached(health: HealthApi, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> bytes:
        raise OSError("no counters")

    monkeypatch.setattr(module, "generate_latest", broken)
    with pytest.raises(OSError, match="no counters"):
        await health.metrics(request())
    monkeypatch.undo()
    assert b"myna_requests" in (await health.metrics(request())).body


async def test_metrics_are_cached_for_a_second(
    health: HealthApi, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[bytes] = []

    def count(_: object) -> bytes:
        made.append(b"copy %d" % len(made))
        return made[-1]

    monkeypatch.setattr(module, "generate_latest", count)
    for _ in range(16):
        assert (await health.metrics(request())).body == b"copy 0"
    clock.now += CACHE_MAX_AGE_S
    assert (await health.metrics(request())).body == b"copy 1"
    assert len(made) == 2


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


def test_chat_is_unavailable_while_the_circuit_of_every_chat_channel_is_open(
    make_service: ServiceMaker,
) -> None:
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
