"""What is charged, refunded and repeated after a process was killed or stopped within its calls."""

import asyncio
import http.client
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import asyncpg
import pytest

from tests.conformance.caller import Stats, check_error, make_caller
from tests.conformance.conftest import ON_BOTH_DATABASES
from tests.rig.calls import Answer, call
from tests.rig.service import Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

OwnService = Callable[..., Service]
pytestmark = ON_BOTH_DATABASES


def audit(service: Service) -> int:
    return service.command("audit", "--json").code


def states(service: Service, account: str) -> list[str]:
    return [call["state"] for call in service.cli("calls", "--account", account)]


def let_deadlines_pass(service: Service) -> None:
    """Moves the deadlines of open calls into the past, for which PostgreSQL's other processes wait. On
    SQLite the next process refunds what the previous one left open."""

    async def move(url: str) -> None:
        connection = await asyncpg.connect(url)
        await connection.execute("UPDATE calls SET deadline = 1")
        await connection.close()

    url = service.env.get("MYNA_DATABASE_URL")
    if url is not None:
        asyncio.run(move(url))


class CallInProgress:
    """A call that has reached the upstream and waits there, sent from a thread."""

    def __init__(
        self,
        ask: Callable[..., Answer],
        upstream: Upstream,
        fault: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        before = len(upstream.requests)
        self._pool = ThreadPoolExecutor(1)
        self._answer: Future[Answer] = self._pool.submit(ask, f"fault={fault}", headers)
        upstream.wait_for_requests(before + 1)

    def answer(self) -> Answer | None:
        """The answer, or None if the connection was closed without one."""
        try:
            return self._answer.result(60)
        except (ConnectionError, http.client.HTTPException):
            return None
        finally:
            self._pool.shutdown()


def test_a_call_interrupted_by_a_crash_is_refunded_and_can_be_retried(
    own_service: OwnService, upstream: Upstream
) -> None:
    service = own_service(speech=upstream.url, MYNA_SWEEP_EVERY_S="0.2").start()
    caller = make_caller(service, units=2)
    caller.wait_for_voices()
    order = {"Idempotency-Key": "an order"}
    asked = CallInProgress(ask=caller.chat, upstream=upstream, fault="block", headers=order)
    spoken = CallInProgress(caller.speak, upstream, "block")
    service.kill()
    assert asked.answer() is spoken.answer() is None
    let_deadlines_pass(service)
    service.start()
    lost = Stats(calls=2, cost=0, ok_calls=0)
    wait_until(lambda: caller.stats() == lost, 60, "the units are back")
    [record] = caller.get("/records").json["data"]
    assert (record["status"], record["audio_url"]) == (3, "")
    assert audit(service) == 0
    upstream.release()
    again = caller.chat("fault=block", order)
    assert again.status == 200
    assert caller.chat("fault=block", order).json == again.json
    assert caller.chat("hello").status == 200
    check_error(caller.chat("hello"), 402)
    assert caller.stats() == Stats(calls=4, cost=2, ok_calls=2)
    assert service.stop() == 0


def test_a_call_answered_before_a_crash_stays_charged_and_is_replayed(
    own_service: OwnService, upstream: Upstream
) -> None:
    service = own_service(speech=upstream.url).start()
    caller = make_caller(service, units=5)
    caller.wait_for_voices()
    order = {"Idempotency-Key": "an order"}
    answers = [caller.chat("hello", headers).json for headers in (None, None, order)]
    spoken = caller.speak("你好").json["audio_url"]
    service.kill()
    service.start()
    assert caller.chat("hello", order).json == answers[-1]
    assert sum(request.path.endswith("/chat/completions") for request in upstream.requests) == 3
    assert caller.stats() == Stats(calls=4, cost=4, ok_calls=4)
    assert caller.get("/records").json["data"][0]["audio_url"] == spoken
    assert audit(service) == 0


def refuses_connections(service: Service) -> bool:
    """Whether new clients are refused. Raises TimeoutError if one gets no answer."""
    try:
        return call("GET", f"{service.root_url}/readyz", deadline_s=15).status != 200
    except (ConnectionRefusedError, ConnectionResetError, http.client.RemoteDisconnected):
        return True


def test_a_call_in_flight_at_sigterm_is_finished(
    own_service: OwnService, upstream: Upstream, database: str
) -> None:
    # Child processes of the embedded voice must not keep the listening socket open.
    speech = "espeak" if database == "sqlite" else "none"
    service = own_service(speech=speech, MYNA_CALL_DEADLINE_S="60").start()
    caller = make_caller(service, units=1)
    asked = CallInProgress(caller.chat, upstream, "block")
    service.terminate()
    wait_until(lambda: refuses_connections(service), 60, "new clients are refused")
    upstream.release()
    answer = asked.answer()
    assert answer is not None
    assert answer.status == 200
    assert service.exit_code() == 0
    assert states(service, caller.account.name) == ["kept"]
    assert audit(service) == 0


def test_calls_longer_than_the_grace_period_are_refunded_at_sigterm(
    own_service: OwnService, upstream: Upstream
) -> None:
    service = own_service(MYNA_SHUTDOWN_GRACE_S="0.3", MYNA_CALL_DEADLINE_S="60").start()
    caller = make_caller(service, units=2)
    asked = [CallInProgress(caller.chat, upstream, fault) for fault in ("hang", "drip")]
    service.terminate()
    assert service.exit_code() == 0
    answers = [one.answer() for one in asked]
    assert {answer.status for answer in answers if answer is not None} <= {500, 503}
    assert states(service, caller.account.name) == ["refunded"] * 2
    assert audit(service) == 0


def test_open_calls_of_a_killed_process_do_not_count_towards_limits(
    own_service: OwnService, upstream: Upstream
) -> None:
    service = own_service(MYNA_SWEEP_EVERY_S="0.2").start()

    def open_calls() -> int:
        return int(service.cli("account", "limit", caller.account.name)["open_calls"])

    caller = make_caller(service)
    service.cli("account", "limit", caller.account.name, "--concurrent", "3", "--units-per-day", "3")
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(caller.chat, "fault=block") for _ in range(3)]
        upstream.wait_for_requests(3)
        check_error(caller.chat("hello"), 429, "rate_limit_error")
        assert open_calls() == 3
        service.kill()
        for one in asked:
            with pytest.raises(Exception, match=r"[Cc]onnection|closed"):
                one.result(60)
    let_deadlines_pass(service)
    service.start()
    wait_until(lambda: open_calls() == 0, 60, "the calls are refunded")
    assert [caller.chat("hello").status for _ in range(3)] == [200, 200, 200]
    assert caller.chat("hello").status == 429, "of the day: three units"
    assert audit(service) == 0
