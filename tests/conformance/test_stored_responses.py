"""Responses that a site keeps: continued, referred to, read and deleted by their own account only."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.conformance.caller import Caller, Stats
from tests.conformance.conftest import CallerMaker
from tests.conformance.test_responses import PATH, respond, said
from tests.rig.calls import Answer, call
from tests.rig.service import Service
from tests.rig.upstream import Upstream

FIRST = {"role": "user", "content": "hello"}
ANSWERED = {"role": "assistant", "content": "hello"}
SECOND = {"role": "user", "content": "more"}


@pytest.fixture(scope="module", autouse=True)
def keeping(service: Service, session_upstream: Upstream) -> Iterator[None]:
    """The channel has the endpoint, but what is stored is a chat for it."""
    service.cli("channel", "add", "chat", "responder", session_upstream.url, "--responses", "yes")
    service.cli("route", "add", "kept", "--channel", "responder", "--units", "1")
    service.cli("settings", "set", "responses_keep_days", "1")
    yield
    service.cli("settings", "set", "responses_keep_days", "0")
    service.cli("route", "remove", "kept")
    service.cli("channel", "remove", "responder")


def ask(caller: Caller, text: Any = "hello", **fields: Any) -> Any:
    answer = respond(caller, "kept", text, **fields)
    assert answer.status == 200, answer
    return last_event(answer)["response"] if fields.get("stream") else answer.json


def last_event(answer: Answer) -> Any:
    return json.loads(answer.body.rpartition(b"\ndata: ")[2])


def at(caller: Caller, method: str, response_id: str) -> Answer:
    return call(method, f"{caller.service.root_url}{PATH}/{response_id}", key=caller.key.plain)


@pytest.mark.parametrize("streams", [False, True])
def test_a_response_is_stored_and_continued(
    fresh_caller: Caller, chat_upstream: Upstream, streams: bool
) -> None:
    first = ask(fresh_caller, stream=streams)
    assert (first["store"], first["previous_response_id"]) == (True, None)
    second = ask(fresh_caller, "more", stream=streams, previous_response_id=first["id"])
    assert (second["store"], second["previous_response_id"]) == (True, first["id"])
    third = ask(fresh_caller, "more", stream=streams, previous_response_id=second["id"], store=False)
    assert third["store"] is False
    assert chat_upstream.requests[-1].path.endswith("/chat/completions")
    assert [request.json["messages"] for request in chat_upstream.requests] == [
        [FIRST],
        [FIRST, ANSWERED, SECOND],
        [FIRST, ANSWERED, SECOND, {"role": "assistant", "content": "more"}, SECOND],
    ]
    assert at(fresh_caller, "GET", first["id"]).json == first
    assert at(fresh_caller, "GET", third["id"]).status == 404
    assert fresh_caller.stats() == Stats(calls=3, cost=3, ok_calls=3)


def test_a_reference_is_replaced_by_its_item(fresh_caller: Caller, chat_upstream: Upstream) -> None:
    """The AI SDK refers to what was answered, and does not continue a response."""
    (item,) = ask(fresh_caller)["output"]
    reference = {"type": "item_reference", "id": item["id"]}
    items = [FIRST, reference, {"type": "item_reference", "id": "rs_1"}, SECOND]
    assert said(ask(fresh_caller, items)) == "more"
    assert chat_upstream.requests[-1].json["messages"] == [FIRST, ANSWERED, SECOND]
    unknown = reference | {"id": f"msg_{'0' * 32}_0"}
    refused = respond(fresh_caller, "kept", [unknown])
    assert (refused.status, refused.json["error"]["param"]) == (400, "input[0]")


def test_a_request_that_stores_nothing_is_passed_on(fresh_caller: Caller, chat_upstream: Upstream) -> None:
    assert ask(fresh_caller, store=False)["store"] is not True
    assert chat_upstream.requests[-1].path.endswith("/responses")


def test_no_other_account_reaches_a_response(
    fresh_caller: Caller, new_caller: CallerMaker, chat_upstream: Upstream
) -> None:
    other = new_caller()
    stored = ask(fresh_caller)
    assert at(other, "GET", stored["id"]).status == at(other, "DELETE", stored["id"]).status == 404
    for fields in ({"previous_response_id": stored["id"]}, {"previous_response_id": "resp_1"}):
        refused = respond(other, "kept", **fields)
        error = refused.json["error"]
        assert (refused.status, error["code"]) == (400, "previous_response_not_found")
        assert error["param"] == "previous_response_id"
    referring = [FIRST, {"type": "item_reference", "id": stored["output"][0]["id"]}]
    assert respond(other, "kept", referring).status == 400
    assert len(chat_upstream.requests) == 1
    assert at(fresh_caller, "GET", stored["id"]).status == 200


def test_a_deleted_response_can_be_neither_read_nor_continued(fresh_caller: Caller) -> None:
    first = ask(fresh_caller)
    second = ask(fresh_caller, previous_response_id=first["id"])
    deleted = {"id": first["id"], "object": "response", "deleted": True}
    assert at(fresh_caller, "DELETE", first["id"]).json == deleted
    gone = at(fresh_caller, "GET", first["id"])
    assert (gone.status, gone.json["error"]["type"]) == (404, "not_found_error")
    assert at(fresh_caller, "DELETE", first["id"]).status == 404
    refused = respond(fresh_caller, "kept", previous_response_id=second["id"])
    assert first["id"] in refused.json["error"]["message"]
    assert call("GET", f"{fresh_caller.service.root_url}{PATH}/{second['id']}").status == 401


def test_a_failed_answer_is_not_stored(fresh_caller: Caller) -> None:
    answer = respond(fresh_caller, "kept", "fault=error-later", stream=True)
    failed = last_event(answer)
    assert failed["type"] == "response.failed"
    assert at(fresh_caller, "GET", failed["response"]["id"]).status == 404
