"""Streams of /openai/v1 whose channel fails or is silent: until when another channel is asked, and what keeps
the client's connection open."""

import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from myna.channels.circuits import FAILURES_MAX
from tests.conformance.caller import DELIVERED, REFUNDED, Caller, Stats, make_caller
from tests.rig.calls import EventReader, call
from tests.rig.service import RunningService, Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

CALLS = {"chat": "/chat/completions", "responses": "/responses"}
KEEP_ALIVE = b": keep-alive"
WITH_COMMENTS_SOON = (
    "-c",
    "from myna.gateway.relay import streaming\nstreaming.KEEP_ALIVE_EVERY_S = 0.1\n"
    "from myna.cli import main; main(['serve'])",
)
LONG_BYTES = 2**20
SILENT = "the channel was silent for too long"
_numbers = itertools.count(1)


@contextmanager
def two_channels(service: Service, first_url: str, second_url: str) -> Iterator[str]:
    """A model with two channels. Their names are new, so that no circuit of them is open."""
    number = next(_numbers)
    name, first, second = f"model-{number}", f"first-{number}", f"second-{number}"
    service.cli("channel", "add", "chat", first, first_url, "--priority", "1")
    service.cli("channel", "add", "chat", second, second_url, "--priority", "2")
    service.cli("route", "add", name, "--channel", first, "--channel", second, "--units", "1")
    yield name
    service.cli("route", "remove", name)
    for channel in (first, second):
        service.cli("channel", "remove", channel)


@pytest.fixture
def model(service: Service, upstream: Upstream, chat_upstream: Upstream) -> Iterator[str]:
    """A model whose first channel is `upstream` and whose second one is `chat_upstream`."""
    with two_channels(service, upstream.url, chat_upstream.url) as name:
        yield name


def stream(caller: Caller, model: str, call: str, text: str = "one two") -> EventReader:
    said = {"messages": [{"role": "user", "content": text}]} if call == "chat" else {"input": text}
    url = f"{caller.service.root_url}/openai/v1{CALLS[call]}"
    return EventReader(url, caller.key.plain, {"model": model, "stream": True} | said)


@pytest.mark.parametrize(
    ("call", "fault"),
    [("chat", "error-first"), ("chat", "unreachable"), ("responses", "status:503"), ("responses", "cut")],
)
def test_a_channel_that_fails_before_the_first_event_is_followed_by_the_next_one(
    fresh_caller: Caller, model: str, upstream: Upstream, chat_upstream: Upstream, call: str, fault: str
) -> None:
    upstream.behave(fault)
    if fault == "unreachable":
        upstream.close()
    with stream(fresh_caller, model, call).rest() as answer:
        assert answer.status == 200 and answer.ended, answer.raw
        assert answer.headers["x-myna-channel"].startswith("second-")
        assert b"error" not in answer.raw.replace(b'"error":null', b"")
        if call == "chat":
            assert answer.text == "one two" and answer.is_done
        else:
            assert answer.chunks[-1]["response"]["output"][0]["content"][0]["text"] == "one two"
    assert len(upstream.requests) == (0 if fault == "unreachable" else 1)
    assert len(chat_upstream.requests) == 1
    assert fresh_caller.stats() == DELIVERED


def test_a_channel_with_an_open_circuit_is_asked_last(
    service: Service, model: str, upstream: Upstream, chat_upstream: Upstream
) -> None:
    upstream.behave("status:503")
    callers = [make_caller(service, units=2) for _ in range(FAILURES_MAX)]
    for caller in callers:
        with stream(caller, model, "chat").rest() as answer:
            assert answer.is_done
    upstream.behave()
    with stream(callers[0], model, "chat").rest() as answer:
        assert answer.headers["x-myna-channel"].startswith("second-")
    assert len(upstream.requests) == FAILURES_MAX
    assert len(chat_upstream.requests) == FAILURES_MAX + 1


@pytest.mark.parametrize(("call", "fault"), [("chat", "error-later"), ("responses", "cut-stream")])
def test_a_channel_that_fails_after_the_first_event_is_followed_by_none(
    fresh_caller: Caller, model: str, upstream: Upstream, chat_upstream: Upstream, call: str, fault: str
) -> None:
    """The client has a part of the first answer, to which another one would not fit."""
    upstream.behave(fault)
    with stream(fresh_caller, model, call).rest() as answer:
        assert answer.status == 200 and answer.ended
        assert answer.headers["x-myna-channel"].startswith("first-")
        assert b"[DONE]" not in answer.raw and b"response.completed" not in answer.raw
        last = answer.chunks[-1]
        assert "refunded" in (last if call == "chat" else last["response"])["error"]["message"]
    assert (len(upstream.requests), len(chat_upstream.requests)) == (1, 0)
    assert fresh_caller.stats() == REFUNDED


@pytest.fixture(scope="module")
def talkative_service(serving: RunningService) -> Iterator[Service]:
    """A service that keeps its streams open with a comment every 100 ms."""
    with serving(speech="none", program=WITH_COMMENTS_SOON, forks=None) as service:
        yield service


@pytest.fixture
def talkative(talkative_service: Service, chat_upstream: Upstream) -> Caller:
    return make_caller(talkative_service)


@pytest.fixture(scope="module")
def impatient_service(serving: RunningService) -> Iterator[Service]:
    """A service whose channels may be silent for a second."""
    with serving(speech="none", env={"MYNA_UPSTREAM_IDLE_S": "1"}) as service:
        yield service
        assert service.command("audit", "--json").code == 0


@pytest.fixture
def impatient(impatient_service: Service, chat_upstream: Upstream) -> Caller:
    return make_caller(impatient_service)


def test_a_silent_stream_has_comments_between_its_events_and_none_within_one(
    talkative: Caller, chat_upstream: Upstream
) -> None:
    long = stream(talkative, "svc-chat", "chat", f"fault=half-pause:{LONG_BYTES} x")
    with long, stream(talkative, "svc-chat", "chat", "fault=pause one two") as short:
        assert b'"role"' in long.next_event() and long.next_event()
        long.raw += long.response.read(LONG_BYTES // 4)
        while short.raw.count(KEEP_ALIVE) < 10:
            assert short.next_event()
        chat_upstream.release()
        assert short.rest().is_done and short.text == "fault=pause one two"
        assert {event for event in short.events if event.startswith(b":")} == {KEEP_ALIVE}
        assert b"x" * LONG_BYTES in long.rest().raw and long.is_done


@pytest.mark.parametrize(("call", "fault"), [*((one, "silent") for one in CALLS), ("chat", "silent:pings")])
def test_a_stream_that_is_silent_for_too_long_ends_with_an_error_and_is_refunded(
    impatient: Caller, call: str, fault: str
) -> None:
    with stream(impatient, "svc-chat", call, f"fault={fault} one two").rest() as answer:
        assert answer.status == 200 and answer.ended and b"[DONE]" not in answer.raw
        last = answer.chunks[-1]
        error = (last if call == "chat" else last["response"])["error"]
        assert SILENT in error["message"] and "refunded" in error["message"]
        if call == "chat":
            assert error["type"] == "upstream_error" and len(answer.chunks) == 3
        else:
            assert last["type"] == "response.failed"
    assert impatient.stats() == REFUNDED


@pytest.mark.parametrize("streams", [False, True])
def test_a_channel_that_sends_nothing_is_504_which_is_not_to_be_tried_again(
    impatient: Caller, chat_upstream: Upstream, streams: bool
) -> None:
    chat_upstream.behave("hang")
    said = {"model": "svc-chat", "messages": [{"role": "user", "content": "x"}], "stream": streams}
    url = f"{impatient.service.root_url}/openai/v1/chat/completions"
    answer = call("POST", url, key=impatient.key.plain, data=said)
    assert (answer.status, answer.headers["x-should-retry"]) == (504, "false")
    assert "try again" not in answer.json["error"]["message"]
    assert impatient.stats() == REFUNDED


def test_a_channel_that_is_silent_before_its_first_event_is_followed_by_the_next_one(
    impatient: Caller, upstream: Upstream, chat_upstream: Upstream
) -> None:
    upstream.behave("before")
    with two_channels(impatient.service, upstream.url, chat_upstream.url) as model:
        with stream(impatient, model, "chat").rest() as answer:
            assert answer.is_done and answer.text == "one two"
            assert answer.headers["x-myna-channel"].startswith("second-")
        wait_until(lambda: upstream.abandoned == 1, 20, "the first request has ended")
    assert impatient.stats() == DELIVERED


def test_a_stream_without_an_event_begins_with_a_comment_and_is_not_repeated_elsewhere(
    talkative: Caller, upstream: Upstream, chat_upstream: Upstream
) -> None:
    service = talkative.service
    service.cli("settings", "set", "stream_begin_s", "1")
    upstream.behave("block:500")
    with two_channels(service, upstream.url, chat_upstream.url) as model:
        with (
            stream(talkative, model, "chat") as answer,
            stream(talkative, "svc-chat", "chat", "fault=before one") as good,
        ):
            assert answer.next_event() == good.next_event() == KEEP_ALIVE
            upstream.release()
            chat_upstream.release()
            assert good.rest().is_done and good.text == "fault=before one"
            assert answer.rest().ended and not answer.is_done
            assert answer.headers["x-myna-channel"].startswith("first-")
            assert "refunded" in answer.error["message"]
        with stream(talkative, "svc-chat", "chat", "fault=before one") as left:
            chat_upstream.block_again()
            assert left.next_event() == KEEP_ALIVE
    upstream.behave("block:400")
    upstream.block_again()
    with two_channels(service, upstream.url, chat_upstream.url) as model, ExitStack() as opened:
        calls = ["responses"] + ["chat"] * (FAILURES_MAX - 1)
        refused = [opened.enter_context(stream(talkative, model, call)) for call in calls]
        assert {reader.next_event() for reader in refused} == {KEEP_ALIVE}
        upstream.release()
        last = [reader.rest().chunks[-1] for reader in refused]
        assert {each.get("response", each)["error"]["code"] for each in last} == {"400"}
        upstream.behave()
        with stream(talkative, model, "chat") as answer:
            assert answer.headers["x-myna-channel"].startswith("first-")
    service.cli("settings", "set", "stream_begin_s", "10")
    answered = Stats(calls=4 + FAILURES_MAX, cost=2, ok_calls=2)
    wait_until(lambda: talkative.stats() == answered, 60, "the others are refunded")
