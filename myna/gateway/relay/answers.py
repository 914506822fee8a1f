"""Whole answers of channels: their checks, the usage that a channel left out, and an answer as a stream."""

import base64
import re
import struct
import time
from typing import Any, Final

import msgspec
from msgspec import Struct

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
    repaired,
    strict,
    text_of,
)
from myna.wire.openai import Usage

COMPLETION_ID: Final = "chatcmpl-"
_NULL: Final = msgspec.Raw(b"null")
_TOO_MANY: Final = "the answer has too many objects and arrays"
_NAMED: Final = b'"model"'
_OBJECT: Final = re.compile(rb"\[\s*\{")


class _Listed(Struct):
    """An answer with choices or data."""

    choices: msgspec.Raw = msgspec.Raw(b"")
    data: msgspec.Raw = msgspec.Raw(b"")
    usage: msgspec.Raw = _NULL
    object: Any = None
    error: msgspec.Raw = _NULL


class _Message(Struct):
    content: msgspec.Raw = _NULL


class _Choice(Struct):
    """A choice, as far as it is read: `message` of a chat, `text` of a legacy completion."""

    message: msgspec.Raw = _NULL
    text: msgspec.Raw = _NULL
    finish_reason: Any = None
    error: msgspec.Raw = _NULL

    @property
    def failed(self) -> bool:
        return self.finish_reason == "error" or is_set(self.error)


_Members = dict[str, msgspec.Raw]
_listed = msgspec.json.Decoder(_Listed)
_message = msgspec.json.Decoder(_Message)
_choices = msgspec.json.Decoder(list[_Choice])
_members = msgspec.json.Decoder(_Members)
_lists = msgspec.json.Decoder(list[_Members])
_floats = msgspec.json.Decoder(list[float])
_object = msgspec.json.Decoder(dict[str, Any])
_encode = msgspec.json.Encoder().encode


def checked(body: bytes, list_name: str, prompt_tokens: int | None, channel: Channel) -> bytes:
    """The answer of a channel: an object with a list that begins with an object, `choices` or `data`. If it
    has no usage, and `prompt_tokens` is given, the usage is counted, unless it has very many objects and
    arrays. Raises FailedAttempt, also if the answer reports an error."""
    try:
        read = body
        try:
            answer = _listed.decode(body)
        except UNREADABLE:
            body, read = repaired(body)
            answer = _listed.decode(read)
        found = bytes(answer.choices if list_name == "choices" else answer.data)
        if not _OBJECT.match(found.lstrip()):
            raise unusable("NoChoices", f"the answer has no {list_name}", body, channel)
        counts = prompt_tokens is not None and not is_set(answer.usage)
        reports = is_set(answer.error) or answer.object == "error"
        choices: list[_Choice] = []
        if (counts or ERROR in found) and not has_too_many_containers(found):
            choices = _choices.decode(found)
            reports = reports or any(choice.failed for choice in choices)
        if reports:
            raise of_error("ErrorAnswer", "the answer reports an error", body, channel)
        if prompt_tokens is None or not (counts and choices):
            return body
        members = _members.decode(read)
        usage = usage_of(prompt_tokens, sum(map(_han_count, choices)))
        return _encode(members | {"usage": usage})
    except UNREADABLE as error:
        raise _no_completion(error) from error


def completed(body: bytes, model: str) -> bytes:
    """A checked completion with the name that the caller gave the model, and with what servers leave out and
    clients with types need. Members that are there stay as they are. Raises FailedAttempt."""
    members = strict(_members.decode, body)
    found = bytes(members["choices"])
    part = "text" if b'"text"' in found and b'"message"' not in found else "message"
    kind = "text_completion" if part == "text" else "chat.completion"
    missing: dict[str, Any] = {"id": COMPLETION_ID + new_name(), "object": kind, "created": int(time.time())}
    try:
        named = {name: loads(bytes(members.pop(name))) for name in completions.MEMBERS if name in members}
        if not has_too_many_containers(found):
            choices = [_completed(place, each, part) for place, each in enumerate(_objects(found))]
            members["choices"] = msgspec.Raw(dumps(choices))
    except UNREADABLE as error:
        raise _no_completion(error) from error
    return _encode(completions.members(named, missing) | members | {"model": model})


def _objects(found: bytes) -> list[dict[str, Any]]:
    """The objects of a list of nothing else. Raises UNREADABLE."""
    _lists.decode(found)
    return objects_of(loads(found))


def _completed(place: int, choice: dict[str, Any], part: str) -> dict[str, Any]:
    whole = completions.choice(place, choice, part)
    calls = object_of(whole.get("message")).get("tool_calls")
    return whole | {"finish_reason": whole["finish_reason"] or ("tool_calls" if calls else "stop")}


def embeddings(body: bytes, model: str, prompt_tokens: int, *, in_base64: bool) -> bytes:
    """Checked embeddings with the name that the caller gave the model, with what clients with types need, and
    each vector as the client asked for it, whatever the channel sends: in base64, of 32-bit floats in
    little-endian order (openai-node decodes whatever comes), or as numbers. Raises FailedAttempt."""
    members = strict(_members.decode, body)
    if has_too_many_containers(body):
        if in_base64:
            raise FailedAttempt("LargeAnswer", _TOO_MANY)
        return with_model(body, model)
    try:
        vectors: list[dict[str, Any]] = []
        item: dict[str, Any]
        for place, item in enumerate(_lists.decode(members["data"])):
            index = completions.place_of(loads(bytes(item.get("index", _NULL))), place)
            vectors.append(item | {"object": "embedding", "index": index})
        for item in vectors:
            vector = bytes(item.get("embedding", _NULL))
            if vector[:1] == (b"[" if in_base64 else b'"'):
                item["embedding"] = _packed(vector) if in_base64 else _unpacked(vector)
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


def decoded(body: bytes) -> dict[str, Any]:
    """The object of an answer. Raises FailedAttempt if it is none, or takes long to decode."""
    if has_too_many_containers(body):
        raise FailedAttempt("LargeAnswer", _TOO_MANY)
    try:
        return strict(_object.decode, body)
    except UNREADABLE as error:
        raise _no_completion(error) from error


def _no_completion(error: Exception) -> FailedAttempt:
    return FailedAttempt("NoCompletion", "the answer is not what was asked for", f": {error}")


def _han_count(choice: _Choice) -> int:
    """The Han characters of a choice's text; 0 if it has none."""
    is_chat = bytes(choice.message).startswith(b"{")
    text = _message.decode(choice.message).content if is_chat else choice.text
    return han_count(text_of(loads(text)))


def usage_of(prompt_tokens: int, completion_tokens: int) -> Usage:
    return Usage(prompt_tokens, completion_tokens, prompt_tokens + completion_tokens)


def as_events(body: bytes, *, with_usage: bool) -> list[bytes]:
    """A whole completion as the events of a stream: one with everything, and one with the usage if that is
    wanted. Unchanged members are not decoded, so a large answer takes little time. Raises FailedAttempt."""
    try:
        if b"\n" in body or b"\r" in body:  # it would end a line of the event
            body = strict(_compact, body)
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


def _compact(body: bytes) -> bytes:
    return msgspec.json.format(body, indent=-1)


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
            "usage": usage_of(prompt_tokens, han_count(content)),
        }
    )
