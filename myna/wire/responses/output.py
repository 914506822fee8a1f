"""Members and output items of a response, whole or streamed."""

import re
from typing import Any, Literal

from myna.wire.responses.tools import Called, to_input

Status = Literal["in_progress", "completed", "incomplete"]
PartKind = Literal["output_text", "refusal", "reasoning_text"]
IdKind = Literal["msg", "rs", "fc", "ctc", "call"]

ID_PREFIX = "resp_"
_ITEM_ID = re.compile(r"(?:msg|fc|ctc)_([0-9a-f]{32})_([0-9]{1,6})")
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Finish reasons of a chat whose answer is not complete."""


def request_members(request: dict[str, Any], response_id: str, created_at: int) -> dict[str, Any]:
    """The members of a response that are known before the answer. `request` is the valid body."""
    reasoning = request.get("reasoning") or {}
    text = request.get("text") or {}
    parallel = request.get("parallel_tool_calls")
    return {
        "id": response_id,
        "object": "response",
        "created_at": created_at,
        "background": False,
        "frequency_penalty": _number(request.get("frequency_penalty"), 0),
        "instructions": request.get("instructions"),
        "max_output_tokens": request.get("max_output_tokens"),
        "max_tool_calls": request.get("max_tool_calls"),
        "metadata": request.get("metadata") or {},
        "model": request["model"],
        "parallel_tool_calls": parallel if parallel is not None else True,
        "presence_penalty": _number(request.get("presence_penalty"), 0),
        "previous_response_id": request.get("previous_response_id"),
        "prompt_cache_key": request.get("prompt_cache_key"),
        "reasoning": {"effort": reasoning.get("effort"), "summary": None},
        "safety_identifier": request.get("safety_identifier"),
        "service_tier": "default",
        "store": request.get("store") or False,
        "temperature": _number(request.get("temperature"), 1),
        "text": {name: value for name, value in text.items() if value is not None}
        | {"format": text.get("format") or {"type": "text"}},
        "tool_choice": request.get("tool_choice") or "auto",
        "tools": [_tool(tool) for tool in request.get("tools") or []],
        "top_logprobs": request.get("top_logprobs") or 0,
        "top_p": _number(request.get("top_p"), 1),
        "truncation": "disabled",
        "user": request.get("user"),
    }


def answer_members(status: str, output: list[Any], usage: dict[str, Any] | None) -> dict[str, Any]:
    """The other members, which the answer changes. `status` is the response's."""
    return {
        "status": status,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        "output": output,
        "usage": usage and _usage(usage),
    }


def ended_members(
    finish_reason: str | None, output: list[Any], usage: dict[str, Any] | None, ended_at: int
) -> dict[str, Any]:
    """The members of an answer that has ended. `ended_at` in Unix seconds."""
    members = answer_members(status_of(finish_reason), output, usage)
    if finish_reason in _INCOMPLETE:
        members["incomplete_details"] = {"reason": _INCOMPLETE[finish_reason]}
    else:
        members["completed_at"] = ended_at
    return members


def status_of(finish_reason: str | None) -> Status:
    """The status of a response, or of its last item, whose chat ended for this reason."""
    return "incomplete" if finish_reason in _INCOMPLETE else "completed"


def _usage(usage: dict[str, Any]) -> dict[str, Any]:
    """The usage of a response, from that of a chat."""
    prompt = usage.get("prompt_tokens_details") or {}
    completion = usage.get("completion_tokens_details") or {}
    return {
        "input_tokens": usage["prompt_tokens"],
        "input_tokens_details": {
            "cached_tokens": prompt.get("cached_tokens") or 0,
            "cache_write_tokens": prompt.get("cache_write_tokens") or 0,
        },
        "output_tokens": usage["completion_tokens"],
        "output_tokens_details": {"reasoning_tokens": completion.get("reasoning_tokens") or 0},
        "total_tokens": usage["prompt_tokens"] + usage["completion_tokens"],
    }


def part(kind: PartKind, text: str, logprobs: Any = ()) -> dict[str, Any]:
    """A part of an item's content."""
    match kind:
        case "output_text":
            return {"type": kind, "text": text, "annotations": [], "logprobs": logprobs}
        case "refusal":
            return {"type": kind, "refusal": text}
        case "reasoning_text":
            return {"type": kind, "text": text}


def message(item_id: str, parts: list[Any], status: Status) -> dict[str, Any]:
    """A message of the assistant."""
    return {"id": item_id, "type": "message", "role": "assistant", "status": status, "content": parts}


def reasoning(item_id: str, parts: list[Any], status: Status) -> dict[str, Any]:
    """What the model thought before it answered."""
    return {"id": item_id, "type": "reasoning", "summary": [], "status": status, "content": parts}


def call(item_id: str, call_id: str, called: Called, arguments: str, status: Status) -> dict[str, Any]:
    """A call of a function or a custom tool. `arguments` is JSON."""
    custom = called.kind == "custom"
    return {
        "id": item_id,
        "type": "custom_tool_call" if custom else "function_call",
        "status": status,
        "call_id": call_id,
        "name": called.name,
        **({} if called.namespace is None else {"namespace": called.namespace}),
        **({"input": to_input(arguments)} if custom else {"arguments": arguments}),
    }


def _number(given: float | None, default: float) -> float:
    """What was given, or OpenAI's default: a response has numbers where a request need not."""
    return default if given is None else given


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    """A tool of the request, with the members that a function has in a response."""
    if tool["type"] != "function":
        return tool
    return {"description": None, "parameters": None, "strict": None, **tool}


def item_id(kind: IdKind, response_id: str, place: int) -> str:
    """The id of the item at this place of a response's output; `call` is for a call without an id."""
    return f"{kind}_{response_id.removeprefix(ID_PREFIX)}_{place}"


def response_and_place(item_id: str) -> tuple[str, int] | None:
    """The response and the place in its output for the id of a message or a call."""
    match = _ITEM_ID.fullmatch(item_id)
    return (ID_PREFIX + match[1], int(match[2])) if match else None
