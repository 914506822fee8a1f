"""The exact cost of calls: in units, under contention, and across crashes."""

import http.client
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

from tests.conformance.caller import DELIVERED, REFUNDED, UNCHARGED, Caller, Stats, check_error
from tests.conformance.conftest import CallerMaker, make_caller, wait_for_voices
from tests.rig.calls import Answer, Wire, call
from tests.rig.service import Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

OwnService = Callable[..., Service]


def audit(service: Service) -> int:
    return service.command("audit", "--json").code


def test_chat_and_speech_cost_one_unit_each(new_caller: CallerMaker) -> None:
    caller = new_caller(units=4)
    assert caller.chat("hello").status == 200
    assert caller.speak("你好").json["cost"] == 1
    assert caller.chat("朗读：你好").status == 200
    assert caller.stats() == Stats(calls=3, cost=3, ok_calls=3)
    assert caller.chat("the last unit").status == 200
    check_error(caller.chat("one too many"), 402, "insufficient_quota")
    assert caller.stats() == Stats(calls=4, cost=4, ok_calls=4)


def test_an_account_without_units_is_refused(new_caller: CallerMaker, chat_upstream: Upstream) -> None:
    caller = new_caller(units=0)
    check_error(caller.chat("hello"), 402, "insufficient_quota")
    check_error(caller.speak("你好"), 402, "insufficient_quota")
    assert caller.stats() == UNCHARGED
    assert not chat_upstream.requests


def test_granted_units_can_be_spent_at_once(new_caller: CallerMaker) -> None:
    caller = new_caller(units=0)
    check_error(caller.chat("hello"), 402)
    caller.account.grant(1)
    assert caller.chat("hello").status == 200
    check_error(caller.chat("hello"), 402)


def test_a_refunded_unit_can_be_spent_again(new_caller: CallerMaker) -> None:
    caller = new_caller(units=1)
    for _ in range(3):
        check_error(caller.chat("fault=status:500"), 500, "upstream_error")
    assert caller.stats() == Stats(calls=3, cost=0, ok_calls=0)
    assert caller.chat("hello").status == 200
    check_error(caller.chat("hello"), 402)
    assert caller.stats() == Stats(calls=4, cost=1, ok_calls=1)


def test_the_keys_of_an_account_spend_from_one_balance(new_caller: CallerMaker) -> None:
    first = new_caller(units=2)
    second = Caller(first.service, first.account, first.account.key())
    assert first.chat("hello").status == 200
    assert second.chat("hello").status == 200
    check_error(first.chat("hello"), 402)
    check_error(second.chat("hello"), 402)


def test_two_hundred_callers_at_once_spend_exactly_a_hundred_units(new_caller: CallerMaker) -> None:
    caller = new_caller(units=100)
    with ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(lambda number: caller.chat(f"call {number}"), range(200)))
    assert Counter(answer.status for answer in answers) == {200: 100, 402: 100}
    said = {a.json["choices"][0]["message"]["content"] for a in answers if a.status == 200}
    assert len(said) == 100
    assert caller.stats() == Stats(calls=100, cost=100, ok_calls=100)
    check_error(caller.chat("the balance is 0"), 402)


def test_failures_among_concurrent_calls_refund_exactly_their_units(new_caller: CallerMaker) -> None:
    caller = new_caller(units=60)
    texts = ["hello", "fault=status:500", "fault=close"] * 20
    with ThreadPoolExecutor(60) as pool:
        answers = list(pool.map(caller.chat, texts))
    assert Counter(answer.status for answer in answers) == {200: 20, 500: 40}
    assert caller.stats() == Stats(calls=60, cost=20, ok_calls=20)
    with ThreadPoolExecutor(50) as pool:
        statuses = Counter(answer.status for answer in pool.map(caller.chat, ["rest"] * 50))
    assert statuses == {200: 40, 402: 10}


def test_a_client_that_disconnects_pays_for_its_call(
    new_caller: CallerMaker, chat_upstream: Upstream
) -> None:
    caller = new_caller()
    body = b'{"model": "svc-chat", "messages": [{"role": "user", "content": "fault=block"}]}'
    with Wire(caller.service.root_url) as wire:
        bearer = f"Authorization: Bearer {caller.key.plain}"
        wire.head("POST /v1/chat/completions HTTP/1.1", bearer, f"Content-Length: {len(body)}")
        wire.send(body)
        chat_upstream.wait_for_requests(1)
    chat_upstream.release()
    wait_until(lambda: caller.stats() == DELIVERED, 60, "the call is kept")


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
    limits = {"MYNA_SWEEP_EVERY_S": "0.5", "MYNA_CALL_DEADLINE_S": "5"}
    service = own_service(speech=upstream.url, **limits).start()
    caller = make_caller(service, units=2)
    wait_for_voices(caller)
    order = {"Idempotency-Key": "an order"}
    asked = CallInProgress(ask=caller.chat, upstream=upstream, fault="block", headers=order)
    spoken = CallInProgress(caller.speak, upstream, "block")
    service.kill()
    assert asked.answer() is spoken.answer() is None
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
    service = own_service(speech="espeak").start()
    caller = make_caller(service, units=5)
    order = {"Idempotency-Key": "an order"}
    answers = [caller.chat("hello", headers).json for headers in (None, None, order)]
    spoken = caller.speak("你好").json["audio_url"]
    service.kill()
    service.start()
    assert caller.chat("hello", order).json == answers[-1]
    assert len(upstream.requests) == 3
    assert caller.stats() == Stats(calls=4, cost=4, ok_calls=4)
    assert caller.get("/records").json["data"][0]["audio_url"] == spoken
    assert audit(service) == 0


def refuses_connections(service: Service) -> bool:
    """Whether new clients are refused. Raises TimeoutError if one gets no answer."""
    try:
        return call("GET", f"{service.root_url}/readyz", deadline_s=15).status != 200
    except (ConnectionRefusedError, ConnectionResetError, http.client.RemoteDisconnected):
        return True


def test_a_call_in_flight_at_sigterm_is_finished(own_service: OwnService, upstream: Upstream) -> None:
    # With the embedded voice: its child processes must not keep the listening socket open.
    service = own_service(speech="espeak", MYNA_CALL_DEADLINE_S="60").start()
    caller = make_caller(service, units=1)
    asked = CallInProgress(caller.chat, upstream, "block")
    service.terminate()
    wait_until(lambda: refuses_connections(service), 60, "new clients are refused")
    upstream.release()
    answer = asked.answer()
    assert answer is not None
    assert answer.status == 200
    assert service.exit_code() == 0
    service.start()
    assert caller.stats() == DELIVERED
    assert audit(service) == 0


def test_calls_longer_than_the_grace_period_are_refunded_at_sigterm(
    own_service: OwnService, upstream: Upstream
) -> None:
    limits = {"MYNA_SHUTDOWN_GRACE_S": "1", "MYNA_CALL_DEADLINE_S": "60", "MYNA_SWEEP_EVERY_S": "1"}
    service = own_service(**limits).start()
    caller = make_caller(service, units=2)
    asked = [CallInProgress(caller.chat, upstream, fault) for fault in ("hang", "drip")]
    service.terminate()
    assert service.exit_code() == 0
    answers = [one.answer() for one in asked]
    assert {answer.status for answer in answers if answer is not None} <= {500, 503}
    service.start()
    refunded = Stats(calls=2, cost=0, ok_calls=0)
    wait_until(lambda: caller.stats() == refunded, 60, "the units are back")
    assert audit(service) == 0


def test_without_a_chat_channel_a_chat_fails_and_costs_nothing(
    own_service: OwnService, upstream: Upstream
) -> None:
    upstream.close()
    service = own_service().start()
    caller = make_caller(service)
    check_error(caller.chat("hello"), 500, "upstream_error")
    assert caller.stats() == REFUNDED
    assert audit(service) == 0


def test_answers_have_the_cost_and_the_balance(new_caller: CallerMaker) -> None:
    caller = new_caller(units=5)
    once = {"Idempotency-Key": "once"}

    def units(answer: Answer) -> tuple[str, str]:
        assert answer.status == 200
        return answer.headers["x-units-cost"], answer.headers["x-units-balance"]

    assert units(caller.get("/me")) == ("0", "5")
    assert units(caller.chat("hello", headers=once)) == ("1", "4")
    assert units(caller.chat("hello", headers=once)) == ("0", "4")
    assert units(caller.speak("你好")) == ("1", "3")
    assert units(caller.chat("朗读：你好")) == ("1", "2")
    assert units(caller.get("/me")) == ("0", "2")
    assert "x-units-cost" not in caller.get("/records").headers
