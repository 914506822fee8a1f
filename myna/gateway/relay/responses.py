"""POST /openai/v1/responses: passed on to a channel that has the endpoint, translated to a chat for others.

Both kinds may be among the channels of one route, so a request is checked as for a translation in any case:
what it may contain doesn't depend on the channel that answers. The accounts share a channel's key, by which
its server would let one account read what it stores for another. Nothing is stored there: a response that the
site keeps, or that continues one, is translated for every channel.
"""

import time
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from myna.accounts.keys import UnverifiedCaller
from myna.billing.ledger import Call
from myna.channels import routes
from myna.channels.channels import Channel
from myna.engines.pool.admission import Slot
from myna.errors import MynaError
from myna.gateway.failover import FailedAttempt, from_answer, from_error
from myna.gateway.relay import answers
from myna.gateway.relay.events import BrokenEvents, EventRelay, Observer, loaded
from myna.gateway.relay.plan import CHAT, LeftOut, ReadRequest, RelayPlan, RelayPlanner, Shape, read_fields
from myna.gateway.relay.stored_responses import Earlier, StoredResponses, referenced_in
from myna.gateway.relay.stored_responses import own_items as own_items_of
from myna.http.request import read_body
from myna.lib.ids import new_name
from myna.store.queries.stored_responses import StoredResponse
from myna.wire import completions
from myna.wire.body import convert, decode, has_too_many_containers, listed, to_event
from myna.wire.failures import REFUSED, UNSUPPORTED
from myna.wire.lenient import UNREADABLE, dumps, is_set, loads, object_of, repaired
from myna.wire.openai import OpenAIChatRequest
from myna.wire.responses.events import ResponseEvents, UnusableAnswer, to_response
from myna.wire.responses.output import ID_PREFIX
from myna.wire.responses.request import REASONING, ResponsesRequest, to_chat
from myna.wire.responses.tools import Tools, is_of_tools

PATH: Final = "/responses"
ADDED: Final = {"stream_options": "", "max_completion_tokens": "max_tokens", REASONING: ""}
"""Members that the translation adds, with their names at older or stricter servers; "" for none. The last one
is of messages."""
_LEFT_OUT_MAX: Final = 1000
_ENDED: Final = (None, "completed", "incomplete")
"""The statuses of a response that is kept. Some servers leave it out."""


class _Response(Struct):
    """A channel's response, as far as it is read."""

    output: list[msgspec.Raw]
    status: str | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


class _Event(Struct):
    """An event of a response, as far as it is read."""

    sequence_number: int = -1
    response: msgspec.Raw = msgspec.Raw(b"")


_response = msgspec.json.Decoder(_Response)
_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_event = msgspec.json.Decoder(_Event)
_messages = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


class ReadResponses(Struct, frozen=True):
    """A request as it was translated to a chat. `passed` is the request for a channel that has the endpoint,
    without its model, as a JSON object, empty if each channel gets a chat. `repeated` are the members that a
    response repeats. `own_items` are stored with it. `ignored_tools` are the types of tools that nothing here
    can run, as the value of a header."""

    chat: ReadRequest
    passed: bytes
    repeated: bytes
    own_items: bytes
    ignored_tools: str


class ResponsesPlan(RelayPlan, frozen=True, kw_only=True):
    """A plan of the chat that a request is translated to. `created_at` in Unix seconds. `store` keeps the
    response, with the id of the response that it continues.

    Older servers refuse members that the translation adds. Such a channel is asked again without them, and
    they are `left_out` of later requests if it answers then. `leaves_out` is by channel, for this request.
    """

    translated: ReadResponses
    response_id: str
    created_at: int
    store: StoredResponses | None
    previous_id: str | None
    left_out: LeftOut
    leaves_out: dict[str, frozenset[str]]

    def passes_to(self, channel: Channel) -> bool:
        """Whether this channel gets the request as it is."""
        return bool(channel.responses and self.translated.passed)

    def path_for(self, channel: Channel) -> str:
        return PATH if self.passes_to(channel) else super().path_for(channel)

    def body_for(self, channel: Channel) -> bytes:
        model = routes.model_for(self.route, channel.model, self.request.model)
        if self.passes_to(channel):
            return b'{"model":%b,%b' % (msgspec.json.encode(model), self.translated.passed[1:])
        left_out = self._leaves_out(channel)
        if not left_out:
            return super().body_for(channel)
        members = _members.decode(self.request.fields)
        older: dict[str, Any] = {ADDED[name]: members.pop(name) for name in left_out if name in members}
        older.pop("", None)
        if REASONING in left_out:
            messages = _messages.decode(members["messages"])
            older["messages"] = [{name: one[name] for name in one if name != REASONING} for one in messages]
        return msgspec.json.encode({"model": model} | members | older)

    def adapt(self, channel: Channel, failed: FailedAttempt) -> bool:
        left_out, error = self._leaves_out(channel), failed.server_error
        sent = {name for name in ADDED if name.encode() in self.request.fields} - left_out
        if self.passes_to(channel) or failed.meaning not in (REFUSED, UNSUPPORTED) or not sent:
            return False
        said = error.param + error.message
        refused = {name for name in sent if name in said or not said}
        self.leaves_out[channel.name] = left_out | refused
        return bool(refused)

    def _leaves_out(self, channel: Channel) -> frozenset[str]:
        known = self.left_out.get(self._asked(channel), frozenset())
        return self.leaves_out.get(channel.name, known)

    def _asked(self, channel: Channel) -> tuple[str, str, str]:
        return channel.name, channel.url, routes.model_for(self.route, channel.model, self.request.model)

    def answer_of(self, channel: Channel, body: bytes) -> bytes:
        if self.passes_to(channel):
            return answers.with_model(validated(body, channel), self.request.model)
        request = self.request
        members, choices = answers.normalized(body, request, channel)
        if choices is None:
            raise FailedAttempt("LargeAnswer", answers.TOO_MANY)
        completion = members | {"choices": choices}
        try:
            return to_response(
                completion, self.repeated(), self.response_id, self.created_at, int(time.time())
            )
        except UnusableAnswer as error:
            raise FailedAttempt("NoCompletion", "the answer is no chat completion", f": {error}") from error

    def parrot(self, channel: Channel) -> bytes:
        return self.answer_of(channel, super().parrot(channel))

    def streamed(self, channel: Channel, body: bytes) -> bytes:
        if self.passes_to(channel):
            raise FailedAttempt("NoEvents", "the channel's response is not a stream")
        return super().streamed(channel, body)

    def has_typed_events(self, channel: Channel) -> bool:
        return self.passes_to(channel)

    async def ended(self, call: Call, answer: bytes) -> None:
        if left_out := self.leaves_out.get(call.details.channel):
            if len(self.left_out) >= _LEFT_OUT_MAX:
                self.left_out.clear()
            channel = next(channel for channel in self.channels if channel.name == call.details.channel)
            self.left_out[self._asked(channel)] = left_out
        if self.store is None:
            return
        _, _, data = answer.rpartition(b"\ndata: ")  # of the last event, if there are events
        response = _event.decode(data).response or answer
        row = StoredResponse(self.response_id, self.previous_id, self.translated.own_items, bytes(response))
        await self.store.put(call.account_id, row)

    def shape(self, answer_max_bytes: int) -> "ResponseShape":
        return ResponseShape(self, answer_max_bytes)

    def repeated(self) -> dict[str, Any]:
        """The members of the request that a response repeats."""
        return object_of(loads(self.translated.repeated))


class ResponseShape(Shape):
    """The events of a response: a channel's as they are, or translated. Each kind ends with `response.failed`
    if it fails: some clients don't know the event `error`, and show nothing of it."""

    def __init__(self, plan: ResponsesPlan, answer_max_bytes: int) -> None:
        self._plan = plan
        self._answer_max_bytes = answer_max_bytes
        self._begin()

    def _begin(self) -> None:
        self._events: ResponseEvents | None = None  # None: they pass
        self._sequence = -1
        self._passed_response = b""
        self._completion_tokens = 0

    def observer_for(self, channel: Channel) -> Observer:
        self._begin()  # a channel that failed has perhaps been read
        if not self._plan.passes_to(channel):
            self._events = self._translation()
        return self._observe

    def _translation(self) -> ResponseEvents:
        return ResponseEvents(
            self._plan.repeated(),
            self._plan.response_id,
            self._plan.created_at,
            answer_max_bytes=self._answer_max_bytes,
        )

    def _observe(self, data: bytes) -> bytes | None:
        """The events for a chunk of a chat; None for an event that passes. Raises UNREADABLE and
        BrokenEvents."""
        if self._events is None:
            self._note(data)
            return None
        chunk = loaded(data)
        try:
            events = self._events.feed(chunk)
        except UnusableAnswer as error:
            raise BrokenEvents(
                "NoCompletion", "the answer can't be translated", str(error).encode()
            ) from error
        self._completion_tokens += answers.han_count_of(chunk)
        return b"".join(events)

    def _note(self, data: bytes) -> None:
        """Notes of an event that passes what a failure repeats: its number, and the response that began."""
        try:
            event = _event.decode(data)
            if event.response and not self._passed_response and not has_too_many_containers(data):
                self._passed_response = dumps(object_of(loads(bytes(event.response))))
        except UNREADABLE:
            event = _Event()  # clients that are less strict may read it
        self._sequence = max(event.sequence_number, self._sequence + 1)

    def last(self, relay: EventRelay) -> bytes:
        """Counts the usage if the channel has not sent it."""
        if self._events is None:
            return relay.last
        if not self._events.has_usage:
            counted = completions.counted_usage(self._plan.request.prompt_tokens, self._completion_tokens)
            self._events.feed({"choices": [], "usage": counted})
        return b"".join(self._events.finish(int(time.time())))

    def error_event(self, error: MynaError) -> bytes:
        """The failed response: if its events pass, the one that the channel began."""
        code = error.code or "server_error"
        if not self._passed_response:
            return (self._events or self._translation()).failed(error.message, code)
        members = {"status": "failed", "error": {"code": code, "message": error.message}}
        data = {
            "type": "response.failed",
            "sequence_number": self._sequence + 1,
            "response": loads(self._passed_response) | members | {"model": self._plan.request.model},
        }
        return to_event(data, "response.failed")


def decoded(body: bytes) -> tuple[dict[str, Any], ResponsesRequest, list[str]]:
    """The fields of a body, the same as a struct, and the ids of the responses whose items it refers to.
    Raises InvalidRequest."""
    fields, request = decode(body, ResponsesRequest)
    return fields, request, referenced_in(request.input)


def read(
    fields: dict[str, Any], request: ResponsesRequest, earlier: Earlier | None, *, refuses_hosted: bool
) -> ReadResponses:
    """The request with these fields, without tools that nothing here can run, or none if it `refuses_hosted`.
    Raises InvalidRequest, whose message begins with the field's name."""
    items = own_items_of(request.input)
    before, resolved = earlier.resolved(items) if earlier else ([], items)
    every = [*before, *resolved]
    tools = Tools(request.tools or [], every, first=-len(before), refuses_hosted=refuses_hosted)
    if len(tools.kept) != len(request.tools or []) or tools.hosted:
        said = [item for item in items if not is_of_tools(item.get("type"))]
        choice = tools.kept_choice(fields.get("tool_choice"))
        fields |= {"input": said, "tools": tools.kept, "tool_choice": choice}
    chat = to_chat(fields | {"input": resolved}, tools, before if earlier else None)
    passes = earlier is None or not (earlier.stores or earlier.continued or earlier.referenced)
    if earlier:
        fields |= {"store": earlier.stores}
    passed = {name: value for name, value in fields.items() if name != "model"} | {"store": False}
    repeated = {name: value for name, value in fields.items() if name != "input"}
    return ReadResponses(
        chat=read_fields(CHAT, chat, convert(chat, OpenAIChatRequest)),
        passed=msgspec.json.encode(passed) if passes else b"",
        repeated=msgspec.json.encode(repeated),
        own_items=msgspec.json.encode(items) if earlier else b"",
        ignored_tools=listed(dict.fromkeys(tools.hosted)),
    )


async def plan(
    planner: RelayPlanner, stored: StoredResponses, caller: UnverifiedCaller, body: bytes, _: Slot
) -> ResponsesPlan:
    """The plan of a request. Instructions are not spoken, also where the route has intents. Raises
    InvalidRequest, ModelNotFound, TooManyBodies, and what `StoredResponses.earlier` raises."""
    fields, given, referenced = await read_body(partial(decoded, body), len(body), caller.details.account_id)
    earlier = await stored.earlier(caller, given, referenced)
    refuses = planner.config.settings.hosted_tools == "refuse"
    translate = partial(read, fields, given, earlier, refuses_hosted=refuses)
    size_bytes = len(body) + (earlier.size_bytes if earlier else 0)
    request = await read_body(translate, size_bytes, caller.details.account_id)
    caller.details.ignored_tools = request.ignored_tools
    chat = planner.planned(request.chat)
    return ResponsesPlan(
        request=chat.request,
        route=chat.route,
        channels=chat.channels,
        order=chat.order,
        translated=request,
        left_out=planner.left_out,
        leaves_out={},
        response_id=ID_PREFIX + new_name(),
        created_at=int(time.time()),
        store=stored if earlier and earlier.stores else None,
        previous_id=given.previous_response_id,
    )


def validated(body: bytes, channel: Channel) -> bytes:
    """A channel's response, repaired if strict readers can't read it. Raises FailedAttempt if it is none, has
    not ended or reports an error."""
    try:
        try:
            response = _response.decode(body)
        except UNREADABLE:
            body, readable = repaired(body)
            response = _response.decode(readable)
    except UNREADABLE as error:
        raise from_answer(
            "NoResponse", "the answer is not what was asked for", body, channel, f": {error}"
        ) from error
    if response.status not in _ENDED or is_set(response.error):
        raise from_error("FailedResponse", "the channel's response failed", body, channel)
    return body
