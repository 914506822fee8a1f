"""A chat completion becomes a response that openai-python's types accept."""

from typing import Any

import pytest
from openai.types.responses import Response

from myna.wire.responses.events import UnusableAnswer
from tests.wire.responses.stream import (
    CREATED_AT,
    ENDED_AT,
    REQUEST,
    function_call,
    message,
    output_text,
    response_to,
)

CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Oslo"}'}}


def response(
    said: dict[str, Any], finish_reason: str | None = "stop", request: dict[str, Any] = REQUEST, **more: Any
) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **said}, "finish_reason": finish_reason}
    translated = response_to({"choices": [choice], **more}, request)
    Response.model_validate(translated)
    return translated


def test_a_text_becomes_a_message() -> None:
    translated = response({"content": "Hello!"})
    assert translated == {
        **dict.fromkeys(("error", "incomplete_details", "usage", "user", "max_tool_calls")),
        **dict.fromkeys(("previous_response_id", "prompt_cache_key", "safety_identifier")),
        "id": "resp_abc",
        "object": "response",
        "created_at": CREATED_AT,
        "completed_at": ENDED_AT,
        "status": "completed",
        "background": False,
        "frequency_penalty": 0,
        "instructions": "Be brief.",
        "max_output_tokens": 50,
        "metadata": {"a": "b"},
        "model": "svc-chat",
        "output": [message("msg_abc_0", output_text("Hello!"))],
        "parallel_tool_calls": True,
        "presence_penalty": 0,
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": False,
        "temperature": 1,
        "text": {"format": {"type": "text"}},
        "tool_choice": "auto",
        "tools": [{"description": None, **REQUEST["tools"][0]}],
        "top_logprobs": 0,
        "top_p": 1,
        "truncation": "disabled",
    }
    assert Response.model_validate(translated).output_text == "Hello!"


def test_reasoning_a_text_a_refusal_and_calls_become_items_in_this_order() -> None:
    calls = [CALL, {"type": "function", "function": {"name": "now", "arguments": "{}"}}]
    said = {"content": "Let me look.", "refusal": "Not there.", "reasoning_content": "Hm."}
    thought = [{"type": "reasoning_text", "text": "Hm."}]
    assert response(said | {"tool_calls": calls}, "tool_calls")["output"] == [
        {"id": "rs_abc_0", "type": "reasoning", "summary": [], "status": "completed", "content": thought},
        message("msg_abc_1", output_text("Let me look."), {"type": "refusal", "refusal": "Not there."}),
        function_call("fc_abc_2", "call_1", "weather", '{"city":"Oslo"}'),
        function_call("fc_abc_3", "call_abc_3", "now", "{}"),
    ]


def test_reasoning_may_have_either_of_its_two_names() -> None:
    assert response({"reasoning": "Hm."}) == response({"reasoning_content": "Hm."})


def test_an_empty_answer_has_no_items() -> None:
    assert response({"content": ""}, "length")["output"] == []
    assert response({"content": None})["output"] == []


@pytest.mark.parametrize(
    ("finish_reason", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        (None, "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_finish_reasons_become_a_status(finish_reason: str | None, status: str, reason: str | None) -> None:
    translated = response({"content": "Hello", "reasoning_content": "Hm."}, finish_reason)
    assert translated["status"] == status
    assert translated["incomplete_details"] == (reason and {"reason": reason})
    assert [item["status"] for item in translated["output"]] == ["completed", status]


def test_usage_is_renamed() -> None:
    usage = {
        "prompt_tokens": 11,
        "completion_tokens": 22,
        "total_tokens": 33,
        "prompt_tokens_details": {"cached_tokens": 5, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 7},
    }
    assert response({"content": "Hello!"}, usage=usage)["usage"] == {
        "input_tokens": 11,
        "input_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 0},
        "output_tokens": 22,
        "output_tokens_details": {"reasoning_tokens": 7},
        "total_tokens": 33,
    }


def test_the_response_repeats_the_request() -> None:
    given = {
        "model": "svc-chat",
        "input": "hello",
        "instructions": None,
        "frequency_penalty": -1,
        "max_tool_calls": 3,
        "parallel_tool_calls": False,
        "presence_penalty": 0.5,
        "prompt_cache_key": "k",
        "safety_identifier": "s",
        "reasoning": {"effort": "low"},
        "temperature": 0,
        "text": {"format": {"type": "json_object"}, "verbosity": "low"},
        "tool_choice": {"type": "function", "name": "weather"},
        "tools": [{"type": "function", "name": "weather"}],
        "top_p": 0.5,
        "user": "u",
    }
    translated = response({"content": "Hello!"}, request=given)
    same = given.keys() - {"input", "reasoning", "tools"}
    assert {name: translated[name] for name in same} == {name: given[name] for name in same}
    assert translated["reasoning"] == {"effort": "low", "summary": None}
    assert translated["tools"] == [
        {"type": "function", "name": "weather", "description": None, "parameters": None, "strict": None}
    ]


@pytest.mark.parametrize(
    "completion",
    [
        {},
        {"choices": []},
        {"choices": [{"index": 0, "finish_reason": "stop"}]},
        {"choices": [{"message": {"content": 17}}]},
        {"choices": "x"},
        {"error": {"message": "no"}},
    ],
)
def test_another_answer_is_unusable(completion: dict[str, Any]) -> None:
    with pytest.raises(UnusableAnswer):
        response_to(completion)
