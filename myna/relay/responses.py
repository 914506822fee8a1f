"""POST /openai/v1/responses: passed on to a channel that has the endpoint, translated to a chat for others.

Both kinds may be among the channels of one route, so a request is checked as for a translation in any case:
what it may contain doesn't depend on the channel that answers. The accounts share a channel's key, by which
its server would let one account read what it stores for another. Nothing is stored there.
"""

import time
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from myna import routes
from myna.channels import Channel
from myna.chat.failover import FailedAttempt, logged
from myna.errors import MynaError
from myna.http.large_bodies import read_body
from myna.ids import new_name
from myna.keys import UnverifiedCaller
from myna.relay import answers
from myna.relay.answers import usage_of
from myna.relay.events import BrokenEvents, Observer
from myna.relay.plan import CHAT, Planner, ReadRequest, RelayPlan, read_fields
from myna.relay.shapes import han_count_of
from myna.telemetry import access_log
from myna.wire.body import convert, decode, listed
from myna.wire.encode import to_event
from myna.wire.lenient import UNREADABLE, is_set, loads, object_of, repaired
from myna.wire.openai import OpenAIChatRequest
from myna.wire.responses.answer import to_response
from myna.wire.responses.completion import UnusableAnswer
from myna.wire.responses.events import ResponseEvents
from myna.wire.responses.output import ID_PREFIX
from myna.wire.responses.request import ResponsesRequest, to_chat
from myna.wire.responses.tools import Tools

PATH: Final = "/responses"
REFUSE_SETTING: Final = "refuse"
_ENDED: Final = (None, "completed", "incomplete")
"""The statuses of a response that is kept. Some servers leave it out."""


class _Response(Struct):
    """A channel's response, as far as it is read."""

    output: list[msgspec.Raw]
    status: str | None = None
    error: msgspec.Raw = msgspec.Raw(b"null")


_response = msgspec.json.Decoder(_Response)


class ResponsesPlan(RelayPlan, frozen=True, kw_only=True):
    """A plan of the chat that a request is translated to. `passed` is the request for a channel that has the
    endpoint, without its model, as a JSON object. `repeated` are the members that a response repeats.
    `created_at` in Unix seconds."""

    passed: bytes
    repeated: bytes
    response_id: str
    created_at: int

    def path_for(self, channel: Channel) -> str:
        return PATH if channel.responses else super().path_for(channel)

    def body_for(self, channel: Channel) -> bytes:
        if not channel.responses:
            return super().body_for(channel)
        model = routes.model_for(self.route, channel.model, self.model)
        return b'{"model":%b,%b' % (msgspec.json.encode(model), self.passed[1:])

    def answer_of(self, channel: Channel, body: bytes) -> bytes:
        if channel.responses:
            return answers.with_model(checked(body, channel), self.model)
        completion = answers.decoded(super().answer_of(channel, body))
        try:
            response = to_response(
                completion, self.request(), self.response_id, self.created_at, int(time.time())
            )
        except UnusableAnswer as error:
            raise FailedAttempt("NoCompletion", "the answer is no chat completion", f": {error}") from error
        return msgspec.json.encode(response)

    def streamed(self, channel: Channel, body: bytes) -> bytes:
        if channel.responses:
            raise FailedAttempt("NoEvents", "the channel's response is not a stream")
        return super().streamed(channel, body)

    def has_typed_events(self, channel: Channel) -> bool:
        return channel.responses

    def shape(self, answer_max_bytes: int) -> "ResponseShape":
        return ResponseShape(self, answer_max_bytes)

    def request(self) -> dict[str, Any]:
        """The members of the request that a response repeats."""
        return object_of(loads(self.repeated))


class ResponseShape:
    """The events of a response: a channel's as they are, or translated."""

    def __init__(self, plan: ResponsesPlan, answer_max_bytes: int) -> None:
        self._plan = plan
        self._answer_max_bytes = answer_max_bytes
        self._begin()

    def _begin(self) -> None:
        self._events: ResponseEvents | None = None
        self._completion_tokens = 0

    def observer_for(self, channel: Channel) -> Observer | None:
        self._begin()  # a channel that failed has perhaps been read
        if channel.responses:
            return None
        self._events = ResponseEvents(
            self._plan.request(),
            self._plan.response_id,
            self._plan.created_at,
            answer_max_bytes=self._answer_max_bytes,
        )
        return self

    def feed(self, data: bytes) -> bytes:
        """The events for a chunk of a chat. Raises UNREADABLE and BrokenEvents."""
        chunk = loads(data)
        if self._events is None:
            raise RuntimeError("a chunk of a channel whose events pass unparsed")
        try:
            events = self._events.feed(chunk)
        except UnusableAnswer as error:
            raise BrokenEvents(
                "NoCompletion", "the answer can't be translated", str(error).encode()
            ) from error
        self._completion_tokens += han_count_of(chunk)
        return b"".join(events)

    def last(self) -> bytes:
        """Counts the usage if the channel has not sent it."""
        if self._events is None:  # the channel's own last event was passed on
            return b""
        if not self._events.has_usage:
            counted = usage_of(self._plan.prompt_tokens, self._completion_tokens)
            self._events.feed({"choices": [], "usage": msgspec.to_builtins(counted)})
        return b"".join(self._events.finish(int(time.time())))

    def failed(self, error: MynaError) -> bytes:
        """A failed response. Where events pass unparsed, its members and the number of events are unknown: it
        is a plain error with the number 0."""
        if self._events is not None:
            return self._events.failed(error.message)
        data = {
            "type": "error",
            "sequence_number": 0,
            "code": "server_error",
            "message": error.message,
            "param": None,
        }
        return to_event(data, "error")


class ReadResponses(Struct, frozen=True):
    """A request as it was translated, and what a `ResponsesPlan` needs of it besides. `ignored_tools` are the
    types of tools that nothing here can run, as the value of a header."""

    chat: ReadRequest
    passed: bytes
    repeated: bytes
    ignored_tools: str


def read(body: bytes, *, refuses_hosted: bool) -> ReadResponses:
    """The request with this body, without tools that nothing here can run, or none if it `refuses_hosted`.
    Raises InvalidRequest, whose message begins with the field's name."""
    fields, request = decode(body, ResponsesRequest)
    tools = Tools(request.tools or [], refuses_hosted=refuses_hosted)
    if tools.hosted:
        fields |= {"tools": tools.kept}
    chat = to_chat(fields, tools)
    passed = {name: value for name, value in fields.items() if name != "model"} | {"store": False}
    repeated = {name: value for name, value in fields.items() if name != "input"}
    return ReadResponses(
        read_fields(CHAT, chat, convert(chat, OpenAIChatRequest)),
        msgspec.json.encode(passed),
        msgspec.json.encode(repeated),
        listed(dict.fromkeys(tools.hosted), len(set(tools.hosted))),
    )


async def plan(planner: Planner, caller: UnverifiedCaller, body: bytes) -> ResponsesPlan:
    """The plan of a request. Instructions are not spoken, also where the route has intents. Raises
    InvalidRequest, ModelNotFound, TooManyBodies."""
    refuses = planner.settings.hosted_tools == REFUSE_SETTING
    request = await read_body(partial(read, body, refuses_hosted=refuses), len(body), caller.key_hash)
    access_log.details().ignored_tools = request.ignored_tools
    planned = structs.asdict(planner.planned(request.chat)) | {"speaks": False}
    return ResponsesPlan(
        **planned,
        passed=request.passed,
        repeated=request.repeated,
        response_id=ID_PREFIX + new_name(),
        created_at=int(time.time()),
    )


def checked(body: bytes, channel: Channel) -> bytes:
    """A channel's response, repaired if strict readers can't read it. Raises FailedAttempt if it is none, has
    not ended or reports an error."""
    try:
        try:
            response = _response.decode(body)
        except UNREADABLE:
            body, readable = repaired(body)
            response = _response.decode(readable)
    except UNREADABLE as error:
        raise FailedAttempt("NoResponse", "the answer is not what was asked for", f": {error}") from error
    if response.status not in _ENDED or is_set(response.error):
        raise FailedAttempt("FailedResponse", "the channel's response failed", logged(body, channel))
    return body
