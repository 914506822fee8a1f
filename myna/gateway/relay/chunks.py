"""The chunks of a streamed completion as clients with types read them. They name the model as the caller did.
What servers leave out and typed clients can't do without is put in; a chunk that has everything passes
unparsed.
"""

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from myna.gateway.chat.text import han_count
from myna.lib.ids import new_name
from myna.wire import completions
from myna.wire.body import has_too_many_containers, to_event
from myna.wire.lenient import UNREADABLE, count_of, is_set, loads, object_of, objects_of, text_of

_MODEL: Final = re.compile(rb'"model"\s*:\s*"(?:[^"\\]|\\.)*+"')
_CALLS: Final = re.compile(rb'"tool_calls"\s*:\s*\[\s*\{')
_CONTENT: Final = re.compile(rb'"content" ?: ?"((?:[^"\\]|\\.)*+)"')


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

    def begin(self, first: Mapping[str, Any], data: bytes) -> None:
        """Takes the members of all chunks from the first one, whose JSON is `data`."""
        self._is_chat = b'"delta"' in data or b'"text"' not in data
        missing = {
            "id": "chatcmpl-" + new_name(),
            "object": "chat.completion.chunk" if self._is_chat else "text_completion",
            "created": int(time.time()),
        }
        given: dict[str, Any] = {name: first[name] for name in ("id", "created") if name in first}
        for name, value in given.items():
            given[name] = loads(bytes(value)) if isinstance(value, msgspec.Raw) else value
        self._members = completions.members(given, missing)

    def completed(self, event: bytes, data: bytes, *, ends: bool) -> bytes:
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
