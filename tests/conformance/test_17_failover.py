"""Streams of /openai/v1 over two channels: which one answers, and until when the second one is asked."""

import itertools
from collections.abc import Iterator

import pytest

from tests.conformance.caller import DELIVERED, REFUNDED, Caller
from tests.conformance.conftest import CallerMaker
from tests.rig.service import Service
from tests.rig.sse import EventReader
from tests.rig.upstream import Upstream

CALLS = {"chat": "/chat/completions", "responses": "/responses"}
_numbers = itertools.count(1)


@pytest.fixture
def fresh_caller(new_caller: CallerMaker) -> Caller:
    return new_caller(units=1000)


@pytest.fixture
def model(service: Service, upstream: Upstream, chat_upstream: Upstream) -> Iterator[str]:
    """A route whose first channel is `upstream` and whose second one is `chat_upstream`. Their names are new,
    so that no circuit of them is open."""
    number = next(_numbers)
    name, first, second = f"model-{number}", f"first-{number}", f"second-{number}"
    service.cli("channel", "add", "chat", first, upstream.url, "--priority", "1")
    service.cli("channel", "add", "chat", second, chat_upstream.url, "--priority", "2")
    service.cli("route", "add", name, "--channel", first, "--channel", second, "--units", "1")
    yield name
    service.cli("route", "remove", name)
    for channel in (first, second):
        service.cli("channel", "remove", channel)


def stream(caller: Caller, model: str, call: str) -> EventReader:
    said = {"messages": [{"role": "user", "content": "one two"}]} if call == "chat" else {"input": "one two"}
    url = f"{caller.service.root_url}/openai/v1{CALLS[call]}"
    return EventReader(url, caller.key.plain, {"model": model, "stream": True} | said)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", ["error-first", "html-first", "json-error", "close", "cut", "status:503"])
def test_a_channel_that_fails_before_the_first_event_is_followed_by_the_next_one(
    fresh_caller: Caller, model: str, upstream: Upstream, chat_upstream: Upstream, call: str, fault: str
) -> None:
    upstream.behave(fault)
    with stream(fresh_caller, model, call).rest() as answer:
        assert answer.status == 200 and answer.ended, answer.raw
        assert answer.headers["x-myna-channel"].startswith("second-")
        assert b"error" not in answer.raw.replace(b'"error":null', b"")
        if call == "chat":
            assert answer.text == "one two" and answer.is_done
        else:
            assert answer.chunks[-1]["response"]["output"][0]["content"][0]["text"] == "one two"
    assert (len(upstream.requests), len(chat_upstream.requests)) == (1, 1)
    assert fresh_caller.stats() == DELIVERED


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("fault", ["no-end", "cut-stream", "error-later", "html-later", "half-event"])
def test_a_channel_that_fails_after_the_first_event_is_followed_by_none(
    fresh_caller: Caller, model: str, upstream: Upstream, chat_upstream: Upstream, call: str, fault: str
) -> None:
    """The client has a part of the first answer, to which another one would not fit."""
    upstream.behave(fault)
    with stream(fresh_caller, model, call).rest() as answer:
        assert answer.status == 200 and not answer.ended
        assert answer.headers["x-myna-channel"].startswith("first-")
        assert b"[DONE]" not in answer.raw and b"response.completed" not in answer.raw
        last = answer.chunks[-1]
        assert "refunded" in (last if call == "chat" else last["response"])["error"]["message"]
    assert (len(upstream.requests), len(chat_upstream.requests)) == (1, 0)
    assert fresh_caller.stats() == REFUNDED
