"""POST /openai/v1/chat/completions as a stream: what comes out of each kind of upstream, and the unit."""

import json
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import pytest

from tests.conformance.caller import DELIVERED, REFUNDED, UNCHARGED, Caller, Stats, make_caller
from tests.conformance.conftest import CallerMaker
from tests.rig.calls import EventReader
from tests.rig.service import Service
from tests.rig.upstream import SECRET, Upstream
from tests.rig.waiting import wait_until

LONG_BYTES = 2**20
Streams = Callable[..., EventReader]


@pytest.fixture
def stream(fresh_caller: Caller, chat_upstream: Upstream) -> Streams:
    """Sends a message and returns the stream of its answer."""

    def send(text: str, headers: dict[str, str] | None = None, **fields: Any) -> EventReader:
        return stream_of(fresh_caller, text, headers, **fields)

    return send


def stream_of(caller: Caller, text: str, headers: dict[str, str] | None = None, **fields: Any) -> EventReader:
    body = {"model": "svc-chat", "stream": True, "messages": [{"role": "user", "content": text}]} | fields
    url = f"{caller.service.root_url}/openai/v1/chat/completions"
    return EventReader(url, caller.key.plain, body, headers)


LEFT_DEADLINE_S = 20


def settled(caller: Caller, expected: Stats) -> None:
    """Waits until the call of a client that left has ended so."""
    wait_until(lambda: caller.stats() == expected, LEFT_DEADLINE_S, f"the call is {expected}")


def reasons(caller: Caller) -> list[tuple[str, str]]:
    """State and reason of the caller's calls, newest first."""
    listed = caller.service.cli("calls", "--account", caller.account.name)
    return [(call["state"], call["reason"]) for call in listed]


@pytest.fixture(params=["refund", "keep"])
def broken_stream(service: Service, request: pytest.FixtureRequest) -> Iterator[str]:
    """The site setting during one test."""
    service.cli("settings", "set", "broken_stream", request.param)
    yield request.param
    service.cli("settings", "set", "broken_stream", "refund")


def test_the_words_arrive_as_the_upstream_sends_them(stream: Streams, fresh_caller: Caller) -> None:
    with stream("春眠不觉晓 hello world").rest() as answer:
        assert answer.status == HTTPStatus.OK and answer.ended and answer.is_done
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-units-cost"] == "1" and answer.headers["x-units-balance"] == "999"
        assert answer.headers["x-myna-channel"] == "default"
        assert answer.text == "春眠不觉晓 hello world"
        assert len(answer.chunks) > 8
    assert fresh_caller.stats() == DELIVERED


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        *((fault, None) for fault in ("no-done", "open", "cut-done", "cut-end")),
        (f"long:{LONG_BYTES}", "x" * LONG_BYTES),
    ],
)
def test_every_good_stream_ends_with_done_and_is_kept(
    stream: Streams, fresh_caller: Caller, fault: str, text: str | None
) -> None:
    sent = f"fault={fault} 春眠 😀 y"
    with stream(sent).rest() as answer:
        assert answer.ended and answer.is_done, answer.raw[-300:]
        assert b"\r" not in answer.raw
        assert (text or sent) in answer.text
        assert answer.chunks[-1 - answer.raw.count(b'"usage"')]["choices"][0]["finish_reason"] == "stop"
    assert fresh_caller.stats() == DELIVERED
    assert reasons(fresh_caller) == [("kept", "")]


@pytest.mark.parametrize("withheld", [False, True])
def test_usage_is_the_upstreams_or_counted(stream: Streams, chat_upstream: Upstream, withheld: bool) -> None:
    chat_upstream.withholds_usage = withheld
    with stream("春眠不觉晓", stream_options={"include_usage": True}).rest() as answer:
        usage = answer.chunks[-1]
        assert usage["choices"] == [] and answer.is_done
        counted = {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
        theirs = {"prompt_tokens": 11, "completion_tokens": 22, "total_tokens": 33}
        assert usage["usage"] == (counted if withheld else theirs)
        assert sum("usage" in chunk for chunk in answer.chunks) == 1


@pytest.mark.parametrize("fault", ["no-end", "error-later"])
def test_a_stream_that_breaks_ends_with_an_error_and_is_refunded_or_kept(
    stream: Streams, fresh_caller: Caller, broken_stream: str, fault: str
) -> None:
    kept = broken_stream == "keep"
    with stream(f"fault={fault} one two three").rest() as answer:
        assert answer.status == HTTPStatus.OK and answer.ended
        assert b"[DONE]" not in answer.raw
        assert set(answer.error) == {"message", "type", "param", "code"}
        assert answer.error["type"] == "upstream_error"
        assert f"The call was {'charged' if kept else 'refunded'}." in answer.error["message"]
        assert b"out of memory" not in answer.raw and b"<html" not in answer.raw
    assert fresh_caller.stats() == (DELIVERED if kept else REFUNDED)
    assert reasons(fresh_caller) == [("kept" if kept else "refunded", "StreamFailed")]


def test_a_retry_of_a_stream_that_broke_gets_the_same_events_if_it_was_kept(
    stream: Streams, fresh_caller: Caller, chat_upstream: Upstream, broken_stream: str
) -> None:
    kept = broken_stream == "keep"
    headers = {"Idempotency-Key": "a broken stream"}
    text = "fault=error-later one two three"
    with stream(text, headers).rest() as first, stream(text, headers).rest() as second:
        assert b"[DONE]" not in first.raw and b"[DONE]" not in second.raw
        assert first.error == second.error
        if kept:
            assert first.raw == second.raw
            assert second.headers["x-units-cost"] == "0"
    assert len(chat_upstream.requests) == (1 if kept else 2)
    assert fresh_caller.stats() == (DELIVERED if kept else Stats(calls=2, cost=0, ok_calls=0))
    assert reasons(fresh_caller) == (
        [("kept", "StreamFailed")] if kept else [("refunded", "StreamFailed")] * 2
    )


def test_an_upstream_that_fails_before_the_first_event_is_a_500_without_a_stream(
    stream: Streams, fresh_caller: Caller
) -> None:
    faults = ("error-first", "html-first", "json-error", "close", "garbage", "status:503", "redirect")
    for fault in faults:
        with stream(f"fault={fault} one two").rest() as answer:
            assert answer.status == HTTPStatus.INTERNAL_SERVER_ERROR, answer.raw
            assert answer.error["type"] == "upstream_error" and "refunded" in answer.error["message"]
            assert SECRET.encode() not in answer.raw and b"out of memory" not in answer.raw
    assert fresh_caller.stats() == Stats(calls=len(faults), cost=0, ok_calls=0)


def test_a_request_refused_upstream_is_a_400_with_its_code(stream: Streams, fresh_caller: Caller) -> None:
    for streams in (True, False):
        with stream("fault=status:400 x", stream=streams).rest() as answer:
            assert answer.status == HTTPStatus.BAD_REQUEST
            assert answer.error["code"] == "400" and SECRET.encode() not in answer.raw
    assert fresh_caller.stats() == Stats(calls=2, cost=0, ok_calls=0)


def test_a_client_that_leaves_before_an_answer_begins_is_refunded_and_ends_the_upstream_request(
    stream: Streams, fresh_caller: Caller, chat_upstream: Upstream
) -> None:
    for fault, streams in (("before", True), ("hang", True), ("hang", False)):
        chat_upstream.forget()
        with stream(f"fault={fault} x", stream=streams):
            chat_upstream.wait_for_requests(1)
        wait_until(lambda: chat_upstream.abandoned == 1, 1, "the upstream request has ended")
    settled(fresh_caller, Stats(calls=3, cost=0, ok_calls=0))
    assert reasons(fresh_caller) == [("refunded", "ClientDisconnected")] * 3


def test_a_client_that_leaves_later_is_charged_and_ends_the_upstream_request(
    stream: Streams, fresh_caller: Caller, chat_upstream: Upstream
) -> None:
    for fault in ("endless", "silent"):
        chat_upstream.forget()
        with stream(f"fault={fault} x") as answer:
            assert answer.next_event() and answer.next_event()
        wait_until(lambda: chat_upstream.abandoned == 1, 1, "the upstream request has ended")
    settled(fresh_caller, Stats(calls=2, cost=2, ok_calls=2))
    assert reasons(fresh_caller) == [("kept", "ClientDisconnected")] * 2


def test_a_slow_reader_slows_its_upstream_down(stream: Streams, chat_upstream: Upstream) -> None:
    with stream("fault=endless x") as answer:
        assert answer.next_event()
        seen = [0]

        def paused() -> bool:
            before, seen[0] = seen[0], chat_upstream.streams[0].sent_bytes
            return before == seen[0] > 0

        wait_until(paused, 60, "the upstream is not read any more", every_s=0.2)
        assert seen[0] < 16 * 2**20  # the buffers of four sockets, and 64 KiB in the service


def test_a_client_that_does_not_read_until_the_deadline_pays(
    own_service: Callable[..., Service], upstream: Upstream
) -> None:
    service = own_service(MYNA_STREAM_DEADLINE_S="1").start()
    caller = make_caller(service)
    body = {"model": "svc-chat", "stream": True, "messages": [{"role": "user", "content": "fault=endless x"}]}
    url = f"{service.root_url}/openai/v1/chat/completions"
    with EventReader(url, caller.key.plain, body, receive_bytes=4096) as answer:
        assert answer.next_event()
        settled(caller, DELIVERED)
    assert reasons(caller) == [("kept", "StreamUnread")]


def test_a_retry_gets_the_stored_stream_and_is_not_charged(stream: Streams, fresh_caller: Caller) -> None:
    headers = {"Idempotency-Key": "a stream"}
    with stream("one two 三", headers).rest() as first, stream("one two 三", headers).rest() as second:
        assert first.raw == second.raw and second.is_done and second.ended
        assert second.headers["x-units-cost"] == "0"
        assert second.headers["content-type"] == first.headers["content-type"]
    with stream("one two 四", headers).rest() as other:
        assert other.status == HTTPStatus.BAD_REQUEST
    assert fresh_caller.stats() == DELIVERED


def test_a_retry_waits_for_the_first_stream_also_if_its_client_has_left(
    stream: Streams, fresh_caller: Caller, chat_upstream: Upstream
) -> None:
    headers = {"Idempotency-Key": "a retry"}
    with stream("fault=pause one two", headers) as first:
        assert first.next_event()
    with stream("fault=pause one two", headers) as second:
        chat_upstream.release()
        assert second.rest().is_done and "one two" in second.text
    assert len(chat_upstream.requests) == 1
    settled(fresh_caller, DELIVERED)


def test_a_stream_too_large_to_store_is_not_repeated(stream: Streams, fresh_caller: Caller) -> None:
    headers = {"Idempotency-Key": "a large stream"}
    with stream(f"fault=long:{LONG_BYTES} x", headers).rest() as first:
        assert first.is_done
    with stream(f"fault=long:{LONG_BYTES} x", headers).rest() as second:
        assert second.status == HTTPStatus.BAD_REQUEST and "too large" in second.error["message"]
    assert fresh_caller.stats() == DELIVERED


BAD: list[tuple[dict[str, Any], int, str | None, str | None]] = [
    ({"model": "gpt-unknown"}, 404, None, "model_not_found"),
    ({"messages": []}, 400, "messages", None),
    ({"messages": "x"}, 400, "messages", None),
    ({"n": 0}, 400, "n", None),
    ({"stream_options": {"include_usage": 1}}, 400, "stream_options.include_usage", None),
]


def test_a_bad_request_is_refused_uncharged_in_openais_shape(stream: Streams, fresh_caller: Caller) -> None:
    for fields, status, param, code in BAD:
        with stream("x", **fields).rest() as answer:
            assert answer.status == status, answer.raw
            assert (answer.error["param"], answer.error["code"]) == (param, code)
    assert fresh_caller.stats() == UNCHARGED


def test_whole_answers_pass_unchanged_with_the_upstreams_usage(
    fresh_caller: Caller, stream: Streams, chat_upstream: Upstream
) -> None:
    with stream("hello", stream=False, seed=7, user="u", response_format={"type": "text"}).rest() as answer:
        body = json.loads(answer.raw)
        assert body["choices"][0]["message"]["content"] == "hello"
        assert body["usage"] == {"prompt_tokens": 11, "completion_tokens": 22, "total_tokens": 33}
        assert body["system_fingerprint"] == "fp_upstream"
        sent = chat_upstream.requests[-1].json
        assert sent["seed"] == 7 and sent["user"] == "u" and sent["model"] == chat_upstream.model
    assert fresh_caller.stats() == DELIVERED


def test_a_streams_head_has_its_accounts_units(new_caller: CallerMaker, chat_upstream: Upstream) -> None:
    """Streams share the connections to a channel, which were opened by requests of others."""
    rich, poor = new_caller(units=1000), new_caller(units=7)
    for left in range(1, 4):
        for caller, units in ((rich, 1000), (poor, 7)):
            with stream_of(caller, "hello").rest() as answer:
                assert answer.headers["x-units-balance"] == str(units - left)
