"""A chat completion as a response."""

from typing import Any

from myna.wire.responses import output
from myna.wire.responses.completion import ChatMessage, UnusableAnswer, read
from myna.wire.responses.tools import Tools


def to_response(
    completion: dict[str, Any], request: dict[str, Any], response_id: str, created_at: int, ended_at: int
) -> dict[str, Any]:
    """The response to a valid request, from the first choice of a completion. Times in Unix seconds.

    Raises UnusableAnswer.
    """
    decoded = read(completion)
    choice = decoded.choices[0] if decoded.choices else None
    if choice is None or choice.message is None:
        raise UnusableAnswer("the answer has no choices with a message")
    items = _items(choice.message, Tools(request.get("tools") or []), output.ItemIds(response_id))
    if items:
        items[-1]["status"] = output.status_of(choice.finish_reason)
    return output.request_members(request, response_id, created_at) | output.ended_members(
        choice.finish_reason, items, decoded.usage, ended_at
    )


def _items(message: ChatMessage, tools: Tools, ids: output.ItemIds) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if message.reasoning:
        parts = [output.part("reasoning_text", message.reasoning)]
        items.append(output.reasoning(ids.reasoning(len(items)), parts, "completed"))
    parts = [output.part("output_text", message.content, message.logprobs)] if message.content else []
    if message.refusal:
        parts.append(output.part("refusal", message.refusal))
    if parts:
        items.append(output.message(ids.message(len(items)), parts, "completed"))
    for call in message.tool_calls:
        place = len(items)
        called, call_id = tools.called(call.name), call.id or ids.call(place)
        item_id = ids.tool_call(place, called.kind)
        items.append(output.call(item_id, call_id, called, call.arguments, "completed"))
    return items
