"""Answers of the upstream that depend on the request: completions, calls of its tools, embeddings, and those
of POST /responses."""

import base64
import json
import struct
from typing import Any

from tests.rig.event_streams import DONE, USAGE, chunk, event

JSON = "application/json"
EVENTS = "text/event-stream"
RESPONSE_ID = "resp_of_the_upstream"
RESPONSE_USAGE = {
    "input_tokens": 11,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 22,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 33,
}


def tool_answer(request: dict[str, Any], arguments: str) -> tuple[bytes, str]:
    """A call of the first tool of a chat. After the tool's output: that output as the answer. Returns the
    body and its media type."""
    *_, last = request["messages"]
    finish = "stop" if last["role"] == "tool" else "tool_calls"
    if last["role"] == "tool":
        message: dict[str, Any] = {"role": "assistant", "content": last["content"]}
    else:
        function = {"name": request["tools"][0]["function"]["name"], "arguments": arguments}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    if request.get("stream"):
        model = request["model"]
        usage = event(chunk(model, {}) | {"choices": [], "usage": USAGE})
        parts = [event(chunk(model, message)), event(chunk(model, {}, finish)), usage, DONE]
        return b"".join(parts), EVENTS
    choice = {"index": 0, "message": message, "finish_reason": finish}
    completion = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": request["model"]}
    return json.dumps({**completion, "choices": [choice], "usage": USAGE}).encode(), JSON


def completion(
    request: dict[str, Any], content: Any, finish_reason: str = "stop", *, usage: bool = True
) -> dict[str, Any]:
    """A whole completion, of a chat or of a prompt, with its usage or without."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": finish_reason, "logprobs": None}
    answer: dict[str, Any] = {"created": 1, "model": request.get("model", "")}
    if usage:
        answer["usage"] = USAGE
    if "prompt" in request:
        return {
            "id": "cmpl-1",
            "object": "text_completion",
            **answer,
            "choices": [{**choice, "text": content}],
        }
    choice["message"] = {"role": "assistant", "content": content}
    return {
        "id": "chatcmpl-of-the-upstream",
        "object": "chat.completion",
        **answer,
        "system_fingerprint": "fp_upstream",
        "choices": [choice],
    }


def embeddings(request: dict[str, Any], numbers: int = 0) -> dict[str, Any]:
    """A vector for each text, or for the one list of tokens, as floats or in base64: of so many zeros, or of
    three numbers."""
    given = request["input"]
    count = len(given) if isinstance(given, list) and not isinstance(given[0], int) else 1
    vector: Any = [0.0] * numbers or [0.25, -0.5, 1.0]
    if request.get("encoding_format") == "base64":
        vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    data = [{"object": "embedding", "index": index, "embedding": vector} for index in range(count)]
    usage = {"prompt_tokens": 8, "total_tokens": 8}
    return {"object": "list", "model": request["model"], "data": data, "usage": usage}


def response_answer(
    request: dict[str, Any], text: str, status: str = "completed", *, named: bool = True
) -> tuple[bytes, str]:
    """A response that says the text, whole or as `response_events`."""
    if request.get("stream"):
        return b"".join(response_events(request, text, status, named=named)), EVENTS
    return json.dumps(_response(request, text, status)).encode(), JSON


def response_events(
    request: dict[str, Any], text: str, status: str = "completed", *, named: bool = True
) -> list[bytes]:
    """The events that are needed to know a response that says the text. Those that are not `named` have their
    name in the JSON alone, at its end."""
    whole = _response(request, text, status)
    (item,) = whole["output"]
    (part,) = item["content"]
    begun = {**whole, "status": "in_progress", "output": [], "usage": None, "error": None}
    at = {"item_id": "msg_1", "output_index": 0}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **at, "content_index": 0, "part": {**part, "text": ""}},
        {"type": "response.output_text.delta", **at, "content_index": 0, "delta": text, "logprobs": []},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": f"response.{status}", "response": whole},
    ]
    numbered = [{**each, "sequence_number": number} for number, each in enumerate(events)]
    if not named:
        return [event({**each, "type": each.pop("type")}) for each in numbered]
    return [b"event: %b\n" % each["type"].encode() + event(each) for each in numbered]


def _response(request: dict[str, Any], text: str, status: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    return {
        "id": RESPONSE_ID,
        "object": "response",
        "created_at": 1,
        "status": status,
        "error": {"code": "server_error", "message": "at /srv/upstream.py"} if status == "failed" else None,
        "incomplete_details": None,
        "model": request["model"],
        "output": [item],
        "parallel_tool_calls": True,
        "store": request.get("store", True),
        "tool_choice": "auto",
        "tools": [],
        "usage": RESPONSE_USAGE,
    }
