"""POST /openai/v1/responses: translated for one channel, passed on to another; charged as a chat is."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.caller import DELIVERED, REFUNDED, UNCHARGED, Caller, Stats
from tests.rig.answers import RESPONSE_ID
from tests.rig.calls import Answer, EventReader, call
from tests.rig.service import Service
from tests.rig.upstream import Upstream

PATH = "/openai/v1/responses"
MODELS = {"by-chat": "translated", "by-responses": "passed on"}
"""The models of these tests, each with one channel; that of the second one has the endpoint. Another channel
would answer for one whose circuit earlier tests have opened."""


@pytest.fixture(scope="module", autouse=True)
def responses_channel(service: Service, session_upstream: Upstream) -> Iterator[None]:
    service.cli("channel", "add", "chat", "responder", session_upstream.url, "--responses", "yes")
    service.cli("route", "add", "by-responses", "--channel", "responder", "--units", "1")
    service.cli("route", "add", "by-chat", "--channel", "default", "--units", "1")
    yield
    for name in MODELS:
        service.cli("route", "remove", name)
    service.cli("channel", "remove", "responder")


@pytest.fixture(params=MODELS, ids=MODELS.values())
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def respond(caller: Caller, model: str, text: Any = "hello", headers: Any = None, **fields: Any) -> Answer:
    data = {"model": model, "input": text} | fields
    return call("POST", caller.service.root_url + PATH, key=caller.key.plain, data=data, headers=headers)


def stream(caller: Caller, model: str, text: str = "hello", headers: Any = None) -> EventReader:
    data = {"model": model, "input": text, "stream": True}
    return EventReader(caller.service.root_url + PATH, caller.key.plain, data, headers)


def said(response: Any) -> str:
    return str(response["output"][0]["content"][0]["text"])


def test_a_whole_response_is_charged_and_says_what_it_cost(fresh_caller: Caller, model: str) -> None:
    answer = respond(fresh_caller, model)
    assert answer.status == 200, answer
    assert (said(answer.json), answer.json["status"]) == ("hello", "completed")
    assert answer.json["usage"]["total_tokens"] == 33
    assert answer.headers["x-units-cost"] == "1"
    assert answer.headers["x-myna-channel"]
    assert fresh_caller.stats() == DELIVERED


def test_a_stream_ends_with_the_completed_response(fresh_caller: Caller, model: str) -> None:
    with stream(fresh_caller, model).rest() as reader:
        assert reader.ended
        assert reader.headers["content-type"].startswith("text/event-stream")
        first, *_, last = reader.chunks
        assert (first["type"], last["type"]) == ("response.created", "response.completed")
        assert said(last["response"]) == "hello"
        assert last["response"]["usage"]["total_tokens"] == 33
        assert b"[DONE]" not in reader.raw
        assert fresh_caller.stats() == DELIVERED


@pytest.mark.parametrize(
    "fault", ["refuses:stream_options,max_completion_tokens", "refuses:max_completion_tokens"]
)
@pytest.mark.parametrize("streams", [False, True])
def test_an_older_channel_is_asked_without_what_the_translation_adds_and_so_later_on(
    service: Service, fresh_caller: Caller, upstream: Upstream, fault: str, streams: bool
) -> None:
    upstream.behave(fault)
    service.cli("channel", "add", "chat", "older", upstream.url)
    service.cli("route", "add", "older", "--channel", "older", "--units", "1")
    refused = {"max_completion_tokens"} | (
        {"stream_options"} if streams and "stream_options" in fault else set()
    )
    for asked in (len(refused) + 1, 1):
        answer = respond(fresh_caller, "older", max_output_tokens=77, stream=streams)
        assert answer.status == 200 and b"hello" in answer.body, answer
        assert len(upstream.requests) == asked
        last = upstream.requests[-1].json
        assert last["max_tokens"] == 77 and not refused & set(last)
        assert ("stream_options" in last) is (streams and "stream_options" not in refused)
        upstream.requests.clear()
    upstream.behave("error:400,0 " + '{"error": {"message": "max_completion_tokens: too many"}}')
    assert respond(fresh_caller, "older", max_output_tokens=10**9, stream=streams).status == 400
    assert len(upstream.requests) == 1
    service.cli("route", "remove", "older")
    service.cli("channel", "remove", "older")


def test_a_channel_gets_the_models_reasoning_unless_it_refuses_that(
    service: Service, fresh_caller: Caller, upstream: Upstream
) -> None:
    service.cli("channel", "add", "chat", "strict", upstream.url)
    service.cli("route", "add", "strict", "--channel", "strict", "--units", "1")
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    said = {"role": "assistant", "content": "Hi."}
    items = [thought, said, {"role": "user", "content": "hello"}]
    for fault, asked, sent in (
        ("echo", 1, said | {"reasoning_content": "Hm."}),
        ("refuses:reasoning_content", 2, said),
        ("refuses:reasoning_content", 1, said),
    ):
        upstream.behave(fault)
        upstream.requests.clear()
        assert respond(fresh_caller, "strict", items).status == 200
        assert len(upstream.requests) == asked
        assert upstream.requests[-1].json["messages"][0] == sent
    service.cli("route", "remove", "strict")
    service.cli("channel", "remove", "strict")


def test_a_refusal_of_something_else_is_not_retried(fresh_caller: Caller, chat_upstream: Upstream) -> None:
    chat_upstream.behave('error:400,0 {"error": {"message": "temperature is too high", "code": "too_hot"}}')
    answer = respond(fresh_caller, "by-chat", max_output_tokens=77)
    assert (answer.status, answer.json["error"]["code"]) == (400, "too_hot")
    assert len(chat_upstream.requests) == 1


def test_a_channel_with_the_endpoint_gets_the_request_as_it_is(
    fresh_caller: Caller, chat_upstream: Upstream
) -> None:
    assert respond(fresh_caller, "by-responses", temperature=0, extra=[1]).json["id"] == RESPONSE_ID
    (request,) = chat_upstream.requests
    assert request.path.endswith("/v1/responses")
    asked = {"model": "by-responses", "input": "hello", "temperature": 0, "extra": [1]}
    assert request.json == {**asked, "store": False}


def test_another_channel_gets_a_chat(fresh_caller: Caller, chat_upstream: Upstream) -> None:
    assert respond(fresh_caller, "by-chat", instructions="Be brief.", metadata={"a": "b"}).status == 200
    (request,) = chat_upstream.requests
    assert request.path.endswith("/v1/chat/completions")
    assert request.json == {
        "model": chat_upstream.model,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
        "stream": False,
    }


STATEFUL: list[tuple[dict[str, Any], str]] = [
    ({"store": True}, "store"),
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0]"),
    ({"tools": [{"type": 5}]}, "tools[0].type"),
    ({"input": 5}, "input"),
]


def test_what_needs_state_is_refused_whichever_channel_answers(
    fresh_caller: Caller, model: str, chat_upstream: Upstream
) -> None:
    for fields, param in STATEFUL:
        answer = respond(fresh_caller, model, **fields)
        assert answer.status == 400
        assert answer.json["error"]["param"] == param
    assert chat_upstream.requests == []
    assert fresh_caller.stats() == UNCHARGED


FUNCTION = {"type": "function", "name": "now", "parameters": {"type": "object"}}
HOSTED = [{"type": "web_search"}, {"type": "a\nb: c"}, {"type": "web_search"}]


@pytest.mark.parametrize("streams", [False, True])
def test_tools_that_nothing_here_runs_are_left_out_and_named(
    fresh_caller: Caller, model: str, chat_upstream: Upstream, streams: bool
) -> None:
    allowed = {"type": "allowed_tools", "mode": "auto", "tools": [*HOSTED[:1]]}
    hello, more = (
        {"role": "user", "content": "hello"},
        {"type": "additional_tools", "tools": [FUNCTION, *HOSTED]},
    )
    given = {"input": [hello, more, {"type": "web_search_call"}], "tool_choice": allowed, "stream": streams}
    answer = respond(fresh_caller, model, **given)
    assert (answer.status, answer.headers["x-ignored-tools"]) == (200, "web_search_call, web_search, 1 more")
    sent = chat_upstream.requests[0].json
    assert ([tool["type"] for tool in sent["tools"]], sent["tool_choice"]) == (["function"], "none")
    assert sent.get("input", sent.get("messages")) == [hello]
    assert "x-ignored-tools" not in respond(fresh_caller, model, tools=[FUNCTION]).headers


FAULTS = {
    "by-chat": ("status:500", "close", "not-chat", "broken"),
    "by-responses": ("status:500", "not-chat", "garbage", "failed"),
}


@pytest.mark.parametrize("streams", [False, True])
def test_a_failure_before_the_first_event_refunds(fresh_caller: Caller, model: str, streams: bool) -> None:
    for fault in FAULTS[model]:
        answer = respond(fresh_caller, model, f"fault={fault}", stream=streams)
        assert answer.status == 500
        assert answer.json["error"]["type"] == "upstream_error"
    assert fresh_caller.stats() == Stats(calls=len(FAULTS[model]), cost=0, ok_calls=0)


def test_a_channel_with_the_endpoint_must_stream_a_stream(fresh_caller: Caller) -> None:
    """The upstream answers POST /responses with the JSON of a completion here."""
    answer = respond(fresh_caller, "by-responses", "fault=count", stream=True)
    assert answer.status == 500
    assert fresh_caller.stats() == REFUNDED


@pytest.mark.parametrize("fault", ["cut-stream", "no-end", "html-later", "failed-later"])
def test_a_stream_that_is_passed_on_and_breaks_ends_as_a_failed_response_and_is_refunded(
    fresh_caller: Caller, chat_upstream: Upstream, fault: str
) -> None:
    with stream(fresh_caller, "by-responses", f"fault={fault}") as reader:
        assert b'"response.created"' in reader.next_event()
        reader.rest()
    asked = [request for request in chat_upstream.requests if b"fault=" in request.body]  # others are probes
    assert [request.path for request in asked] == ["/v1/responses"]
    assert reader.ended and b"response.completed" not in reader.raw
    assert reader.events[-1].startswith(b"event: response.failed\n")
    created, *_, before, failed = reader.chunks
    assert (failed["type"], failed["sequence_number"]) == ("response.failed", before["sequence_number"] + 1)
    error = failed["response"].pop("error")
    assert error["code"] == "server_error" and "refunded" in error["message"]
    assert failed["response"] | {"error": None} == created["response"] | {"status": "failed"}
    assert b"/srv/upstream.py" not in reader.raw and b"<html" not in reader.raw
    assert fresh_caller.stats() == REFUNDED


@pytest.mark.parametrize("streams", [False, True])
def test_a_retry_gets_the_stored_response(fresh_caller: Caller, model: str, streams: bool) -> None:
    headers = {"Idempotency-Key": "one"}
    first = respond(fresh_caller, model, headers=headers, stream=streams)
    second = respond(fresh_caller, model, headers=headers, stream=streams)
    assert first.status == second.status == 200
    assert first.body == second.body
    assert fresh_caller.stats() == DELIVERED


@pytest.mark.parametrize("streams", [False, True])
def test_a_channel_without_the_endpoint_takes_over_from_one_that_has_it(
    service: Service, fresh_caller: Caller, chat_upstream: Upstream, upstream: Upstream, streams: bool
) -> None:
    upstream.behave("status:500")
    service.cli("channel", "add", "chat", "failing", upstream.url, "--responses", "yes", "--priority", "1")
    service.cli("channel", "add", "chat", "chats", chat_upstream.url, "--priority", "2")
    service.cli("route", "add", "mixed", "--channel", "failing", "--channel", "chats", "--units", "1")
    try:
        answer = respond(fresh_caller, "mixed", stream=streams)
    finally:
        service.cli("route", "remove", "mixed")
        service.cli("channel", "remove", "failing")
        service.cli("channel", "remove", "chats")
    assert answer.status == 200, answer
    assert b'"text":"hello"' in answer.body
    assert [request.path for request in upstream.requests + chat_upstream.requests] == [
        "/v1/responses",
        "/v1/chat/completions",
    ]
    assert fresh_caller.stats() == DELIVERED
