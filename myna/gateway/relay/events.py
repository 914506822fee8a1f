"""The server-sent events of a channel, as they are passed on.

Source: the event stream format of the HTML standard, and OpenAI's use of it: each event has one JSON object,
and the last one is `[DONE]`. Pure: bytes in, bytes out.

An event is passed on as soon as it is complete, with LF as line end, and unparsed if it has what clients
need. Comments are passed on after
the first event and dropped before it, so that nothing is sent before a channel has begun to answer. The
last event is not passed on: the caller sends it after the call was kept.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from myna.gateway.relay.answers import Chunks
from myna.wire.body import has_too_many_containers
from myna.wire.failures import ERROR_EVENTS, ERROR_MEMBERS, NULL, reports_error
from myna.wire.lenient import BOM, UNREADABLE, count_of, loads, object_of, objects_of, strict

BUFFERED_MAX_BYTES: Final = 128 * 1024
"""How much of an event is buffered until it is complete. A longer event is passed on as it arrives, unless
it must be read."""
DONE: Final = b"data: [DONE]\n\n"
ERROR_EVENT: Final = "ErrorEvent"
"""The kind of a stream that is broken by an event with an error."""
_ERROR, _BASE_RESP = ERROR_MEMBERS
"""One of both is in each event after the first one that reports an error, and in few others."""
_LINES_MAX: Final = 1000
"""Of one event: a million of them would take half a second of the event loop."""
_CLOSING: Final = (b"response.completed", b"response.incomplete")
"""The names of the last event of POST /responses, which has no `[DONE]`."""
_BLANK_LINE: Final = re.compile(rb"\n[\r\n]|\r\r")
_EMPTY_EVENTS: Final = re.compile(rb"\n{3,}")
_LONG: Final = re.compile(rb"(?:(?!data:)[^\n]*\n)*data:[ \t]*(?=\{)")
"""The beginning of a long event."""
_LONG_ERROR: Final = re.compile(rb'\{\s*"error"\s*:\s*+(?!null|false|0[,}\s]|""|\{\s*\}|\[\s*\])')
_FINISHED: Final = re.compile(rb'"finish_reason" ?: ?"(?!"|null")')
_LOOKED_AT_BYTES: Final = 200
"""Of an event that has begun, to see whether it has data."""
_FINISHED_MAX_BYTES: Final = 32
"""No match of `_FINISHED` is longer."""
_FINISHED_BY_ERROR: Final = re.compile(rb'"finish_reason" ?: ?"error"')


class _Typed(msgspec.Struct):
    type: Any = None


_typed = msgspec.json.Decoder(_Typed)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


class BrokenEvents(Exception):
    """The channel's stream can't be passed on. The message contains nothing that the channel sent; `detail`
    does, for the log. `kind` is the label of the metric."""

    def __init__(self, kind: str, why: str, detail: bytes = b"") -> None:
        super().__init__(why)
        self.kind = kind
        self.detail = detail


Observer = Callable[[bytes], bytes | None]
"""Reads the JSON of each event. Returns what to send in its place; None: the event itself. Raises UNREADABLE
and BrokenEvents."""


class EventRelay:
    """One stream of events. `choices` is how many choices must finish if there is no `[DONE]`. Events that
    are `typed` are those of POST /responses, which have their name in the JSON too, and perhaps only there.
    For an observer, for the usage, of several choices and if they are typed, events are read, and have at
    most `read_max_bytes`. With `model`, the JSON of a name, events have it in place of the name that the
    channel gives its model, which may be a path of its machine. With `prompt_tokens`, those of the request,
    the client wants the usage.

    `begun`: an event has arrived that is no error; a chunk must have `choices`, and is dropped until one has.
    `done`: the last event has arrived; later ones are dropped. `last` is that event, unless it is `[DONE]`.
    `passes_long`: a part of a long event was passed on, without its end. `says_nothing`: the last part had
    events without data alone, by which a server that hangs may go on for ever. Comments are sent by servers
    that work or let a request wait.
    """

    def __init__(
        self,
        observer: Observer | None = None,
        *,
        choices: int = 1,
        typed: bool = False,
        read_max_bytes: int = BUFFERED_MAX_BYTES,
        model: bytes = b"",
        prompt_tokens: int | None = None,
    ) -> None:
        self._chunks = Chunks(model, only_model=typed, prompt_tokens=prompt_tokens)
        self._observer = observer
        self._choices = choices
        self._typed = typed
        self._reads = observer is not None or prompt_tokens is not None or choices > 1 or typed
        self._buffer_max_bytes = read_max_bytes if self._reads else BUFFERED_MAX_BYTES
        self._buffer = bytearray()
        self.passes_long = False
        self._long_end = b""
        self._no_choices = b""  # the first event's JSON, if it has none: perhaps an error of an unknown shape
        self._finished: set[int] = set()
        self._replaced = False
        self._started = self.begun = self.done = self.says_nothing = False
        self.last = b""

    @property
    def finished(self) -> bool:
        """Whether the answer is complete: `[DONE]`, or a reason to finish for each choice."""
        if self.done or self._typed:  # typed events end with the last one
            return self.done
        return len(self._finished) >= self._choices

    def feed(self, part: bytes) -> bytes:
        """What to send after this part of the body; may be empty. Raises BrokenEvents."""
        if (
            self.begun
            and not self._reads
            and not self._buffer
            and not self.passes_long
            and part.startswith(b"data: {")
            and part.find(b"\n") == len(part) - 2  # one event of one line
            and part.endswith(b"}\n\n")
            and _ERROR not in part
            and _BASE_RESP not in part
            and not self.done
        ):
            self.says_nothing = False
            return self._chunks.normalized(part, part[6:-2], ends=self._note(part))
        self.says_nothing = True  # unless an event says something
        sent = self._feed(part)
        self.says_nothing &= not self.passes_long and b"{" not in self._buffer[:_LOOKED_AT_BYTES]
        return sent

    def close(self) -> bytes:
        """The body has ended: what is left to send. Raises BrokenEvents if the answer is not complete."""
        rest = bytes(self._buffer).strip(b"\r\n")
        self._buffer.clear()
        sent = b""
        if self.passes_long:
            raise BrokenEvents("CutEvents", "the stream ended within an event")
        if rest and not self.done:
            sent = self._event(_with_lf(rest), at_end=True)
        if not self.begun and self._no_choices:
            raise BrokenEvents(ERROR_EVENT, "the stream had no choices", self._no_choices)
        if not self.begun:
            raise BrokenEvents("NoEvents", "the stream had no event")
        if not self.finished:
            raise BrokenEvents("CutEvents", "the stream ended before the answer was complete")
        return sent

    def ending(self) -> bytes:
        """What ends a stream of chunks: the usage, if the client wants it and lacks it, and `[DONE]`."""
        return self._chunks.usage() + DONE

    def _feed(self, part: bytes) -> bytes:
        """The buffer is only copied when an event has ended: its parts may be small and many."""
        recent = bytes(self._buffer[-2:]) + part
        self._buffer += part
        if not self._started and len(self._buffer) >= len(BOM):
            self._started = True
            self._buffer = self._buffer.removeprefix(BOM)
        if self.done:
            self._buffer.clear()
            return b""
        if not _BLANK_LINE.search(recent):
            return self._overflow()
        data = bytes(self._buffer)
        half = b"\r" if data.endswith(b"\r") else b""  # its LF may follow
        complete, boundary, rest = _with_lf(data[: len(data) - len(half)]).rpartition(b"\n\n")
        complete = _EMPTY_EVENTS.sub(b"\n\n", complete)
        self._buffer = bytearray(rest + half)
        sent = b"".join(map(self._passed, (complete + boundary).split(b"\n\n"))) if boundary else b""
        return sent + self._overflow()

    def _overflow(self) -> bytes:
        """The buffered part of a long event, of which only the beginning is checked."""
        if self.done or (len(self._buffer) <= self._buffer_max_bytes and not self.passes_long):
            return b""
        if self._reads:
            raise BrokenEvents("LongEvent", "the stream has an event that is too long to be read")
        data = bytes(self._buffer)
        sent = data.rstrip(b"\r\n")  # an end of line may be the half of an event's end
        self._buffer = bytearray(data[len(sent) :])
        sent = _with_lf(sent)
        if not self.passes_long:
            _check_long(sent)
            self.passes_long = self.begun = True
        self._note_long(sent)
        return self._chunks.with_model(sent)

    def _note_long(self, data: bytes) -> None:
        """Looks for a reason to finish in a part of a long event."""
        if _FINISHED.search(self._long_end + data):
            self._finished.add(0)
        self._long_end = (self._long_end + data)[-_FINISHED_MAX_BYTES:]

    def _passed(self, event: bytes) -> bytes:
        """What to send for one event, without its end."""
        if self.passes_long:
            self.passes_long = False
            self._note_long(event)
            self._long_end = b""
            return event + b"\n\n"
        event = event.lstrip(b"\n")
        return self._event(event) if event and not self.done else b""

    def _event(self, event: bytes, *, at_end: bool = False) -> bytes:
        if event.count(b"\n") > _LINES_MAX:
            raise BrokenEvents("LongEvent", "the stream has an event with too many lines")
        data, name = _parsed(event)
        self.says_nothing &= not data and event[:1] != b":"
        if not data:  # the standard says that it is no event, but SDKs read it as one
            is_comment = self.begun and not at_end and all(line[:1] == b":" for line in event.split(b"\n"))
            return event + b"\n\n" if is_comment else b""
        if data.strip(b'"') == b"[DONE]":
            self.done = not self._typed  # those end with an event
            return self._end()
        if not data.startswith(b"{") or not data.endswith(b"}"):
            raise BrokenEvents("NoEvents", "the channel sent an event that is no JSON", data)
        if self._typed:
            name = _type_of(data) or name
        if not self.begun or at_end or name in ERROR_EVENTS or _ERROR in data or _BASE_RESP in data:
            members = _validated(data, name)
            if not self.begun:
                if not self._typed and members.get("choices", NULL) == NULL:
                    self._no_choices = self._no_choices or data
                    return b""
                self._chunks.begin(members, data)
        replaced = self._observed(data)
        self.begun = True
        if name in _CLOSING:
            self.done, self.last = True, self._chunks.with_model(event) + b"\n\n"
            return b""
        ends = self._note(data)
        self._replaced = replaced is not None
        return self._chunks.normalized(event + b"\n\n", data, ends=ends) if replaced is None else replaced

    def _note(self, data: bytes) -> bool:
        """Notes which choices finish; whether one does."""
        ends = _FINISHED.search(data) is not None
        if ends:
            self._finished |= _finished_in(data) if self._choices > 1 else {0}
        return ends

    def _end(self) -> bytes:
        """The end of choices that have none, where the server has said that the answer is complete."""
        if not self.begun or self._typed or self._replaced:
            return b""
        return self._chunks.end(set(range(self._choices)) - self._finished)

    def _observed(self, data: bytes) -> bytes | None:
        try:
            if self._chunks.wants_usage:
                self._chunks.count(object_of(loaded(data)))
            return self._observer(data) if self._observer else None
        except UNREADABLE as error:
            raise _no_json(data) from error


def loaded(data: bytes) -> Any:
    """The JSON of an event. Raises UNREADABLE, and BrokenEvents for more objects than may be in memory."""
    if has_too_many_containers(data):
        raise BrokenEvents("LargeAnswer", "the stream has an event with too many objects and arrays")
    return loads(data)


def _with_lf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def _parsed(event: bytes) -> tuple[bytes, bytes]:
    """The data of an event, without white space around it, and its name. Other lines are ignored, as the
    standard says: a page of HTML has no data."""
    values: list[bytes] = []
    name = b""
    for line in event.split(b"\n"):
        if line.startswith(b"data:"):
            values.append(line[5:])
        elif line.startswith(b"event:"):
            name = line[6:].strip()
    return b"\n".join(values).strip(), name


def _no_json(data: bytes) -> BrokenEvents:
    return BrokenEvents("NoEvents", "the channel sent an event that is no JSON", data)


def _type_of(data: bytes) -> bytes:
    """The `type` of an event's JSON; empty if it has none."""
    try:
        found = _typed.decode(data).type
    except UNREADABLE:
        found = _read(data).get("type")
    return found.encode() if isinstance(found, str) else b""


def _finished_in(data: bytes) -> set[int]:
    """The indexes of the choices that finish in this event."""
    choices = objects_of(_read(data).get("choices"))
    return {count_of(choice.get("index")) or 0 for choice in choices if choice.get("finish_reason")}


def _read(data: bytes) -> dict[str, Any]:
    try:
        return object_of(loads(data))
    except UNREADABLE as error:
        raise _no_json(data) from error


def _validated(data: bytes, name: bytes) -> Mapping[str, msgspec.Raw]:
    """The members of the JSON object. Raises BrokenEvents if the data is none, or reports an error."""
    try:
        members = strict(_object.decode, data)
        reports = reports_error(members)
    except UNREADABLE as error:
        raise _no_json(data) from error
    if name in ERROR_EVENTS or reports or _FINISHED_BY_ERROR.search(data):
        raise BrokenEvents(ERROR_EVENT, "the channel sent an error", data)
    return members


def _check_long(data: bytes) -> None:
    """Checks the beginning of a long event. Raises BrokenEvents."""
    start = _LONG.match(data)
    if start is None:
        raise BrokenEvents("LongEvent", "the stream has an event that is too long and has no JSON")
    _, name = _parsed(data[: start.end()])
    if name in ERROR_EVENTS or _LONG_ERROR.match(data, start.end()):
        raise BrokenEvents(ERROR_EVENT, "the channel sent an error", data)
