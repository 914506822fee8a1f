"""What channels answer, checked and with the types of OpenAI's API: whole answers, also as a stream, and the
chunks of streamed completions.

Clients with types read them. They name the model as the caller did; what servers leave out and typed clients
can't do without is put in. A chunk that has everything passes unparsed.
"""

import base64
import re
import struct
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from myna.channels.channels import Channel
from myna.gateway.failover import FailedAttempt, from_answer, from_error
from myna.lib.ids import new_name
from myna.wire import completions
from myna.wire.body import has_too_many_containers, to_event, to_json
from myna.wire.completions import han_count
from myna.wire.failures import NULL, choice_reports_error, is_error, reports_error
from myna.wire.lenient import (
    UNREADABLE,
    count_of,
    dumps,
    is_set,
    loads,
    object_of,
    objects_of,
    strict,
    text_of,
)
from myna.wire.v1 import ChatChoice, ChatCompletion, ChatMessage, SpokenAnswer, Usage

_MODEL: Final = re.compile(rb'"model"\s*:\s*"(?:[^"\\]|\\.)*+"')
_CALLS: Final = re.compile(rb'"tool_calls"\s*:\s*\[\s*\{')
_CONTENT: Final = re.compile(rb'"content" ?: ?"((?:[^"\\]|\\.)*+)"')
TOO_MANY: Final = "the answer has too many objects and arrays"
_NAMED: Final = b'"model"'
_OBJECT: Final = re.compile(rb"\[\s*\{")

_Members = dict[str, msgspec.Raw]
_members = msgspec.json.Decoder(_Members)
_lists = msgspec.json.Decoder(list[_Members])
_floats = msgspec.json.Decoder(list[float])
_encode = msgspec.json.Encoder().encode


class RequestSummary(Struct, frozen=True):
    """What an answer needs of its request: the model, as the caller named it, the count of Han characters,
    and whether vectors are wanted in base64."""

    model: str
    prompt_tokens: int
    in_base64: bool = False


def completion(body: bytes, request: RequestSummary, channel: Channel) -> bytes:
    """The JSON of `normalized`."""
    members, choices = normalized(body, request, channel)
    return _encode(members if choices is None else members | {"choices": msgspec.Raw(dumps(choices))})


def normalized(
    body: bytes, request: RequestSummary, channel: Channel
) -> tuple[dict[str, Any], list[dict[str, Any]] | None]:
    """A channel's completion with the name that the caller gave the model, with the usage, counted if there
    is none, and with what servers leave out and clients with types need, and its choices, None if they have
    very many objects and arrays. These and other members stay as they are. Raises FailedAttempt, also if it
    reports an error."""
    try:
        members, found = validated(body, "choices", channel)
        choices = None if has_too_many_containers(found) else _objects(found)
        if any(choice_reports_error(one.get("finish_reason"), one.get("error")) for one in choices or ()):
            raise reported_error(body, channel)
        named = {name: loads(bytes(members.pop(name))) for name in completions.MEMBERS if name in members}
    except UNREADABLE as error:
        raise _no_completion(error) from error
    part = "text" if b'"text"' in found and b'"message"' not in found else "message"
    kind = "text_completion" if part == "text" else "chat.completion"
    missing: dict[str, Any] = {
        "id": completions.ID_PREFIX + new_name(),
        "object": kind,
        "created": int(time.time()),
    }
    if choices is not None:
        if not is_set(named.get("usage")):
            named["usage"] = completions.counted_usage(request.prompt_tokens, sum(map(_han_count, choices)))
        choices = [_choice(place, each, part) for place, each in enumerate(choices)]
    return completions.members(named, missing) | members | {"model": request.model}, choices


def reported_error(body: bytes, channel: Channel) -> FailedAttempt:
    """The failed attempt of an answer that reports an error."""
    return from_error("ErrorAnswer", "the answer reports an error", body, channel)


def validated(body: bytes, list_name: str, channel: Channel) -> tuple[_Members, bytes]:
    """The members of a channel's answer, and its list of objects. Raises UNREADABLE, and FailedAttempt if
    there is no such list or if the answer reports an error."""
    members = strict(_members.decode, body)
    found = bytes(members.get(list_name, NULL))
    if not _OBJECT.match(found.lstrip()):
        raise from_answer("NoChoices", f"the answer has no {list_name}", body, channel)
    if reports_error(members):
        raise reported_error(body, channel)
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


def embeddings(body: bytes, request: RequestSummary, channel: Channel) -> bytes:
    """A channel's embeddings with the name that the caller gave the model, with what clients with types need,
    and each vector as the client asked for it, whatever the channel sends: in base64, of 32-bit floats in
    little-endian order (openai-node decodes whatever comes), or as numbers. Raises FailedAttempt."""
    prompt_tokens, in_base64 = request.prompt_tokens, request.in_base64
    try:
        members, found = validated(body, "data", channel)
        if has_too_many_containers(body):
            if in_base64:
                raise FailedAttempt("LargeAnswer", TOO_MANY)
            return with_model(body, request.model)
        vectors: list[dict[str, Any]] = []
        for place, item in enumerate(_lists.decode(found)):
            if is_error(item.get("error", NULL)):
                raise reported_error(body, channel)
            index = completions.place_of(loads(bytes(item.get("index", NULL))), place)
            given: dict[str, Any] = item | {"object": "embedding", "index": index}
            vector = bytes(item.get("embedding", NULL))
            if vector[:1] == (b"[" if in_base64 else b'"'):
                given["embedding"] = _packed(vector) if in_base64 else _unpacked(vector)
            vectors.append(given)
    except (*UNREADABLE, OverflowError, struct.error, ValueError) as error:
        raise _no_completion(error) from error
    usage = completions.usage(loads(bytes(members.get("usage", NULL)))) or {"prompt_tokens": prompt_tokens}
    usage = {name: usage.get(name, prompt_tokens) for name in ("prompt_tokens", "total_tokens")}
    return _encode(members | {"object": "list", "model": request.model, "data": vectors, "usage": usage})


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
    is_chat = bytes(members.get("object", NULL)) != b'"text_completion"'
    kind = "chat.completion.chunk" if is_chat else "text_completion"
    usage = members.pop("usage", NULL)
    events = [to_event(members | {"object": kind, "choices": choices})]
    if with_usage and usage != NULL:
        events.append(to_event(members | {"object": kind, "choices": [], "usage": usage}))
    return events


def _delta(message: msgspec.Raw) -> Any:
    """The message as a delta: its tool calls have an index. Empty if it is no object."""
    if not bytes(message).startswith(b"{"):
        return {}
    members = _members.decode(message)
    calls = members.get("tool_calls", NULL)
    if not bytes(calls).startswith(b"["):
        return message
    indexed = [{"index": index, **call} for index, call in enumerate(_lists.decode(calls))]
    return members | {"tool_calls": indexed}


def parrot(instruction: str, request: RequestSummary) -> bytes:
    """The completion of the built-in parrot."""
    return to_json(
        chat_completion(request, ChatChoice(0, ChatMessage("assistant", f"🦜 {instruction}"), "stop"))
    )


def chat_completion(
    request: RequestSummary, choice: ChatChoice, audio: SpokenAnswer | None = None
) -> ChatCompletion:
    """A completion of our own, with its tokens counted."""
    prompt, completion = request.prompt_tokens, han_count(choice.message.content)
    return ChatCompletion(
        id=completions.ID_PREFIX + new_name(),
        object="chat.completion",
        created=int(time.time()),
        model=request.model,
        choices=[choice],
        usage=Usage(prompt, completion, prompt + completion),
        audio=audio,
    )


class Chunks:
    """`model` is the JSON of the model's name; without it events stay as they are. With `only_model` only
    that is replaced: the events are not chunks. With `prompt_tokens`, those of the request, the client wants
    the usage, which is counted if the channel sends none."""

    def __init__(self, model: bytes, *, only_model: bool, prompt_tokens: int | None = None) -> None:
        self._named = b'"model":' + model if model else b""
        self._only_model = only_model
        self._channels = b""
        self._members: dict[str, Any] = {}
        self._is_chat = True
        self._calls: dict[int | None, tuple[str, int]] = {}
        self._last = -1
        self._good: tuple[bytes, bytes] | None = None
        self._prompt_tokens = prompt_tokens
        self._completion_tokens = 0
        self._usage: dict[str, Any] | None = None
        self.wants_usage = prompt_tokens is not None

    def begin(self, first: Mapping[str, msgspec.Raw], data: bytes) -> None:
        """Takes the members of all chunks from the first one, whose JSON is `data`."""
        self._is_chat = b'"delta"' in data or b'"text"' not in data
        missing = {
            "id": completions.ID_PREFIX + new_name(),
            "object": "chat.completion.chunk" if self._is_chat else "text_completion",
            "created": int(time.time()),
        }
        given = {name: loads(bytes(first[name])) for name in ("id", "created") if name in first}
        self._members = completions.members(given, missing)

    def normalized(self, event: bytes, data: bytes, *, ends: bool) -> bytes:
        """An event whose JSON is `data`, with what it needs. `ends`: it has a reason to finish."""
        if not self._named or self._only_model or (self._good and self._is_alike(data)):
            return self.with_model(event)
        if ends or _has_gaps(data) or _CALLS.search(data) or completions.is_odd(data):
            return self._filled(event, data)
        found = _CONTENT.search(data)
        self._good = (data[: found.start(1)], data[found.end(1) :]) if found else None
        return self.with_model(event)

    def _is_alike(self, data: bytes) -> bool:
        """Whether it is the last good chunk with another content: most chunks are, and this is fast."""
        head, tail = self._good or (b"", b"")
        if not data.startswith(head) or not data.endswith(tail):
            return False
        text = data[len(head) : len(data) - len(tail)]
        return b'"' not in (text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text)

    def with_model(self, event: bytes) -> bytes:
        """An event, or a part of one, with the name that the caller gave the model."""
        if not self._named or b'"model"' not in event:
            return event
        if self._channels not in event or not self._channels:  # some name none in the first chunk
            found = _MODEL.search(event)
            self._channels = found[0] if found else b""
        return event.replace(self._channels, self._named, 1) if self._channels else event

    def end(self, unfinished: Iterable[int]) -> bytes:
        """The chunk that ends these choices, which have no reason to finish; empty if there are none."""
        reason = "tool_calls" if self._calls else "stop"
        part: dict[str, Any] = {"delta": {}} if self._is_chat else {"text": "", "logprobs": None}
        choices = [{"index": index, **part, "finish_reason": reason} for index in unfinished]
        if not self._named or not choices:
            return b""
        return to_event(self._members | {"choices": choices} | self._model())

    def count(self, chunk: dict[str, Any]) -> None:
        """Reads the usage of a chunk, and counts its Han characters."""
        self.wants_usage = not is_set(chunk.get("usage"))
        self._usage = self._usage or completions.usage_in(chunk)
        self._completion_tokens += han_count_of(chunk)

    def usage(self) -> bytes:
        """The event with the usage, if the client wants it and no chunk had it."""
        if not self.wants_usage:
            return b""
        usage = self._usage or completions.counted_usage(self._prompt_tokens or 0, self._completion_tokens)
        return to_event(self._members | self._model() | {"choices": [], "usage": usage})

    def _filled(self, event: bytes, data: bytes) -> bytes:
        if has_too_many_containers(data):
            return self.with_model(event)
        try:
            given = object_of(loads(data))
        except UNREADABLE:  # clients that are less strict may read it
            return self.with_model(event)
        named = {name: given.pop(name) for name in completions.MEMBERS if name in given}
        choices = [self._choice(*numbered) for numbered in enumerate(objects_of(given.get("choices")))]
        filled = completions.members(named, self._members) | given | {"choices": choices} | self._model()
        lines = [line for line in event.split(b"\n") if line and not line.startswith(b"data:")]
        return b"".join(line + b"\n" for line in lines) + to_event(filled)

    def _choice(self, place: int, choice: dict[str, Any]) -> dict[str, Any]:
        whole = completions.choice(place, choice, "delta" if self._is_chat else "text")
        for call in object_of(whole.get("delta")).get("tool_calls") or []:
            call["index"] = self._place_of(call)
        return whole

    def _place_of(self, call: dict[str, Any]) -> int:
        """The index of a call, which Gemini leaves out, and by which others give all calls the same."""
        index = count_of(call.get("index"))
        call_id, place = self._calls.get(index, ("", None))
        begins = bool(object_of(call.get("function")).get("name"))
        if place is None or (begins and (index is None or call["id"] != call_id)):
            taken = {place for _, place in self._calls.values()} | {self._last}
            place = index if index is not None and index not in taken else max(taken) + 1
            self._calls[index] = call.get("id") or "", place
            self._last = max(self._last, place)
        return place

    def _model(self) -> dict[str, Any]:
        return object_of(msgspec.json.decode(b"{%b}" % self._named))


def han_count_of(chunk: dict[str, Any]) -> int:
    """The Han characters of a chunk's choices."""
    return sum(
        han_count(text_of(choice.get("text")) or text_of(object_of(choice.get("delta")).get("content")))
        for choice in objects_of(chunk.get("choices"))
    )


def _has_gaps(data: bytes) -> bool:
    """Looks for bytes alone."""
    return not (
        b'"id"' in data
        and b'"object"' in data
        and b'"created"' in data
        and b'"model"' in data
        and b'"choices"' in data
        and (b'"index"' in data or b'"delta"' not in data)
    )
