"""Whole answers of channels, checked and with the types of OpenAI's API, and an answer as a stream."""

import base64
import re
import struct
import time
from typing import Any, Final

import msgspec

from myna.channels.channels import Channel
from myna.gateway.chat.failover import FailedAttempt, of_error, unusable
from myna.gateway.chat.text import han_count
from myna.gateway.relay.events import ERROR
from myna.lib.ids import new_name
from myna.wire import completions
from myna.wire.body import has_too_many_containers, to_event
from myna.wire.lenient import (
    UNREADABLE,
    dumps,
    is_set,
    loads,
    object_of,
    objects_of,
    strict,
    text_of,
)

COMPLETION_ID: Final = "chatcmpl-"
_NULL: Final = msgspec.Raw(b"null")
TOO_MANY: Final = "the answer has too many objects and arrays"
_REPORTS: Final = "the answer reports an error"
_NAMED: Final = b'"model"'
_OBJECT: Final = re.compile(rb"\[\s*\{")


_Members = dict[str, msgspec.Raw]
_members = msgspec.json.Decoder(_Members)
_lists = msgspec.json.Decoder(list[_Members])
_floats = msgspec.json.Decoder(list[float])
_encode = msgspec.json.Encoder().encode


def completion(body: bytes, model: str, prompt_tokens: int, channel: Channel) -> bytes:
    """The JSON of `completed`."""
    members, choices = completed(body, model, prompt_tokens, channel)
    return _encode(members if choices is None else members | {"choices": msgspec.Raw(dumps(choices))})


def completed(
    body: bytes, model: str, prompt_tokens: int, channel: Channel
) -> tuple[dict[str, Any], list[dict[str, Any]] | None]:
    """A channel's completion with the name that the caller gave the model, with the usage, counted if there
    is none, and with what servers leave out and clients with types need, and its choices, None if they have
    very many objects and arrays. These and other members stay as they are. Raises FailedAttempt, also if it
    reports an error."""
    try:
        members, found = _checked(body, "choices", channel)
        choices = None if has_too_many_containers(found) else _objects(found)
        if any(one.get("finish_reason") == "error" or is_set(one.get("error")) for one in choices or ()):
            raise of_error("ErrorAnswer", _REPORTS, body, channel)
        named = {name: loads(bytes(members.pop(name))) for name in completions.MEMBERS if name in members}
    except UNREADABLE as error:
        raise _no_completion(error) from error
    part = "text" if b'"text"' in found and b'"message"' not in found else "message"
    kind = "text_completion" if part == "text" else "chat.completion"
    missing: dict[str, Any] = {"id": COMPLETION_ID + new_name(), "object": kind, "created": int(time.time())}
    if choices is not None:
        if not is_set(named.get("usage")):
            named["usage"] = completions.counted_usage(prompt_tokens, sum(map(_han_count, choices)))
        choices = [_choice(place, each, part) for place, each in enumerate(choices)]
    return completions.members(named, missing) | members | {"model": model}, choices


def _checked(body: bytes, list_name: str, channel: Channel) -> tuple[_Members, bytes]:
    """The members of a channel's answer, and its list of objects. Raises UNREADABLE, and FailedAttempt if
    there is no such list or if the answer reports an error."""
    members = strict(_members.decode, body)
    found = bytes(members.get(list_name, _NULL))
    if not _OBJECT.match(found.lstrip()):
        raise unusable("NoChoices", f"the answer has no {list_name}", body, channel)
    if is_set(members.get("error", _NULL)) or bytes(members.get("object", _NULL)) == ERROR:
        raise of_error("ErrorAnswer", _REPORTS, body, channel)
    return members, found


def _objects(found: bytes) -> list[dict[str, Any]]:
    """The objects of a list of nothing else. Raises UNREADABLE."""
    _lists.decode(found)
    return objects_of(loads(found))


def _choice(place: int, choice: dict[str, Any], part: str) -> dict[str, Any]:
    whole = completions.choice(place, choice, part)
    calls = object_of(whole.get("message")).get("tool_calls")
    return whole | {"finish_reason": whole["finish_reason"] or ("tool_calls" if calls else "stop")}


def _han_count(choice: dict[str, Any]) -> int:
    """The Han characters of a choice's text; 0 if it has none."""
    message = choice.get("message")
    return han_count(text_of(message.get("content") if isinstance(message, dict) else choice.get("text")))


def embeddings(body: bytes, model: str, prompt_tokens: int, channel: Channel, *, in_base64: bool) -> bytes:
    """A channel's embeddings with the name that the caller gave the model, with what clients with types need,
    and each vector as the client asked for it, whatever the channel sends: in base64, of 32-bit floats in
    little-endian order (openai-node decodes whatever comes), or as numbers. Raises FailedAttempt."""
    try:
        members, found = _checked(body, "data", channel)
        if has_too_many_containers(body):
            if in_base64:
                raise FailedAttempt("LargeAnswer", TOO_MANY)
            return with_model(body, model)
        vectors: list[dict[str, Any]] = []
        for place, item in enumerate(_lists.decode(found)):
            if is_set(item.get("error", _NULL)):
                raise of_error("ErrorAnswer", _REPORTS, body, channel)
            index = completions.place_of(loads(bytes(item.get("index", _NULL))), place)
            given: dict[str, Any] = item | {"object": "embedding", "index": index}
            vector = bytes(item.get("embedding", _NULL))
            if vector[:1] == (b"[" if in_base64 else b'"'):
                given["embedding"] = _packed(vector) if in_base64 else _unpacked(vector)
            vectors.append(given)
    except (*UNREADABLE, OverflowError, struct.error, ValueError) as error:
        raise _no_completion(error) from error
    usage = completions.usage(loads(bytes(members.get("usage", _NULL)))) or {"prompt_tokens": prompt_tokens}
    usage = {name: usage.get(name, prompt_tokens) for name in ("prompt_tokens", "total_tokens")}
    return _encode(members | {"object": "list", "model": model, "data": vectors, "usage": usage})


def _packed(vector: bytes) -> str:
    floats = _floats.decode(vector)
    return base64.b64encode(struct.pack(f"<{len(floats)}f", *floats)).decode()


def _unpacked(vector: bytes) -> list[float]:
    packed = base64.b64decode(loads(vector), validate=True)
    return list(struct.unpack(f"<{len(packed) // 4}f", packed))


def with_model(body: bytes, model: str) -> bytes:
    """The answer with the name that the caller gave the model, if it names one. Raises FailedAttempt."""
    if _NAMED not in body:
        return body
    members = strict(_members.decode, body)
    return _encode(members | {"model": model}) if "model" in members else body


def _no_completion(error: Exception) -> FailedAttempt:
    return FailedAttempt("NoCompletion", "the answer is not what was asked for", f": {error}")


def as_events(body: bytes, *, with_usage: bool) -> list[bytes]:
    """A whole completion as the events of a stream: one with everything, and one with the usage if that is
    wanted. Unchanged members are not decoded, so a large answer takes little time. Raises FailedAttempt."""
    try:
        if b"\n" in body or b"\r" in body:  # it would end a line of the event
            body = strict(lambda data: msgspec.json.format(data, indent=-1), body)
        members = strict(_members.decode, body)
        choices: list[dict[str, Any]] = []
        for choice in _lists.decode(members["choices"]):
            message = choice.pop("message", None)
            choices.append({**choice, "delta": _delta(message)} if message is not None else choice)
    except UNREADABLE as error:
        raise FailedAttempt("NoChoices", "the answer has no choices", f": {error}") from error
    is_chat = bytes(members.get("object", _NULL)) != b'"text_completion"'
    kind = "chat.completion.chunk" if is_chat else "text_completion"
    usage = members.pop("usage", _NULL)
    events = [to_event(members | {"object": kind, "choices": choices})]
    if with_usage and usage != _NULL:
        events.append(to_event(members | {"object": kind, "choices": [], "usage": usage}))
    return events


def _delta(message: msgspec.Raw) -> Any:
    """The message as a delta: its tool calls have an index. Empty if it is no object."""
    if not bytes(message).startswith(b"{"):
        return {}
    members = _members.decode(message)
    calls = members.get("tool_calls", _NULL)
    if not bytes(calls).startswith(b"["):
        return message
    indexed = [{"index": index, **call} for index, call in enumerate(_lists.decode(calls))]
    return members | {"tool_calls": indexed}


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
            "usage": completions.counted_usage(prompt_tokens, han_count(content)),
        }
    )
