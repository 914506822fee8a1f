"""A chat completion as a response."""

from typing import Any

from myna.wire.responses import output
from myna.wire.responses.completion import ChatMessage, UnusableAnswer, read


def to_response(
    completion: dict[str, Any], request: dict[str, Any], response_id: str, created_at: int
) -> dict[str, Any]:
    """The response to a valid request, from the first choice of a completion. `created_at` in Unix seconds.

    Raises UnusableAnswer.
    """
    decoded = read(completion)
    choice = decoded.choices[0] if decoded.choices else None
    if choice is None or choice.message is None:
        raise UnusableAnswer("the answer has no choices with a message")
    items = _items(choice.message, output.ItemIds(response_id))
    if items:
        items[-1]["status"] = output.status_of(choice.finish_reason)
    return output.request_members(request, response_id, created_at) | output.ended_members(
        choice.finish_reason, items, decoded.usage
    )


def _items(message: ChatMessage, ids: output.ItemIds) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if message.reasoning:
        parts = [output.part("reasoning_text", message.reasoning)]
        items.append(output.reasoning(ids.reasoning(len(items)), parts, "completed"))
    parts = [output.part("output_text", message.content)] if message.content else []
    if message.refusal:
        parts.append(output.part("refusal", message.refusal))
    if parts:
        items.append(output.message(ids.message(len(items)), parts, "completed"))
    for call in message.tool_calls:
        place = len(items)
        item_id, call_id = ids.function_call(place), call.id or ids.call(place)
        items.append(output.function_call(item_id, call_id, call.name, call.arguments, "completed"))
    return items
