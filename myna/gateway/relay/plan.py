"""What a request asks for: its route, the channels to try in order, the body to send them, and how a stream
looks to the client: what is read of each event, the last ones, and an error."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from myna.accounts.keys import UnverifiedCaller
from myna.channels import routes
from myna.channels.channels import PARROT, Channel, Channels
from myna.channels.routes import Route, RouteKind
from myna.config import ConfigCache
from myna.errors import InvalidRequest, MynaError
from myna.gateway.failover import FailedAttempt
from myna.gateway.intent import speech_text
from myna.gateway.relay import answers
from myna.gateway.relay import v1 as complete
from myna.gateway.relay.events import EventRelay, Observer
from myna.http.request import read_body
from myna.http.responses import openai_error
from myna.wire.body import decode, to_event
from myna.wire.completions import han_count
from myna.wire.openai import CompletionRequest, EmbeddingsRequest, OpenAIChatRequest, RelayedRequest

N_MAX_UNITS: Final = 2**53 - 1
LeftOut = dict[tuple[str, str, str], frozenset[str]]
"""The members that servers refused and that are not sent any more, by channel, its URL and the model."""


class Endpoint(Struct, frozen=True):
    """An endpoint that is relayed: its path below the base URL of a channel, the kind of its routes, the
    shape of its requests, and the list that its answers must have."""

    path: str
    kind: RouteKind
    shape: type[RelayedRequest] | type[EmbeddingsRequest]
    list_name: str


CHAT: Final = Endpoint("/chat/completions", RouteKind.CHAT, OpenAIChatRequest, "choices")
COMPLETIONS: Final = Endpoint("/completions", RouteKind.CHAT, CompletionRequest, "choices")
EMBEDDINGS: Final = Endpoint("/embeddings", RouteKind.EMBEDDINGS, EmbeddingsRequest, "data")


class Shape(Protocol):
    """The shape of one client's events."""

    def observer_for(self, channel: Channel) -> Observer | None:
        """Reads or translates the events of this channel, which is asked next; None: they pass on
        unparsed."""

    def last(self, relay: EventRelay) -> bytes:
        """The events at the end of a complete answer, which this relay has passed on. Called once."""

    def failed(self, error: MynaError) -> bytes:
        """The event that ends an incomplete answer."""


class Passed:
    """Chat completions as the channel sends them, with the usage if it is wanted, and `[DONE]` at the end."""

    def observer_for(self, channel: Channel) -> Observer | None:
        return None

    def last(self, relay: EventRelay) -> bytes:
        return relay.ending()

    def failed(self, error: MynaError) -> bytes:
        return to_event(openai_error(error))


class ReadRequest(Struct, frozen=True):
    """A request as far as a plan needs it. `fields` is the body for a channel, without its model, as a JSON
    object: a call keeps bytes while it is open. `choices` is how many choices the answer has.
    `counts_usage`: the client wants an event with the usage; `in_base64`: vectors in base64. `instruction` is
    the last user message. It is refused, once its model is known, if it `has_no_message` or makes more
    answers than are charged, `makes_more`."""

    endpoint: Endpoint
    model: str
    fields: bytes
    choices: int
    streams: bool
    counts_usage: bool
    prompt_tokens: int
    instruction: str
    has_no_message: bool
    makes_more: bool
    in_base64: bool


def read(endpoint: Endpoint, body: bytes) -> ReadRequest:
    """The request with this body. Raises InvalidRequest."""
    fields, request = decode(body, endpoint.shape)
    return read_fields(endpoint, fields, request)


def read_fields(
    endpoint: Endpoint, fields: dict[str, Any], request: RelayedRequest | EmbeddingsRequest
) -> ReadRequest:
    """A request that is decoded, or was translated from another shape."""
    streams, counts_usage, choices = False, False, 1
    if isinstance(request, RelayedRequest):
        streams = bool(request.stream)
        counts_usage = streams and bool(request.stream_options and request.stream_options.include_usage)
        choices = (request.n or 1) * _prompts(fields.get("prompt"))
    messages = fields.get("messages", [])
    passed = {name: value for name, value in fields.items() if name not in ("model", "stream")}
    if isinstance(request, RelayedRequest):
        passed["stream"] = streams
    return ReadRequest(
        endpoint=endpoint,
        model=request.model,
        fields=msgspec.json.encode(passed),
        choices=choices,
        streams=streams,
        counts_usage=counts_usage,
        prompt_tokens=_prompt_tokens(fields),
        instruction=_last_user_text(messages),
        has_no_message=isinstance(request, OpenAIChatRequest) and not messages,
        makes_more=isinstance(request, CompletionRequest) and (request.best_of or 0) > (request.n or 1),
        in_base64=isinstance(request, EmbeddingsRequest) and request.encoding_format == "base64",
    )


class RelayPlan(Struct, frozen=True):
    """A request, its route, the channels to try in order, and the price. `speaks`: its instruction is to be
    spoken, and no channel is asked."""

    request: ReadRequest
    route: Route
    channels: list[Channel]
    units: int
    speaks: bool

    def path_for(self, channel: Channel) -> str:
        """The path to ask, below the base URL of this channel."""
        return self.request.endpoint.path

    def body_for(self, channel: Channel) -> bytes:
        """The body to send to this channel."""
        model = routes.model_for(self.route, channel.model, self.request.model)
        return b'{"model":%b,%b' % (msgspec.json.encode(model), self.request.fields[1:])

    def adapt(self, channel: Channel, failed: FailedAttempt) -> bool:
        """Whether this channel is to be asked again at once, with another body."""
        return False

    def answered(self, channel: Channel) -> None:
        """This channel has answered what `body_for` returned last."""

    def answer_of(self, channel: Channel, body: bytes) -> bytes:
        """The whole answer, made from this channel's. Raises FailedAttempt."""
        request = self.request
        if request.endpoint is EMBEDDINGS:
            return answers.embeddings(
                body, request.model, request.prompt_tokens, channel, in_base64=request.in_base64
            )
        return answers.completion(body, request.model, request.prompt_tokens, channel)

    def parrot(self) -> bytes:
        """The completion of the built-in parrot."""
        return answers.parrot(self.request.instruction, self.request.model, self.request.prompt_tokens)

    def streamed(self, channel: Channel, body: bytes) -> bytes:
        """The whole completion of a channel that was asked for a stream and does not stream. Raises
        FailedAttempt."""
        return answers.completion(body, self.request.model, self.request.prompt_tokens, channel)

    def has_typed_events(self, channel: Channel) -> bool:
        """Whether the events of this channel are those of a response, which have a type."""
        return False

    async def store_answer(self, account_id: int, answer: bytes) -> None:
        """Called with a complete answer, or with the last events of one, before the call is kept. Raises
        DatabaseUnavailable."""

    def shape(self, answer_max_bytes: int) -> Shape:
        """The shape of a stream's events. At most `answer_max_bytes` of the answer are kept in memory."""
        return Passed()


@dataclass(frozen=True, slots=True, eq=False)
class RelayPlanner:
    """Plans requests from this process's copy of the configuration."""

    config: ConfigCache
    channels: Channels
    left_out: LeftOut = field(default_factory=dict)

    async def plan(self, endpoint: Endpoint, caller: UnverifiedCaller, body: bytes) -> RelayPlan:
        """Raises InvalidRequest, ModelNotFound, TooManyBodies."""
        return self.planned(
            await read_body(partial(read, endpoint, body), len(body), caller.details.account_id)
        )

    def planned(self, request: ReadRequest) -> RelayPlan:
        """The plan of a request. Raises InvalidRequest, ModelNotFound."""
        config, endpoint = self.config.current, request.endpoint
        route = routes.find(config, self.config.settings, request.model, endpoint.kind)
        channels = self.channels.of_route(config, route)
        if request.makes_more:
            raise InvalidRequest(
                "must be at most n, the number of answers that are charged.", field="best_of"
            )
        if request.has_no_message:
            raise InvalidRequest("must hold at least one message.", field="messages")
        if endpoint is not CHAT:
            channels = [channel for channel in channels if channel.url != PARROT]  # it only chats
        is_spoken = route.intent and endpoint is CHAT and speech_text(request.instruction) is not None
        return RelayPlan(
            request=request,
            route=route,
            channels=channels,
            units=min(route.units * request.choices, N_MAX_UNITS),
            speaks=is_spoken,
        )


def _prompts(prompt: Any) -> int:
    """How many prompts a legacy completion has: a list of texts or of lists of tokens has several."""
    several = isinstance(prompt, list) and prompt and not isinstance(prompt[0], int)
    return len(prompt) if several else 1


def _prompt_tokens(fields: dict[str, Any]) -> int:
    """The Han characters of the request."""
    messages, prompt = fields.get("messages"), fields.get("prompt", fields.get("input"))
    if isinstance(messages, list):
        return han_count("".join(map(complete.text_of, messages)))
    texts = prompt if isinstance(prompt, list) else [prompt]
    return han_count("".join(text for text in texts if isinstance(text, str)))


def _last_user_text(messages: list[dict[str, Any]]) -> str:
    """The text of the last user message; empty if there is none."""
    return next((complete.text_of(each) for each in reversed(messages) if each.get("role") == "user"), "")
