"""A response made from a chat completion: whole, or as events from the chunks of a streamed one.

    response.created, response.in_progress
      for each item:  response.output_item.added
        for each part of a message or of reasoning:
          response.content_part.added
          response.output_text.delta …, or response.refusal.delta …, or response.reasoning_text.delta …
          response.output_text.done, or …
          response.content_part.done
        for a function call:
          response.function_call_arguments.delta …
          response.function_call_arguments.done
        for a call of a custom tool, whose input is known when its arguments are complete:
          response.custom_tool_call_input.delta
          response.custom_tool_call_input.done
      response.output_item.done
    response.completed, response.incomplete or response.failed

A message or reasoning is done when another item begins. Calls are done at the end of the chat, since
the parts of several calls may alternate.
"""

import sys
from collections.abc import Sequence
from io import StringIO
from typing import Any

from msgspec import Raw

from myna.wire import completions
from myna.wire.body import to_event
from myna.wire.lenient import (
    count_of,
    dumps,
    is_json,
    joined,
    json_text_of,
    object_of,
    objects_of,
    reason_of,
    text_of,
)
from myna.wire.responses import output
from myna.wire.responses.output import PartKind, item_id
from myna.wire.responses.tools import Called, Tools

ITEM_BYTES = 1000
"""What an item counts for in the limit, beside its text."""


class UnusableAnswer(Exception):
    """The server's answer is not a chat completion, or is larger than the limit."""


class _Text:
    """An open message or an open item of reasoning, of which the last part is open."""

    def __init__(self, item_id: str, place: int, kind: PartKind) -> None:
        self.item_id = item_id
        self.place = place
        self.kind = kind
        self.text = StringIO()
        self.logprobs: list[bytes] = []  # as JSON, which takes less memory
        self.parts: list[dict[str, Any]] = []

    @property
    def is_reasoning(self) -> bool:
        return self.kind == "reasoning_text"

    def item(self, status: output.Status) -> dict[str, Any]:
        build = output.reasoning if self.is_reasoning else output.message
        return build(self.item_id, self.parts, status)


class _Call:
    """An open call of a function or a custom tool."""

    def __init__(self, item_id: str, place: int, call_id: str, called: Called) -> None:
        self.item_id = item_id
        self.place = place
        self.call_id = call_id
        self.called = called
        self.arguments = StringIO()

    def item(self, status: output.Status) -> dict[str, Any]:
        arguments = joined(self.arguments.getvalue())
        return output.call(self.item_id, self.call_id, self.called, arguments, status)


class ResponseEvents:
    """Translates one stream. `request` is the valid body of the request; `created_at` is in Unix seconds.

    The answer is accumulated for the closing events, up to `answer_max_bytes`. A response that is not to be
    streamed has no events.
    """

    def __init__(
        self,
        request: dict[str, Any],
        response_id: str,
        created_at: int,
        *,
        answer_max_bytes: int,
        streams: bool = True,
    ) -> None:
        members = output.request_members(request, response_id, created_at)
        self._members = dumps(members)[:-1]  # as bytes, which take less memory
        self._response_id = response_id
        self._tools = Tools(request.get("tools") or [])
        self._left_bytes = answer_max_bytes
        self._streams = streams
        self._sequence = 0
        self._events: list[bytes] = []
        self._items: list[dict[str, Any]] = []
        self._has_deltas = False
        self._text: _Text | None = None
        self._calls: list[_Call] = []
        self._call_at: dict[int, _Call] = {}
        self._finish_reason: str | None = None
        self._usage: dict[str, Any] | None = None

    @property
    def has_usage(self) -> bool:
        """Whether a chunk had the usage."""
        return self._usage is not None

    def feed(self, chunk: Any) -> list[bytes]:
        """The events of a chunk, perhaps none. Raises UnusableAnswer if it is not a chunk of a chat
        completion, or if the answer is too large."""
        choices = chunk.get("choices") if isinstance(chunk, dict) else False
        if not isinstance(choices, list | None):
            raise UnusableAnswer("the answer is no chat completion")
        self._begin()
        self._usage = completions.usage_in(chunk) or self._usage
        for choice in objects_of(choices):
            if count_of(choice.get("index")):
                continue
            self._finish_reason = reason_of(choice.get("finish_reason")) or self._finish_reason
            tokens = object_of(completions.logprobs(choice.get("logprobs"))).get("content") or []
            if isinstance(delta := choice.get("delta"), dict):
                self._has_deltas = True
                self._add(delta, tokens)
            elif not self._has_deltas:  # some servers repeat the whole message at the end
                self._add(object_of(choice.get("message")), tokens, whole=True)
        return self._taken()

    def finish(self, ended_at: int) -> list[bytes]:
        """The closing events of an answer that has ended well. `ended_at` in Unix seconds."""
        self._begin()
        response = self.response(ended_at)
        self._emit(f"response.{output.status_of(self._finish_reason)}", response=response)
        return self._taken()

    def response(self, ended_at: int) -> Raw:
        """The whole response, after which nothing may follow. `ended_at` in Unix seconds."""
        status = output.status_of(self._finish_reason)
        last = len(self._items) - 1
        if self._text is not None:
            self._close_text(status if self._text.place == last else "completed")
        for call in self._calls:
            self._close_call(call, status if call.place == last else "completed")
        members = output.ended_members(self._finish_reason, self._items, self._usage, ended_at)
        return self._response(members)

    def failed(self, message: str, code: str = "server_error") -> bytes:
        """The last event of an answer that has failed."""
        members = output.answer_members("failed", self._items, self._usage)
        members["error"] = {"code": code, "message": message}
        self._emit("response.failed", response=self._response(members))
        return b"".join(self._taken())

    def _begin(self) -> None:
        if self._streams and self._sequence == 0:
            response = self._response(output.answer_members("in_progress", [], None))
            self._emit("response.created", response=response)
            self._emit("response.in_progress", response=response)

    def _add(self, given: dict[str, Any], logprobs: list[dict[str, Any]], *, whole: bool = False) -> None:
        """Adds a message of the assistant, or a part of one; `logprobs` are those of its content's tokens."""
        message = completions.message(given, whole=False)
        if not isinstance(message.get("content"), str | list | None):
            raise UnusableAnswer("the answer's content is no text")
        if thought := text_of(message.get("reasoning_content")) or text_of(message.get("reasoning")):
            self._add_text("reasoning_text", thought)
        if content := text_of(message.get("content")):
            self._add_text("output_text", content, logprobs)
        if refusal := text_of(message.get("refusal")):
            self._add_text("refusal", refusal)
        for place, call in enumerate(objects_of(given.get("tool_calls"))):
            index = count_of(call.get("index"))
            self._add_call(call, index if index is not None else place if whole else 0)

    def _add_text(self, kind: PartKind, text: str, logprobs: Sequence[dict[str, Any]] = ()) -> None:
        encoded = [dumps(each) for each in logprobs]
        self._count(text)
        self._left_bytes -= sum(map(len, encoded))
        opened = self._text
        if opened is None or opened.kind != kind:
            opened = self._open_text(kind)
        opened.text.write(text)
        opened.logprobs += encoded
        of_text: dict[str, Any] = {"logprobs": logprobs} if kind == "output_text" else {}
        self._emit(f"response.{kind}.delta", **self._at(opened), delta=text, **of_text)

    def _open_text(self, kind: PartKind) -> _Text:
        """Opens a part in the open item if that can have it, else in a new item."""
        opened = self._text
        if opened is not None and not opened.is_reasoning and kind != "reasoning_text":
            self._close_part(opened)
            opened.kind = kind
        else:
            self._close_text("completed")
            place = self._new_place()
            id_kind: output.IdKind = "rs" if kind == "reasoning_text" else "msg"
            opened = self._text = _Text(item_id(id_kind, self._response_id, place), place, kind)
            self._open_item(opened)
        self._emit("response.content_part.added", **self._at(opened), part=output.part(kind, ""))
        return opened

    def _close_part(self, opened: _Text) -> None:
        text, kind = joined(opened.text.getvalue()), opened.kind
        part = output.part(kind, text, Raw(b"[%b]" % b",".join(opened.logprobs)))
        at = self._at(opened)
        done = {name: part[name] for name in ("text", "refusal", "logprobs") if name in part}
        self._emit(f"response.{kind}.done", **at, **done)
        self._emit("response.content_part.done", **at, part=part)
        opened.parts.append(part)
        opened.text, opened.logprobs = StringIO(), []

    def _close_text(self, status: output.Status) -> None:
        if self._text is not None:
            self._close_part(self._text)
            self._close_item(self._text, status)
            self._text = None

    def _add_call(self, given: dict[str, Any], index: int) -> None:
        """Adds a call of a function, or a part of one: the parts of one call have the same index."""
        function = object_of(given.get("function"))
        name, call_id = text_of(function.get("name")), str(given.get("id") or "")
        arguments = json_text_of(function.get("arguments"))
        self._count(name + arguments + call_id)
        call = self._call_at.get(index)
        if call is None or _is_next(call, name, call_id):
            self._close_text("completed")
            place, called = self._new_place(), self._tools.called(name)
            own_id = item_id("ctc" if called.kind == "custom" else "fc", self._response_id, place)
            call_id = call_id or item_id("call", self._response_id, place)
            call = self._call_at[index] = _Call(own_id, place, call_id, called)
            self._calls.append(call)
            self._open_item(call)
        if not call.called.name:
            call.called = self._tools.called(name)
        call.arguments.write(arguments)
        if arguments and call.called.kind == "function":
            at = {"item_id": call.item_id, "output_index": call.place}
            self._emit("response.function_call_arguments.delta", **at, delta=arguments)

    def _close_call(self, call: _Call, status: output.Status) -> None:
        item = call.item(status)
        at = {"item_id": call.item_id, "output_index": call.place}
        if call.called.kind == "custom":
            self._emit("response.custom_tool_call_input.delta", **at, delta=item["input"])
            self._emit("response.custom_tool_call_input.done", **at, input=item["input"])
        else:
            done = {"name": item["name"], "arguments": item["arguments"]}
            self._emit("response.function_call_arguments.done", **at, **done)
        self._close_item(call, status)

    def _new_place(self) -> int:
        """The index of a new item in the output, whose item is an empty one until it is done."""
        self._left_bytes -= ITEM_BYTES
        self._items.append({})
        return len(self._items) - 1

    def _open_item(self, opened: _Text | _Call) -> None:
        if self._streams:
            self._items[opened.place] = item = opened.item("in_progress")
            self._emit("response.output_item.added", output_index=opened.place, item=item)

    def _close_item(self, opened: _Text | _Call, status: output.Status) -> None:
        self._items[opened.place] = item = opened.item(status)
        self._emit("response.output_item.done", output_index=opened.place, item=item)

    def _at(self, opened: _Text) -> dict[str, Any]:
        return {
            "item_id": opened.item_id,
            "output_index": opened.place,
            "content_index": len(opened.parts),
        }

    def _count(self, text: str) -> None:
        self._left_bytes -= len(text.encode(errors="surrogatepass"))
        if self._left_bytes < 0:
            raise UnusableAnswer("the answer is larger than the limit")

    def _response(self, members: dict[str, Any]) -> Raw:
        """The whole response with these members."""
        return Raw(self._members + b"," + dumps(members)[1:])

    def _emit(self, kind: str, **members: Any) -> None:
        if not self._streams:
            return
        data = {"type": kind, "sequence_number": self._sequence, **members}
        self._sequence += 1
        self._events.append(to_event(data, kind))

    def _taken(self) -> list[bytes]:
        events, self._events = self._events, []
        return events


def _is_next(call: _Call, name: str, call_id: str) -> bool:
    """Whether a part begins another call, though it has the index of this one: some servers give the same to
    all calls, or none, and some no ids."""
    if not name:
        return False
    return call_id != call.call_id if call_id else is_json(call.arguments.getvalue())


def to_response(
    completion: dict[str, Any], request: dict[str, Any], response_id: str, created_at: int, ended_at: int
) -> bytes:
    """The JSON of the response to a valid request, from the first choice of a completion. Times in Unix
    seconds. Raises UnusableAnswer."""
    choice = next(iter(objects_of(completion.get("choices"))), {})
    if not isinstance(choice.get("message"), dict):
        raise UnusableAnswer("the answer has no choices with a message")
    made = ResponseEvents(request, response_id, created_at, answer_max_bytes=sys.maxsize, streams=False)
    made.feed(completion | {"choices": [choice | {"index": 0, "delta": None}]})
    return bytes(made.response(ended_at))
