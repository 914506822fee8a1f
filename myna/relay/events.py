"""The server-sent events of a channel, as they are passed on.

Source: the event stream format of the HTML standard, and OpenAI's use of it: each event has one JSON object,
and the last one is `[DONE]`. Pure: bytes in, bytes out.

An event is passed on as soon as it is complete, unparsed, with LF as line end. Comments are passed on after
the first event and dropped before it, so that nothing is sent before a channel has begun to answer. The
last event is not passed on: the caller sends it after the call was kept.
"""

import re
from collections import deque
from typing import Final, Protocol

import msgspec

BUFFERED_MAX_BYTES: Final = 128 * 1024
"""How much of an event is buffered until it is complete. A longer event is passed on as it arrives."""
OBSERVED_MAX_BYTES: Final = 2**21
"""The longest event for an observer, which needs it whole."""
_RECENT: Final = 4
_RECENT_TAIL_BYTES: Final = 4096
_BOM: Final = b"\xef\xbb\xbf"
_FAILED: Final = (b"error", b"response.failed")
"""The names of events that report an error."""
_ERROR: Final = b'"error"'
"""In each event that reports an error, and in few others."""
_LONG: Final = re.compile(rb"(?:event: ?([^\n]*)\n)?data: ?(?=\{)")
"""The beginning of a long event, with its name."""
_LONG_TYPE: Final = re.compile(rb'\{\s*"type"\s*:\s*"([a-z._]+)"')
_LONG_ERROR: Final = re.compile(rb'\{\s*"error"\s*:\s*[^n\s]')
_FIELDS: Final = re.compile(rb"(?:data|event|id|retry)?(?:$|:)")
_FINISHED: Final = re.compile(rb'"finish_reason" ?: ?"')
_CLOSING: Final = (b"response.completed", b"response.incomplete")
"""The names of the last event of POST /responses, which has no `[DONE]`."""
_LONG_CLOSING: Final = re.compile(rb'"type"\s*:\s*"response\.(?:completed|incomplete)"\s*\}\s*$')
_FINISHED_BY_ERROR: Final = re.compile(rb'"finish_reason" ?: ?"error"')
_NULL: Final = b"null"


class _Typed(msgspec.Struct):
    type: str = ""


_typed = msgspec.json.Decoder(_Typed)
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])


class BrokenEvents(Exception):
    """The channel's stream can't be passed on. The message contains nothing that the channel sent; `detail`
    does, for the log. `kind` is the label of the metric."""

    def __init__(self, kind: str, why: str, detail: bytes = b"") -> None:
        super().__init__(why)
        self.kind = kind
        self.detail = detail


class Observer(Protocol):
    """Reads the JSON of each event, and may replace what is sent for it."""

    def feed(self, data: bytes) -> bytes | None:
        """What to send in place of this event; None: the event itself. Raises msgspec.DecodeError and
        BrokenEvents."""


class EventRelay:
    """One stream of events. `choices` is how many choices must finish if there is no `[DONE]`. Events that
    are `typed` have their name in the JSON too, and perhaps only there.

    `begun`: an event has arrived that is no error. `done`: the last event has arrived; what follows it is
    dropped. `last` is that event, or its end, unless it is `[DONE]`. `passes_long`: a part of a long event
    was passed on, without its end.
    """

    def __init__(self, observer: Observer | None = None, *, choices: int = 1, typed: bool = False) -> None:
        self._observer = observer
        self._choices = choices
        self._typed = typed
        self._is_plain = observer is None and choices == 1 and not typed
        self._buffer_max_bytes = BUFFERED_MAX_BYTES if observer is None else OBSERVED_MAX_BYTES
        self._buffer = bytearray()
        self.passes_long = self._closes = False
        self._recent: deque[bytes] = deque(maxlen=_RECENT)
        self._finished_choices = 0
        self._started = self.begun = self.done = False
        self.last = b""

    @property
    def finished(self) -> bool:
        """Whether the answer is complete: `[DONE]`, or a reason to finish for each choice. That of a single
        choice is in one of the last events."""
        if self.done or self._choices == 1:
            return self.done or any(_FINISHED.search(event) for event in self._recent)
        return self._finished_choices >= self._choices

    def feed(self, part: bytes) -> bytes:
        """What to send after this part of the body; may be empty. Raises BrokenEvents."""
        if (
            self._is_plain
            and self.begun
            and not self._buffer
            and not self.passes_long
            and part.startswith(b"data: {")
            and part.find(b"\n") == len(part) - 2  # one event of one line
            and part.endswith(b"}\n\n")
            and _ERROR not in part
            and not self.done
        ):
            self._recent.append(part[-_RECENT_TAIL_BYTES:])
            return part
        return self._feed(part)

    def close(self) -> bytes:
        """The body has ended: what is left to send. Raises BrokenEvents if the answer is not complete."""
        rest = bytes(self._buffer).strip(b"\r\n")
        self._buffer.clear()
        sent = b""
        if self.passes_long and not self.done:
            raise BrokenEvents("CutEvents", "the stream ended within an event")
        if rest and not self.done:
            sent = self._event(_with_lf(rest), at_end=True)
        if not self.begun:
            raise BrokenEvents("NoEvents", "the stream had no event")
        if not self.finished:
            raise BrokenEvents("CutEvents", "the stream ended before the answer was complete")
        return sent

    def _feed(self, part: bytes) -> bytes:
        self._buffer += part
        if not self._started and len(self._buffer) >= len(_BOM):
            self._started = True
            self._buffer = self._buffer.removeprefix(_BOM)
        if self.done:
            self._buffer.clear()
            return b""
        if b"\n" not in part and b"\r" not in part:  # no event has ended
            return self._overflow()
        data = bytes(self._buffer)
        half = b"\r" if data.endswith(b"\r") else b""  # its LF may follow
        complete, boundary, rest = _with_lf(data[: len(data) - len(half)]).rpartition(b"\n\n")
        self._buffer = bytearray(rest + half)
        sent = b"".join(map(self._passed, (complete + boundary).split(b"\n\n"))) if boundary else b""
        return sent + self._overflow()

    def _overflow(self) -> bytes:
        """What is buffered of a long event."""
        data = bytes(self._buffer)
        if self.done or (len(data) <= self._buffer_max_bytes and not self.passes_long):
            return b""
        if self._observer is not None:
            raise BrokenEvents("LongEvent", "the stream has an event that is too long to be read")
        sent = data.rstrip(b"\r\n")  # an end of line may be the half of an event's end
        if self.passes_long:
            self._note_more(sent)
        else:
            self._begin_long(sent)
        self._buffer = bytearray(data[len(sent) :])
        return sent

    def _begin_long(self, data: bytes) -> None:
        """Checks the beginning of a long event, all that is read of it but its end."""
        start = _LONG.match(data)
        if start is None or b"\n" in data[start.end() :]:
            raise BrokenEvents("LongEvent", "the stream has a line that is too long and no data")
        name, typed = start[1], _LONG_TYPE.match(data, start.end())
        if self._typed and not name and typed:
            name = typed[1]
        if name in _FAILED or _LONG_ERROR.match(data, start.end()):
            raise BrokenEvents("ErrorEvent", "the channel sent an error", data)
        self.passes_long = self.begun = True
        self._closes = name in _CLOSING
        self._recent.append(data[-_RECENT_TAIL_BYTES:])

    def _note_more(self, data: bytes) -> None:
        """Remembers the end of a long event, whose parts arrive one by one."""
        self._recent[-1] = (self._recent[-1] + data[-_RECENT_TAIL_BYTES:])[-_RECENT_TAIL_BYTES:]

    def _end_long(self, end: bytes) -> bytes:
        """What to send at the end of a long event. That of the last event of the stream is left for `last`: a
        client can't read an event without its end."""
        self._note_more(end)
        self._finished_choices += len(_FINISHED.findall(self._recent[-1]))
        if self._closes or (self._typed and _LONG_CLOSING.search(self._recent[-1])):
            self.done, self.last = True, end + b"\n\n"
            return b""
        self.passes_long = False
        return end + b"\n\n"

    def _passed(self, event: bytes) -> bytes:
        """What to send for one event, without its end."""
        if self.done:
            return b""
        if self.passes_long:
            return self._end_long(event)
        event = event.lstrip(b"\n")
        return self._event(event) if event else b""

    def _event(self, event: bytes, *, at_end: bool = False) -> bytes:
        data, name = _parsed(event)
        if data is None:  # comments alone
            return event + b"\n\n" if self.begun and not at_end else b""
        if data.strip() == b"[DONE]":
            self.done = True
            return b""
        if not data.startswith(b"{") or not data.rstrip().endswith(b"}"):
            raise BrokenEvents("NoEvents", "the channel sent an event that is no JSON", data)
        if self._typed and not name:
            name = _type_of(data)
        if name in _FAILED or _ERROR in data or not self.begun or at_end:
            _check(data, name)
        replaced = self._observed(data)
        self.begun = True
        if name in _CLOSING:
            self.done, self.last = True, event + b"\n\n"
            return b""
        self._recent.append(data[-_RECENT_TAIL_BYTES:])
        if self._choices > 1:
            self._finished_choices += len(_FINISHED.findall(data))
        return event + b"\n\n" if replaced is None else replaced

    def _observed(self, data: bytes) -> bytes | None:
        if self._observer is None:
            return None
        try:
            return self._observer.feed(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BrokenEvents("NoEvents", "the channel sent an event that is no JSON", data) from error


def _with_lf(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in data else data


def _parsed(event: bytes) -> tuple[bytes | None, bytes]:
    """The data of an event, None if it has none, and its name. Raises BrokenEvents for lines of no event."""
    values: list[bytes] = []
    name = b""
    for line in event.split(b"\n"):
        if line.startswith(b"data:"):
            values.append(line[5:].removeprefix(b" "))
        elif line.startswith(b"event:"):
            name = line[6:].strip()
        elif not _FIELDS.match(line):
            raise BrokenEvents("NoEvents", "the channel sent something that is no event stream", event)
    return (b"\n".join(values) if values else None), name


def _type_of(data: bytes) -> bytes:
    """The `type` of an event's JSON; empty if it has none."""
    try:
        return _typed.decode(data).type.encode()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenEvents("NoEvents", "the channel sent an event that is no JSON", data) from error


def _check(data: bytes, name: bytes) -> None:
    """Raises BrokenEvents unless the data is a JSON object that reports no error."""
    try:
        fields = _object.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BrokenEvents("NoEvents", "the channel sent an event that is no JSON", data) from error
    reports = bytes(fields.get("error", _NULL)) != _NULL or bytes(fields.get("object", _NULL)) == _ERROR
    if name in _FAILED or reports or _FINISHED_BY_ERROR.search(data):
        raise BrokenEvents("ErrorEvent", "the channel sent an error", data)
