"""Reads the events of a streamed response, as bytes or by openai-python."""

import json
from collections.abc import Iterable
from typing import Any

import httpx2
import openai
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from myna.wire.responses.events import ResponseEvents, to_response

REQUEST: dict[str, Any] = {
    "model": "svc-chat",
    "input": "hello",
    "instructions": "Be brief.",
    "tools": [{"type": "function", "name": "weather", "parameters": {"type": "object"}, "strict": True}],
    "max_output_tokens": 50,
    "metadata": {"a": "b"},
    "stream": True,
}
RESPONSE_ID = "resp_abc"
CREATED_AT = 1_700_000_000
ENDED_AT = CREATED_AT + 5
_event = TypeAdapter[Any](ResponseStreamEvent)


def translator(answer_max_bytes: int = 2_000_000) -> ResponseEvents:
    return ResponseEvents(REQUEST, RESPONSE_ID, CREATED_AT, answer_max_bytes=answer_max_bytes)


def response_to(completion: dict[str, Any], request: dict[str, Any] = REQUEST) -> dict[str, Any]:
    """The response that is made from a whole completion."""
    found: dict[str, Any] = json.loads(to_response(completion, request, RESPONSE_ID, CREATED_AT, ENDED_AT))
    return found


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
    }


def usage(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    counts = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    return {"choices": [], "usage": counts | more}


def output_text(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def message(item_id: str, *content: dict[str, Any], status: str = "completed") -> dict[str, Any]:
    """An item with what the assistant says."""
    item = {"id": item_id, "type": "message", "role": "assistant", "status": status}
    return item | {"content": list(content)}


def function_call(item_id: str, call_id: str, name: str, arguments: str) -> dict[str, Any]:
    item = {"id": item_id, "type": "function_call", "status": "completed"}
    return item | {"call_id": call_id, "name": name, "arguments": arguments}


def translated(chunks: Iterable[dict[str, Any]]) -> bytes:
    """The whole stream."""
    events = translator()
    return b"".join([*(event for chunk in chunks for event in events.feed(chunk)), *events.finish(ENDED_AT)])


def parsed(stream: bytes) -> list[dict[str, Any]]:
    """Each event's data, once its form and its number are checked and openai-python's types accept it."""
    found = []
    for number, event in enumerate(stream.decode().split("\n\n")[:-1]):
        head, data = event.split("\n")
        fields = json.loads(data.removeprefix("data: "))
        assert head == f"event: {fields['type']}"
        assert fields["sequence_number"] == number
        _event.validate_python(fields)
        found.append(fields)
    return found


def accumulated(stream: bytes) -> tuple[list[Any], Response]:
    """The events and the final response as openai-python's client accumulates them."""
    answer = httpx2.Response(200, headers={"content-type": "text/event-stream"}, content=stream)
    http_client = httpx2.Client(transport=httpx2.MockTransport(lambda request: answer))
    with (
        openai.OpenAI(base_url="http://localhost", api_key="k", http_client=http_client) as client,
        client.responses.stream(model="svc-chat", input="hello") as events,
    ):
        return list(events), events.get_final_response()
