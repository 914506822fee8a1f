"""The exact cost of calls: in units, and under contention."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.conformance.caller import DELIVERED, UNCHARGED, Stats, check_error
from tests.conformance.conftest import ON_BOTH_DATABASES, CallerMaker
from tests.rig.calls import Answer, Wire
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

pytestmark = ON_BOTH_DATABASES


def test_chat_and_speech_cost_one_unit_each(new_caller: CallerMaker) -> None:
    caller = new_caller(units=4)
    assert caller.chat("hello").status == 200
    assert caller.speak("你好").json["cost"] == 1
    assert caller.chat("朗读：你好").status == 200
    assert caller.stats() == Stats(calls=3, cost=3, ok_calls=3)
    assert caller.chat("the last unit").status == 200
    check_error(caller.chat("one too many"), 402, "insufficient_quota")
    check_error(caller.speak("你好"), 402, "insufficient_quota")
    assert caller.stats() == Stats(calls=4, cost=4, ok_calls=4)
    assert caller.get("/records").json["count"] == 2


def test_an_account_without_units_is_refused(new_caller: CallerMaker, chat_upstream: Upstream) -> None:
    caller = new_caller(units=0)
    check_error(caller.chat("hello"), 402, "insufficient_quota")
    check_error(caller.speak("你好"), 402, "insufficient_quota")
    check_error(caller.chat("朗读：你好"), 402, "insufficient_quota")
    assert caller.stats() == UNCHARGED
    assert not chat_upstream.requests
    assert caller.get("/records").json["data"] == []
    caller.account.grant(1)
    assert caller.chat("hello").status == 200
    check_error(caller.chat("hello"), 402)


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


def test_a_disconnecting_client_pays_for_its_call(new_caller: CallerMaker, chat_upstream: Upstream) -> None:
    caller = new_caller()
    body = b'{"model": "svc-chat", "messages": [{"role": "user", "content": "fault=block"}]}'
    with Wire(caller.service.root_url) as wire:
        bearer = f"Authorization: Bearer {caller.key.plain}"
        wire.head("POST /v1/chat/completions HTTP/1.1", bearer, f"Content-Length: {len(body)}")
        wire.send(body)
        chat_upstream.wait_for_requests(1)
    chat_upstream.release()
    wait_until(lambda: caller.stats() == DELIVERED, 60, "the call is kept")


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
