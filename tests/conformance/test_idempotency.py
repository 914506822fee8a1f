"""Idempotency-Key: a retry is the same call."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.caller import DELIVERED, UNCHARGED, Caller, Stats, check_error
from tests.conformance.conftest import ON_BOTH_DATABASES, CallerMaker
from tests.rig.upstream import Upstream

pytestmark = ON_BOTH_DATABASES


def once(name: str) -> dict[str, str]:
    return {"Idempotency-Key": name}


@pytest.mark.parametrize("name", ["x" * 255, "~!@#$%^ &*()"], ids=len)
def test_a_retry_gets_the_stored_response_and_is_charged_once(
    new_caller: CallerMaker, chat_upstream: Upstream, name: str
) -> None:
    caller = new_caller()
    first = caller.chat("hello", headers=once(name))
    again = caller.chat("hello", headers=once(name))
    assert first.status == again.status == 200
    assert first.json == again.json
    assert caller.stats() == DELIVERED
    assert len(chat_upstream.requests) == 1


def test_a_speech_retry_is_charged_once(new_caller: CallerMaker) -> None:
    caller = new_caller()
    assert caller.speak("你好", headers=once("a")).json == caller.speak("你好", headers=once("a")).json
    spoken = caller.chat("朗读：你好", headers=once("b")).json
    assert caller.chat("朗读：你好", headers=once("b")).json == spoken
    assert caller.stats() == Stats(calls=2, cost=2, ok_calls=2)
    assert caller.get("/records").json["count"] == 2


def test_another_body_or_path_with_the_same_idempotency_key_is_refused(new_caller: CallerMaker) -> None:
    caller = new_caller()
    assert caller.chat("hello", headers=once("a")).status == 200
    for other in (
        caller.chat("hello!", headers=once("a")),
        caller.chat("hello", headers=once("a"), temperature=1),
        caller.chat("hello", headers=once("a"), model="svc-agent"),
        caller.speak("你好", headers=once("a")),
    ):
        message = check_error(other, 400, "invalid_request_error")
        assert "idempotency" in message.lower()
    assert caller.stats() == DELIVERED


def test_an_idempotency_key_of_invalid_length_is_refused(new_caller: CallerMaker) -> None:
    caller = new_caller()
    data = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}], "text": "你好"}
    for path, name in itertools.product(("/chat/completions", "/tts"), ("", "x" * 256)):
        message = check_error(caller.post(path, data, headers=once(name)), 400, "invalid_request_error")
        assert "idempotency-key" in message.lower()
    assert caller.stats() == UNCHARGED


def test_an_uncharged_answer_is_not_stored(new_caller: CallerMaker) -> None:
    caller = new_caller(units=0)
    check_error(caller.chat("hello", headers=once("a")), 402)
    check_error(caller.speak("", headers=once("b")), 400)
    caller.account.grant(2)
    assert caller.chat("hello", headers=once("a")).status == 200
    assert caller.speak("你好", headers=once("b")).status == 200


def test_a_replay_belongs_to_the_account_and_requires_a_valid_key(new_caller: CallerMaker) -> None:
    first = new_caller()
    second = Caller(first.service, first.account, first.account.key())
    no_chat = Caller(first.service, first.account, first.account.key(scopes=("tts",)))
    answer = first.chat("hello", headers=once("a"))
    assert second.chat("hello", headers=once("a")).json == answer.json
    assert second.stats() == UNCHARGED
    check_error(no_chat.chat("hello", headers=once("a")), 401)
    first.service.revoke(first.key)
    check_error(first.chat("hello", headers=once("a")), 401)


@pytest.mark.parametrize(
    ("fault", "status", "stats"), [("block", 200, DELIVERED), ("block:500", 500, Stats(2, 0, 0))]
)
def test_a_concurrent_retry_waits_for_the_call_in_progress_and_is_a_new_one_if_it_failed(
    new_caller: CallerMaker, chat_upstream: Upstream, fault: str, status: int, stats: Stats
) -> None:
    caller = new_caller()
    with ThreadPoolExecutor(2) as pool:
        copies = [pool.submit(caller.chat, f"fault={fault}", once("a")) for _ in range(2)]
        chat_upstream.wait_for_requests(1)
        assert not any(copy.done() for copy in copies)
        chat_upstream.release()
        first, second = (copy.result(30) for copy in copies)
    assert first.status == second.status == status
    assert status == 500 or first.json == second.json
    assert caller.stats() == stats
    assert len(chat_upstream.requests) >= stats.calls
