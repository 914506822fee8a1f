"""Responses and events have the members that Open Responses requires, of its types.

Source: `schema/openapi.json` of github.com/openresponses/openresponses, whose compliance suite checks them.
"""

import re
from typing import Any

import pytest

from myna.wire.responses.events import ResponseEvents
from tests.wire.responses.stream import CREATED_AT, ENDED_AT, RESPONSE_ID, chunk, parsed, response_to, usage

# A name of a type, or several; "?" after it: or null; "[…]": an array of it.
TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": dict,
    "any": object,
}
SHAPES: dict[str, dict[str, str]] = {
    "Response": {
        "id": "string", "object": "string", "created_at": "integer", "completed_at": "integer?",
        "status": "string", "incomplete_details": "object?", "model": "string",
        "previous_response_id": "string?", "instructions": "string?", "output": "[Item]", "error": "Error?",
        "tools": "[FunctionTool]", "tool_choice": "any", "truncation": "string",
        "parallel_tool_calls": "boolean", "text": "Text", "top_p": "number", "presence_penalty": "number",
        "frequency_penalty": "number", "top_logprobs": "integer", "temperature": "number",
        "reasoning": "Reasoning?", "usage": "Usage?", "max_output_tokens": "integer?",
        "max_tool_calls": "integer?", "store": "boolean", "background": "boolean", "service_tier": "string",
        "metadata": "object", "safety_identifier": "string?", "prompt_cache_key": "string?",
    },
    "message": {"id": "string", "status": "string", "role": "string", "content": "[Part]"},
    "function_call": {
        "id": "string", "call_id": "string", "name": "string", "arguments": "string", "status": "string",
    },
    "reasoning": {"id": "string", "summary": "[any]"},
    "output_text": {"text": "string", "annotations": "[any]"},
    "refusal": {"refusal": "string"},
    "reasoning_text": {"text": "string"},
    "Error": {"code": "string", "message": "string"},
    "FunctionTool": {
        "type": "string", "name": "string", "description": "string?", "parameters": "object?",
        "strict": "boolean?",
    },
    "Text": {"format": "object"},
    "Reasoning": {"effort": "string?", "summary": "string?"},
    "Usage": {
        "input_tokens": "integer", "output_tokens": "integer", "total_tokens": "integer",
        "input_tokens_details": "object", "output_tokens_details": "object",
    },
}  # fmt: skip
EVENTS: dict[str, dict[str, str]] = {
    "response.(created|in_progress|completed|incomplete|failed)": {"response": "Response"},
    "response.output_item.(added|done)": {"output_index": "integer", "item": "Item"},
    "response.content_part.(added|done)": {
        "item_id": "string", "output_index": "integer", "content_index": "integer", "part": "Part",
    },
    "response.(output_text|refusal|reasoning_text).delta": {
        "item_id": "string", "output_index": "integer", "content_index": "integer", "delta": "string",
    },
    "response.(output_text|reasoning_text).done": {
        "item_id": "string", "output_index": "integer", "content_index": "integer", "text": "string",
    },
    "response.refusal.done": {"item_id": "string", "content_index": "integer", "refusal": "string"},
    "response.function_call_arguments.delta": {
        "item_id": "string", "output_index": "integer", "delta": "string",
    },
    "response.function_call_arguments.done": {
        "item_id": "string", "output_index": "integer", "arguments": "string",
    },
}  # fmt: skip


def check(value: Any, kind: str, path: str) -> None:
    if kind.endswith("?"):
        if value is not None:
            check(value, kind[:-1], path)
    elif kind.startswith("["):
        assert isinstance(value, list), path
        for number, each in enumerate(value):
            check(each, kind[1:-1], f"{path}[{number}]")
    elif kind in TYPES:
        is_bool = isinstance(value, bool) and kind in ("integer", "number")
        assert isinstance(value, TYPES[kind]) and not is_bool, f"{path} is {value!r}"
    else:
        shape = SHAPES[value["type"] if kind in ("Item", "Part") else kind]
        assert shape.keys() <= value.keys(), f"{path} has no {shape.keys() - value.keys()}"
        for name, of_member in shape.items():
            check(value[name], of_member, f"{path}.{name}")


CALL = {"index": 0, "id": "call_1", "function": {"name": "weather", "arguments": "{}"}}
MESSAGE = {"content": "Hello!", "reasoning_content": "Hm.", "refusal": "no", "tool_calls": [CALL]}
REQUESTS: list[dict[str, Any]] = [
    {"model": "m", "input": "hello"},
    {
        "model": "m",
        "input": "hello",
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "weather"}],
        "tool_choice": "auto",
        "parallel_tool_calls": None,
        "text": {"format": None, "verbosity": None},
        "reasoning": {"summary": "auto"},
        "temperature": 0.5,
        "top_p": None,
        "presence_penalty": 1,
        "metadata": None,
        "prompt_cache_key": "k",
        "service_tier": "auto",
        "top_logprobs": 3,
    },
]
REASONS = ["stop", "length"]


@pytest.mark.parametrize("reason", REASONS)
@pytest.mark.parametrize("request_of", REQUESTS)
def test_a_whole_response(request_of: dict[str, Any], reason: str) -> None:
    choice = {"message": MESSAGE, "finish_reason": reason}
    completion = {"choices": [choice]} | {"usage": usage(11, 22)["usage"]}
    response = response_to(completion, request_of)
    check(response, "Response", "response")
    assert response["completed_at"] == (ENDED_AT if reason == "stop" else None)


@pytest.mark.parametrize("reason", [*REASONS, "failed"])
@pytest.mark.parametrize("request_of", REQUESTS)
def test_each_event(request_of: dict[str, Any], reason: str) -> None:
    events = ResponseEvents(request_of, RESPONSE_ID, CREATED_AT, answer_max_bytes=10_000)
    sent = [event for name, value in MESSAGE.items() for event in events.feed(chunk(**{name: value}))]
    if reason == "failed":
        sent.append(events.failed("The channel broke the stream."))
    else:
        sent += [*events.feed(chunk(reason)), *events.feed(usage(11, 22)), *events.finish(ENDED_AT)]
    for event in parsed(b"".join(sent)):
        (shape,) = [shape for kinds, shape in EVENTS.items() if re.fullmatch(kinds, event["type"])]
        assert shape.keys() <= event.keys(), event
        for name, kind in shape.items():
            check(event[name], kind, f"{event['type']}.{name}")
    assert event["type"] == {"stop": "response.completed", "length": "response.incomplete"}.get(
        reason, "response.failed"
    )
