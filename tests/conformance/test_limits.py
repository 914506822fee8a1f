"""Limits of keys and accounts: a 429 before anything is charged, exact under load."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.conformance.caller import UNCHARGED, Caller, Stats, check_error
from tests.conformance.conftest import ON_BOTH_DATABASES, CallerMaker
from tests.rig.calls import Answer, EventReader
from tests.rig.upstream import Upstream

RATE = ("x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", "x-ratelimit-reset-requests")


ASKED = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}
OPENAI_CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/chat/completions", ASKED | {"stream": True}),
    ("/chat/completions", ASKED),
    ("/responses", {"model": "svc-chat", "input": "hello", "stream": True}),
    ("/audio/speech", {"model": "tts-1", "input": "hello"}),
)


def openai_call(caller: Caller, path: str, body: dict[str, Any]) -> EventReader:
    """A call of /openai/v1, whose answer may be a stream."""
    return EventReader(f"{caller.service.root_url}/openai/v1{path}", caller.key.plain, body)


def limit(caller: Caller, *options: str) -> None:
    caller.service.cli("key", "limit", str(caller.key.id), *options)


def rate(answer: Answer) -> tuple[str | None, ...]:
    return tuple(answer.headers.get(name) for name in RATE)


def open_calls(caller: Caller) -> int:
    found: int = caller.service.cli("account", "limit", caller.account.name)["open_calls"]
    return found


def test_calls_in_a_minute_are_limited_and_the_headers_say_what_is_left(new_caller: CallerMaker) -> None:
    caller = new_caller()
    assert rate(caller.chat("hello")) == (None, None, None)
    limit(caller, "--rpm", "3")
    answers = [caller.chat("hello"), caller.speak("你好"), caller.chat("朗读：你好")]
    assert [rate(answer)[:2] for answer in answers] == [("3", "2"), ("3", "1"), ("3", "0")]
    assert all((rate(answer)[2] or "").endswith("s") for answer in answers)
    before = caller.stats()
    for refused in (caller.chat("hello"), caller.speak("你好")):
        message = check_error(refused, 429, "rate_limit_error")
        assert "has made the 3 calls" in message
        assert rate(refused)[:2] == ("3", "0")
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert "x-should-retry" not in refused.headers
    assert caller.stats() - before == UNCHARGED
    limit(caller, "--rpm", "none")
    assert rate(caller.chat("hello")) == (None, None, None)


def test_calls_of_openai_v1_are_limited_and_the_head_of_a_stream_says_what_is_left(
    new_caller: CallerMaker, chat_upstream: Upstream
) -> None:
    caller = new_caller()
    limit(caller, "--rpm", str(len(OPENAI_CALLS)))
    for left, (path, body) in enumerate(reversed(OPENAI_CALLS)):
        with openai_call(caller, path, body).rest() as answer:
            assert answer.status == 200, answer.raw
            assert [answer.headers.get(name) for name in RATE[:2]] == [
                str(len(OPENAI_CALLS)),
                str(len(OPENAI_CALLS) - 1 - left),
            ]
            assert (answer.headers.get(RATE[2]) or "").endswith("s")
    before = caller.stats()
    for path, body in OPENAI_CALLS:
        with openai_call(caller, path, body).rest() as refused:
            assert refused.status == 429
            assert refused.error["code"] == "rate_limit_exceeded"
            assert refused.error["type"] == "rate_limit_error"
            assert [refused.headers.get(name) for name in RATE[:2]] == [str(len(OPENAI_CALLS)), "0"]
            assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert caller.stats() - before == UNCHARGED


def test_an_open_stream_counts_until_its_end(new_caller: CallerMaker, chat_upstream: Upstream) -> None:
    caller = new_caller()
    limit(caller, "--concurrent", "1")
    path, body = OPENAI_CALLS[0]
    paused = body | {"messages": [{"role": "user", "content": "fault=pause one two"}]}
    with openai_call(caller, path, paused) as opened:
        assert opened.next_event()
        for other_path, other in OPENAI_CALLS:
            with openai_call(caller, other_path, other).rest() as refused:
                assert refused.status == 429
                assert refused.error["code"] == "rate_limit_exceeded"
                assert refused.headers["retry-after"] == "1"
        chat_upstream.release()
        assert opened.rest().is_done
    with openai_call(caller, path, body).rest() as answer:
        assert answer.is_done
    assert caller.stats() == Stats(calls=2, cost=2, ok_calls=2)


def test_open_calls_of_an_account_are_limited(new_caller: CallerMaker, chat_upstream: Upstream) -> None:
    caller = new_caller()
    caller.service.cli("account", "limit", caller.account.name, "--concurrent", "2")
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(caller.chat, "fault=block") for _ in range(2)]
        chat_upstream.wait_for_requests(2)
        refused = caller.chat("hello")
        assert "2 calls open" in check_error(refused, 429, "rate_limit_error")
        assert refused.headers["retry-after"] == "1"
        assert open_calls(caller) == 2
        chat_upstream.release()
        assert [one.result(60).status for one in asked] == [200, 200]
    assert open_calls(caller) == 0
    assert caller.chat("hello").status == 200


@ON_BOTH_DATABASES
@pytest.mark.parametrize("option", ["--rpm", "--units-per-day"])
def test_many_at_once_on_a_limited_key_are_charged_up_to_it(new_caller: CallerMaker, option: str) -> None:
    caller = new_caller()
    limit(caller, option, "40")
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda _: caller.chat("hello"), range(160)))
    assert Counter(answer.status for answer in answers) == {200: 40, 429: 120}
    assert caller.stats() == Stats(calls=40, cost=40, ok_calls=40)
