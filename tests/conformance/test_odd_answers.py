"""Large and malformed answers of channels on /openai/v1: each is passed on, or fails and is refunded."""

import json
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest

from tests.conformance.caller import DELIVERED, REFUNDED, Caller
from tests.rig.service import Service
from tests.rig.sse import EventReader
from tests.rig.upstream import Upstream

LARGE_CHARS = 10**6
"""As large as an event that is read may be, and larger than one that is buffered otherwise."""
LARGE_WHOLE_CHARS = 4 * 10**6
RESPONDING = "by-large-responses"
"""A route of a channel that has the endpoint POST /responses."""


@pytest.fixture(scope="module", autouse=True)
def responses_channel(service: Service, session_upstream: Upstream) -> Iterator[None]:
    service.cli("channel", "add", "chat", "large-responder", session_upstream.url, "--responses", "yes")
    service.cli("route", "add", RESPONDING, "--channel", "large-responder", "--units", "1")
    yield
    service.cli("route", "remove", RESPONDING)
    service.cli("channel", "remove", "large-responder")


def chat(caller: Caller, text: str, **fields: Any) -> EventReader:
    body = {"model": "svc-chat", "stream": True, "messages": [{"role": "user", "content": text}]} | fields
    url = f"{caller.service.root_url}/openai/v1/chat/completions"
    return EventReader(url, caller.key.plain, body)


def respond(caller: Caller, model: str, text: str) -> EventReader:
    body = {"model": model, "input": text, "stream": True}
    return EventReader(f"{caller.service.root_url}/openai/v1/responses", caller.key.plain, body)


def test_a_long_event_is_read_for_the_usage(fresh_caller: Caller, chat_upstream: Upstream) -> None:
    chat_upstream.withholds_usage = True
    options = {"include_usage": True}
    with chat(fresh_caller, f"fault=long:{LARGE_CHARS} 春眠", stream_options=options).rest() as answer:
        assert answer.is_done, answer.raw[-300:]
        assert "x" * LARGE_CHARS in answer.text
        assert answer.chunks[-1]["usage"]["completion_tokens"] == 2
    assert fresh_caller.stats() == DELIVERED


def test_a_long_event_is_translated(fresh_caller: Caller) -> None:
    with respond(fresh_caller, "svc-chat", f"fault=long:{LARGE_CHARS}").rest() as answer:
        assert answer.chunks[-1]["type"] == "response.completed", answer.raw[-300:]
        assert "x" * LARGE_CHARS in answer.chunks[-1]["response"]["output"][0]["content"][0]["text"]
    assert fresh_caller.stats() == DELIVERED


@pytest.mark.parametrize("fault", ["long", "unnamed"])
def test_a_large_response_is_passed_on(fresh_caller: Caller, fault: str) -> None:
    with respond(fresh_caller, RESPONDING, f"fault={fault}:{LARGE_CHARS}").rest() as answer:
        assert answer.ended and answer.chunks[-1]["type"] == "response.completed", answer.raw[-300:]
        assert answer.chunks[-1]["response"]["output"][0]["content"][0]["text"] == "x" * LARGE_CHARS
    assert fresh_caller.stats() == DELIVERED


def test_a_large_answer_that_is_not_streamed_is_one_chunk(fresh_caller: Caller) -> None:
    with chat(fresh_caller, f"fault=whole:{LARGE_WHOLE_CHARS}").rest() as answer:
        assert answer.is_done and len(answer.chunks) == 1, answer.raw[-300:]
        assert answer.text == "x" * LARGE_WHOLE_CHARS
    assert fresh_caller.stats() == DELIVERED


def test_each_of_several_choices_must_finish(fresh_caller: Caller) -> None:
    """The upstream ends its stream without `[DONE]` after it has finished one choice."""
    with chat(fresh_caller, "fault=no-done hello", n=2).rest() as answer:
        assert answer.ended and not answer.is_done
        assert answer.headers["x-units-cost"] == "2"
    assert fresh_caller.stats() == REFUNDED


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("fault", ["error-choices", "null-choices"])
def test_an_answer_without_a_choice_fails(fresh_caller: Caller, fault: str, streams: bool) -> None:
    """The upstream does not stream these."""
    with chat(fresh_caller, f"fault={fault}", stream=streams).rest() as answer:
        assert answer.status == HTTPStatus.INTERNAL_SERVER_ERROR
        assert json.loads(answer.raw)["error"]["type"] == "upstream_error"
        assert b"/srv/upstream.py" not in answer.raw
    assert fresh_caller.stats() == REFUNDED
