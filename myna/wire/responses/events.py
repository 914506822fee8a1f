"""The events of a streamed response, made from the chunks of a streamed chat completion.

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

from collections.abc import Sequence
from io import StringIO
from typing import Any

from msgspec import Raw

from myna.wire.body import to_event
from myna.wire.lenient import dumps, is_json, joined
from myna.wire.responses import output
from myna.wire.responses.completion import ChatMessage, ChatUsage, ToolCall, UnusableAnswer, read
from myna.wire.responses.output import ItemIds, PartKind
from myna.wire.responses.tools import Called, Tools

ITEM_BYTES = 1000
"""What an item counts for in the limit, beside its text."""


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

    The answer is accumulated for the closing events, up to `answer_max_bytes`.
    """

    def __init__(
        self, request: dict[str, Any], response_id: str, created_at: int, *, answer_max_bytes: int
    ) -> None:
        members = output.request_members(request, response_id, created_at)
        self._members = dumps(members)[1:]  # as bytes, which take less memory
        self._ids = ItemIds(response_id)
        self._tools = Tools(request.get("tools") or [])
        self._left_bytes = answer_max_bytes
        self._sequence = 0
        self._events: list[bytes] = []
        self._items: list[dict[str, Any]] = []
        self._has_deltas = False
        self._text: _Text | None = None
        self._calls: list[_Call] = []
        self._call_at: dict[int, _Call] = {}
        self._finish_reason: str | None = None
        self._usage: ChatUsage | None = None

    @property
    def has_usage(self) -> bool:
        """Whether a chunk had the usage."""
        return self._usage is not None

    def feed(self, chunk: Any) -> list[bytes]:
        """The events of a chunk, perhaps none. Raises UnusableAnswer if it is no chunk of a chat completion,
        or if the answer is too large."""
        decoded = read(chunk)
        self._begin()
        self._usage = decoded.usage or self._usage
        for choice in decoded.choices:
            if not choice.index:
                self._finish_reason = choice.finish_reason or self._finish_reason
                self._has_deltas = self._has_deltas or choice.delta is not None
                whole = None if self._has_deltas else choice.message  # some repeat it at the end
                self._add(choice.delta or whole or ChatMessage())
        return self._taken()

    def finish(self, ended_at: int) -> list[bytes]:
        """The closing events of an answer that has ended well. `ended_at` in Unix seconds."""
        self._begin()
        status = output.status_of(self._finish_reason)
        last = len(self._items) - 1
        if self._text is not None:
            self._close_text(status if self._text.place == last else "completed")
        for call in self._calls:
            self._close_call(call, status if call.place == last else "completed")
        members = output.ended_members(self._finish_reason, self._items, self._usage, ended_at)
        self._emit(f"response.{status}", response=self._response(members))
        return self._taken()

    def failed(self, message: str, code: str = "server_error") -> bytes:
        """The last event of an answer that has failed."""
        members = output.answer_members("failed", self._items, self._usage)
        members["error"] = {"code": code, "message": message}
        self._emit("response.failed", response=self._response(members))
        return b"".join(self._taken())

    def _begin(self) -> None:
        if self._sequence == 0:
            response = self._response(output.answer_members("in_progress", [], None))
            self._emit("response.created", response=response)
            self._emit("response.in_progress", response=response)

    def _add(self, delta: ChatMessage) -> None:
        if delta.reasoning:
            self._add_text("reasoning_text", delta.reasoning)
        if delta.content:
            self._add_text("output_text", delta.content, delta.logprobs)
        if delta.refusal:
            self._add_text("refusal", delta.refusal)
        for call in delta.tool_calls:
            self._add_call(call)

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
            item_id = self._ids.reasoning(place) if kind == "reasoning_text" else self._ids.message(place)
            opened = self._text = _Text(item_id, place, kind)
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

    def _add_call(self, delta: ToolCall) -> None:
        name, arguments = delta.name, delta.arguments
        self._count(name + arguments + delta.id)
        call = self._call_at.get(delta.index)
        if call is None or _is_next(call, delta):
            self._close_text("completed")
            place = self._new_place()
            called, call_id = self._tools.called(name), delta.id or self._ids.call(place)
            item_id = self._ids.tool_call(place, called.kind)
            call = self._call_at[delta.index] = _Call(item_id, place, call_id, called)
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
        return Raw(dumps(members)[:-1] + b"," + self._members)

    def _emit(self, kind: str, **members: Any) -> None:
        data = {"type": kind, "sequence_number": self._sequence, **members}
        self._sequence += 1
        self._events.append(to_event(data, kind))

    def _taken(self) -> list[bytes]:
        events, self._events = self._events, []
        return events


def _is_next(call: _Call, delta: ToolCall) -> bool:
    """Whether a part begins another call, though it has the index of this one: some servers give the same to
    all calls, or none, and some no ids."""
    if not delta.name:
        return False
    return delta.id != call.call_id if delta.id else is_json(call.arguments.getvalue())
