"""The chunks of a streamed completion as clients with types read them. They name the model as the caller did.
What servers leave out and typed clients can't do without is put in; a chunk that has everything passes
unparsed.
"""

import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from myna.gateway.chat.upstream import completed_call
from myna.lib.ids import new_name
from myna.wire.body import has_too_many_containers
from myna.wire.encode import to_event
from myna.wire.lenient import UNREADABLE, is_set, loads, object_of, objects_of, reason_of

_MODEL: Final = re.compile(rb'"model"\s*:\s*"(?:[^"\\]|\\.)*+"')
_EMPTY: Final = re.compile(rb'"usage"\s*:\s*\{\s*\}|"finish_reason"\s*:\s*""')

_CALLS: Final = re.compile(rb'"tool_calls"\s*:\s*\[\s*\{')


class Chunks:
    """`model` is the JSON of the model's name; without it events stay as they are. With `whole` only the
    model is replaced: the events are not chunks."""

    def __init__(self, model: bytes, *, only_model: bool) -> None:
        self._named = b'"model":' + model if model else b""
        self._only_model = only_model
        self._channels = b""
        self._members: dict[str, Any] = {}
        self._is_chat = True
        self._calls = 0

    def begin(self, first: Mapping[str, Any], data: bytes) -> None:
        """Takes the members of all chunks from the first one, whose JSON is `data`."""
        self._is_chat = b'"delta"' in data or b'"text"' not in data
        self._members = {
            "id": "chatcmpl-" + new_name(),
            "object": "chat.completion.chunk" if self._is_chat else "text_completion",
            "created": int(time.time()),
        }
        for name in self._members:
            if is_set(value := first.get(name)):
                self._members[name] = loads(bytes(value)) if isinstance(value, msgspec.Raw) else value

    def completed(self, event: bytes, data: bytes, *, ends: bool) -> bytes:
        """An event whose JSON is `data`, with what it needs. `ends`: it has a reason to finish."""
        if self._named and not self._only_model and (ends or _has_gaps(data) or _CALLS.search(data)):
            return self._filled(event, data)
        return self.with_model(event)

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

    def _filled(self, event: bytes, data: bytes) -> bytes:
        if has_too_many_containers(data):
            return self.with_model(event)
        try:
            given = object_of(loads(data))
        except UNREADABLE:  # clients that are less strict may read it
            return self.with_model(event)
        choices = [self._choice(*numbered) for numbered in enumerate(objects_of(given.get("choices")))]
        filled = self._members | given | {"choices": choices} | self._model()
        if not is_set(given.get("usage", 1)):
            filled["usage"] = None
        if filled == given | self._model() and b"\n" not in data:
            return self.with_model(event)
        lines = [line for line in event.split(b"\n") if line and not line.startswith(b"data:")]
        return b"".join(line + b"\n" for line in lines) + to_event(filled)

    def _choice(self, place: int, choice: dict[str, Any]) -> dict[str, Any]:
        part: dict[str, Any] = {"delta": {}} if self._is_chat else {"text": ""}
        whole = {"index": place} | part | choice
        whole["finish_reason"] = reason_of(choice.get("finish_reason")) or None
        if calls := objects_of(object_of(whole.get("delta")).get("tool_calls")):
            whole["delta"] = whole["delta"] | {"tool_calls": [self._call(call) for call in calls]}
        return whole

    def _call(self, call: dict[str, Any]) -> dict[str, Any]:
        """A part of a call with its place, which Gemini leaves out."""
        self._calls += bool(object_of(call.get("function")).get("name"))
        place = call.get("index")
        return completed_call(call | {"index": max(self._calls - 1, 0) if place is None else place})

    def _model(self) -> dict[str, Any]:
        return object_of(msgspec.json.decode(b"{%b}" % self._named))


def _has_gaps(data: bytes) -> bool:
    """Looks for bytes alone, since it does so in each chunk of each stream."""
    if not (
        b'"id"' in data
        and b'"object"' in data
        and b'"created"' in data
        and b'"model"' in data
        and (b'"choices":[' in data or b'"choices": [' in data)
        and (b'"index"' in data or b'"delta"' not in data)
    ):
        return True
    return (b"{}" in data or b'""' in data) and _EMPTY.search(data) is not None
