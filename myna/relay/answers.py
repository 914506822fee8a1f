"""Whole answers of channels: their checks, the usage that a channel left out, and an answer as a stream."""

import time
from typing import Any, Final

import msgspec
from msgspec import Struct

from myna.chat.failover import FailedAttempt
from myna.chat.han import han_count
from myna.ids import new_name
from myna.wire.body import has_too_many_containers
from myna.wire.openai import Usage

COMPLETION_ID: Final = "chatcmpl-"
WRAPPED_MAX_BYTES: Final = 2**20
"""The longest answer that is sent as a stream in one event. A longer one would take long to decode."""


class _Listed(Struct):
    """An answer with choices or data. Only the array's first element is looked at."""

    choices: msgspec.Raw = msgspec.Raw(b"")
    data: msgspec.Raw = msgspec.Raw(b"")
    usage: msgspec.Raw = msgspec.Raw(b"null")


_listed = msgspec.json.Decoder(_Listed)
_object = msgspec.json.Decoder(dict[str, Any])
_encode = msgspec.json.Encoder().encode


def checked(body: bytes, list_name: str, prompt_tokens: int | None) -> bytes:
    """The answer of a channel: an object with a list that is not empty, `choices` or `data`. If it has no
    usage, and `prompt_tokens` is given, the usage is counted. Raises FailedAttempt."""
    try:
        answer = _listed.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FailedAttempt("NoCompletion", "the answer is not what was asked for", f": {error}") from error
    found = bytes(answer.choices if list_name == "choices" else answer.data).strip()
    if not found.startswith(b"[") or not found[1:].lstrip() or found[1:].lstrip().startswith(b"]"):
        raise FailedAttempt("NoChoices", f"the answer has no {list_name}")
    if prompt_tokens is None or bytes(answer.usage) != b"null" or len(body) > WRAPPED_MAX_BYTES:
        return body
    fields = decoded(body)
    fields["usage"] = usage_of(prompt_tokens, sum(han_count(text_of(each)) for each in fields["choices"]))
    return _encode(fields)


def decoded(body: bytes) -> dict[str, Any]:
    """The object of an answer. Raises FailedAttempt if it is none, or takes long to decode."""
    if has_too_many_containers(body):
        raise FailedAttempt("LargeAnswer", "the answer has too many objects and arrays")
    try:
        return _object.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FailedAttempt("NoCompletion", "the answer is not what was asked for", f": {error}") from error


def text_of(choice: Any) -> str:
    """The text of a choice of a whole answer; empty if it has none."""
    message = choice.get("message") if isinstance(choice, dict) else None
    text = message.get("content") if isinstance(message, dict) else choice.get("text") if choice else ""
    return text if isinstance(text, str) else ""


def usage_of(prompt_tokens: int, completion_tokens: int) -> Usage:
    return Usage(prompt_tokens, completion_tokens, prompt_tokens + completion_tokens)


def as_events(body: bytes, *, with_usage: bool) -> list[bytes]:
    """A whole completion as the events of a stream: one with everything, and one with the usage if that is
    wanted. Raises FailedAttempt."""
    if len(body) > WRAPPED_MAX_BYTES:
        raise FailedAttempt("LargeAnswer", "the answer is too large for a stream")
    fields = decoded(body)
    choices = []
    for choice in fields["choices"]:
        if not isinstance(choice, dict):
            raise FailedAttempt("NoChoices", "the answer has no choices")
        each = {name: value for name, value in choice.items() if name != "message"}
        if "message" in choice:
            each["delta"] = _delta(choice["message"])
        choices.append(each)
    is_chat = fields.get("object") != "text_completion"
    kind = "chat.completion.chunk" if is_chat else "text_completion"
    chunk = {name: value for name, value in fields.items() if name != "usage"}
    events = [event(chunk | {"object": kind, "choices": choices})]
    if with_usage and fields.get("usage") is not None:
        events.append(event(chunk | {"object": kind, "choices": [], "usage": fields["usage"]}))
    return events


def _delta(message: Any) -> Any:
    """The message as a delta: its tool calls have an index."""
    if not isinstance(message, dict) or not isinstance(message.get("tool_calls"), list):
        return message
    calls = [
        {"index": index, **call} for index, call in enumerate(message["tool_calls"]) if isinstance(call, dict)
    ]
    return {**message, "tool_calls": calls}


def event(data: Any) -> bytes:
    """An event with the JSON of `data`."""
    return b"data: %b\n\n" % _encode(data)


def parrot(instruction: str, model: str, prompt_tokens: int) -> bytes:
    """The completion of the built-in parrot."""
    content = f"🦜 {instruction}"
    message = {"role": "assistant", "content": content}
    return _encode(
        {
            "id": COMPLETION_ID + new_name(),
            "object": "chat.completion",
            "created": int(time.time()),
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": usage_of(prompt_tokens, han_count(content)),
        }
    )
