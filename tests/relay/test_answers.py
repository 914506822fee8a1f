"""Whole answers of channels: their checks, the usage that is counted, and their form as events."""

import json
import time
from typing import Any

import pytest

from myna.channels.channels import Channel
from myna.gateway.failover import FailedAttempt
from myna.gateway.relay import answers, responses
from myna.gateway.relay.answers import RequestSummary
from myna.gateway.relay.events import EventRelay
from myna.gateway.relay.v1 import first_choice
from myna.wire import completions
from myna.wire.body import CONTAINERS_MAX
from tests.rig.answers import event

SECRET = "sk-of-the-channel"
CHANNEL = Channel(kind="chat", name="up", url="http://127.0.0.1:1/v1", model="m", key=SECRET)
MESSAGE = {"role": "assistant", "content": "春眠 x"}
CHOICE = {"index": 0, "message": MESSAGE, "finish_reason": "stop"}
COMPLETION = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]}


def completed(answer: Any) -> Any:
    body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return json.loads(answers.completion(body, RequestSummary("gpt", 3), CHANNEL))


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"[]", "NoCompletion"),
        (b'{"choices"', "NoCompletion"),
        ({}, "NoChoices"),
        ({"choices": None}, "NoChoices"),
        ({"choices": []}, "NoChoices"),
        ({"choices": [None]}, "NoChoices"),
        ({"choices": [[]]}, "NoChoices"),
        ({"choices": [CHOICE, 1]}, "NoCompletion"),
        ({"choices": [CHOICE, None]}, "NoCompletion"),
        (COMPLETION | {"error": {"message": SECRET}}, "ErrorAnswer"),
        (COMPLETION | {"error": "no", "usage": {}}, "ErrorAnswer"),
        ({"choices": [CHOICE | {"error": {"code": 502}}], "usage": {}}, "ErrorAnswer"),
        (COMPLETION | {"object": "error"}, "ErrorAnswer"),
        (COMPLETION | {"base_resp": {"status_code": 1027}}, "ErrorAnswer"),
        (COMPLETION | {"choices": [CHOICE | {"finish_reason": "error"}], "usage": {}}, "ErrorAnswer"),
    ],
)
def test_an_answer_that_is_none_is_a_failed_attempt(answer: Any, kind: str) -> None:
    with pytest.raises(FailedAttempt) as failed:
        completed(answer)
    assert failed.value.kind == kind
    assert SECRET not in failed.value.detail + str(failed.value)
    if kind == "ErrorAnswer":
        with pytest.raises(FailedAttempt, match="the answer reports an error"):
            first_choice(json.dumps(answer).encode(), CHANNEL)


@pytest.mark.parametrize(
    ("response", "good"),
    [
        ({"output": []}, True),
        ({"output": [], "status": "completed", "error": None}, True),
        ({"output": [], "status": "incomplete"}, True),
        ({"output": [], "status": "incomplete", "error": {"code": "server_error"}}, False),
        ({"output": [], "error": {"message": SECRET}}, False),
        ({"output": [], "status": "failed"}, False),
        ({"output": [], "status": "cancelled"}, False),
        ({"output": [], "status": "queued"}, False),
        ({"status": "completed"}, False),
    ],
)
def test_a_response_has_ended_without_an_error(response: Any, good: bool) -> None:
    body = json.dumps(response).encode()
    if good:
        assert responses.validated(body, CHANNEL) == body
        return
    with pytest.raises(FailedAttempt) as failed:
        responses.validated(body, CHANNEL)
    assert SECRET not in failed.value.detail


@pytest.mark.parametrize(
    ("sent", "passed"),
    [
        (b'\xef\xbb\xbf{"output":[]}', {"output": []}),
        (b'{"output":[],"temperature":NaN}', {"output": [], "temperature": None}),
        (b'{"output":[{"text":"\\ud83d"}]}', {"output": [{"text": "\ud83d"}]}),
    ],
)
def test_a_response_that_strict_readers_refuse_is_passed_on_repaired(sent: bytes, passed: Any) -> None:
    repaired = responses.validated(sent, CHANNEL)
    assert json.loads(repaired) == passed
    assert not repaired.startswith(b"\xef") and b"NaN" not in repaired


@pytest.mark.parametrize("answer", [COMPLETION | {"error": None}, json.dumps(COMPLETION, indent=2).encode()])
def test_a_usage_is_counted_where_there_is_none(answer: Any) -> None:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert completed(answer)["usage"] == usage
    assert completed(COMPLETION | {"usage": None})["usage"] == usage
    assert completed(COMPLETION | {"usage": {}})["usage"] == usage
    assert completed(COMPLETION | {"usage": {"total_tokens": 9}})["usage"]["total_tokens"] == 9


def test_texts_and_contents_that_are_no_text_count_too() -> None:
    legacy = {"object": "text_completion", "choices": [{"text": "春"}, {"text": None}, {}]}
    assert completed(legacy)["usage"]["completion_tokens"] == 1
    parts = {"choices": [{"message": {"content": [{"text": "春"}]}}, {"message": None}]}
    assert completed(parts)["usage"]["completion_tokens"] == 1


def test_the_members_of_an_answer_stay_as_they_are() -> None:
    body = b'{"choices":[{"message":{"content":"x"}}],"more":1.50,"big":12345678901234567890123}'
    found = answers.completion(body, RequestSummary("gpt", 0), CHANNEL)
    assert b'"more":1.50' in found and b'"big":12345678901234567890123' in found


def test_what_typed_clients_need_is_filled_in() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    choices = [{"message": {"content": "x"}}, {"message": {"tool_calls": calls}, "finish_reason": ""}]
    called = {"role": "assistant", "content": None, "tool_calls": calls}
    found = completed({"choices": choices})
    assert found["id"].startswith("chatcmpl-") and abs(found["created"] - time.time()) < 60
    assert (found["object"], found["model"]) == ("chat.completion", "gpt")
    assert found["choices"] == [
        {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"},
        {"index": 1, "message": called, "finish_reason": "tool_calls"},
    ]
    whole = COMPLETION | {"model": "gpt", "usage": completions.counted_usage(1, 2)}
    assert completed(whole) == whole
    (choice,) = completed({"choices": [{"message": {"content": "x", "tool_calls": []}}]})["choices"]
    assert choice["finish_reason"] == "stop"
    assert completed({"choices": [{"text": "x"}]})["object"] == "text_completion"


def test_a_large_answer_is_counted_and_one_of_very_many_objects_is_not() -> None:
    large = {"choices": [{"message": {"content": "春" * 10**6}}]}
    assert completed(large)["usage"]["completion_tokens"] == 10**6
    many: Any = {"choices": [{}] * (CONTAINERS_MAX + 1)}
    assert "usage" not in completed(many)


def data_of(events: list[bytes]) -> list[Any]:
    assert all(one.startswith(b"data: {") and one.count(b"\n") == 2 for one in events)
    return [json.loads(one[len(b"data: ") :]) for one in events]


@pytest.mark.parametrize("indent", [None, 2])
def test_a_whole_answer_is_one_event_and_one_with_the_usage(indent: int | None) -> None:
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = MESSAGE | {"tool_calls": [call, call | {"index": 7}]}
    body = json.dumps(
        COMPLETION | {"choices": [CHOICE | {"message": message}], "usage": {"n": 1}}, indent=indent
    )
    only, usage = data_of(answers.as_events(body.encode(), with_usage=True))
    assert only["object"] == usage["object"] == "chat.completion.chunk"
    assert "usage" not in only and (usage["choices"], usage["usage"]) == ([], {"n": 1})
    delta = only["choices"][0]["delta"]
    assert [each["index"] for each in delta["tool_calls"]] == [0, 7]
    assert delta["content"] == MESSAGE["content"] and "message" not in only["choices"][0]
    assert len(answers.as_events(body.encode(), with_usage=False)) == 1


@pytest.mark.parametrize("message", [None, "text", {}])
def test_a_message_without_content_is_an_empty_delta(message: Any) -> None:
    body = json.dumps({"choices": [CHOICE | {"message": message}]}).encode()
    (only,) = data_of(answers.as_events(body, with_usage=False))
    assert only["choices"][0]["delta"] == {}


def test_a_legacy_completion_keeps_its_shape() -> None:
    body = json.dumps({"object": "text_completion", "choices": [{"text": "x"}]}).encode()
    (only,) = data_of(answers.as_events(body, with_usage=True))
    assert (only["object"], only["choices"]) == ("text_completion", [{"text": "x"}])


@pytest.mark.parametrize("kind", ["chat.completion.chunk", "text_completion"])
def test_the_counted_usage_of_a_stream_has_the_shape_of_its_chunks(kind: str) -> None:
    relay = EventRelay(model=b'"gpt"', prompt_tokens=3)
    part = {"text": "春"} if kind == "text_completion" else {"delta": {"content": "春"}}
    relay.feed(event({"id": "1", "created": 7, "object": kind, "choices": [part]}))
    counted, done = relay.ending().split(b"\n\n")[:2]
    assert done == b"data: [DONE]"
    about = {"id": "1", "created": 7, "object": kind, "model": "gpt", "choices": []}
    usage = {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4}
    assert json.loads(counted.removeprefix(b"data: ")) == {**about, "usage": usage}
