"""What a request asks for: its route, the channels to try in order, and the body to send them."""

from typing import Any, Final

import msgspec
from msgspec import Struct

from myna import routes
from myna.channels import PARROT, Channel, Channels
from myna.chat.complete import text_of
from myna.chat.han import han_count
from myna.chat.intent import speech_text
from myna.config import ConfigCache
from myna.errors import InvalidRequest
from myna.relay import answers
from myna.relay.shapes import Passed, Shape, WithUsage
from myna.routes import Route, RouteKind
from myna.wire.body import decode
from myna.wire.openai import CompletionRequest, EmbeddingsRequest, OpenAIChatRequest, RelayedRequest

N_MAX_UNITS: Final = 2**53 - 1


class Endpoint(Struct, frozen=True):
    """An endpoint that is relayed: its path below the base URL of a channel, the kind of its routes, the
    shape of its requests, and the list that its answers must have."""

    path: str
    kind: RouteKind
    shape: type[RelayedRequest] | type[EmbeddingsRequest]
    list_name: str

    def read(self, body: bytes) -> "ReadRequest":
        """The request. Raises InvalidRequest."""
        return ReadRequest(self, *decode(body, self.shape))


class ReadRequest(Struct, frozen=True):
    """A request of an endpoint: all of its fields, and those that are read."""

    endpoint: Endpoint
    fields: dict[str, Any]
    request: RelayedRequest | EmbeddingsRequest


CHAT: Final = Endpoint("/chat/completions", RouteKind.CHAT, OpenAIChatRequest, "choices")
COMPLETIONS: Final = Endpoint("/completions", RouteKind.CHAT, CompletionRequest, "choices")
EMBEDDINGS: Final = Endpoint("/embeddings", RouteKind.EMBEDDINGS, EmbeddingsRequest, "data")


class RelayPlan(Struct, frozen=True):
    """`fields` is the body for a channel, without its model, as a JSON object: a call keeps bytes while it is
    open. `choices` is how many choices the answer has. `counts_usage`: the client wants an event with the
    usage. `instruction` is the last user message; `speaks`: it is to be spoken, and no channel is asked."""

    endpoint: Endpoint
    route: Route
    channels: list[Channel]
    model: str
    fields: bytes
    choices: int
    units: int
    streams: bool
    counts_usage: bool
    prompt_tokens: int
    instruction: str
    speaks: bool

    def path_for(self, channel: Channel) -> str:
        """The path to ask, below the base URL of this channel."""
        return self.endpoint.path

    def body_for(self, channel: Channel) -> bytes:
        """The body to send to this channel."""
        model = routes.model_for(self.route, channel.model, self.model)
        return b'{"model":%b,%b' % (msgspec.json.encode(model), self.fields[1:])

    def answer_of(self, channel: Channel, body: bytes) -> bytes:
        """The whole answer, made from this channel's. Raises FailedAttempt."""
        if self.endpoint.list_name != "choices":
            return answers.with_model(
                answers.checked(body, self.endpoint.list_name, None, channel), self.model
            )
        return answers.completed(answers.checked(body, "choices", self.prompt_tokens, channel), self.model)

    def streamed(self, channel: Channel, body: bytes) -> bytes:
        """The whole completion of a channel that was asked for a stream and does not stream. Raises
        FailedAttempt."""
        return answers.checked(body, self.endpoint.list_name, self.prompt_tokens, channel)

    def has_typed_events(self, channel: Channel) -> bool:
        """Whether the events of this channel are those of a response, which have a type."""
        return False

    def shape(self, answer_max_bytes: int) -> Shape:
        """The shape of a stream's events. At most `answer_max_bytes` of the answer are kept in memory."""
        return WithUsage(self.prompt_tokens, self.model) if self.counts_usage else Passed()


class Planner:
    """Plans requests from this process's copy of the configuration."""

    def __init__(self, config: ConfigCache, channels: Channels) -> None:
        self._config = config
        self._channels = channels

    def plan(self, endpoint: Endpoint, body: bytes) -> RelayPlan:
        """Raises InvalidRequest, ModelNotFound."""
        return self.plan_read(endpoint.read(body))

    def plan_read(self, read: ReadRequest) -> RelayPlan:
        """The plan of a request that is decoded, or was translated from another shape. Raises InvalidRequest,
        ModelNotFound."""
        endpoint, fields, request = read.endpoint, read.fields, read.request
        config = self._config.current
        route = routes.find(config, self._config.settings, request.model, endpoint.kind)
        channels = self._channels.of_route(config, route)
        streams, counts_usage, choices = False, False, 1
        if isinstance(request, RelayedRequest):
            streams = bool(request.stream)
            counts_usage = streams and bool(request.stream_options and request.stream_options.include_usage)
            choices = (request.n or 1) * _prompts(fields.get("prompt"))
        if isinstance(request, CompletionRequest) and (request.best_of or 0) > (request.n or 1):
            raise InvalidRequest("best_of: must be at most n, the number of answers that are charged.")
        messages = fields.get("messages", [])
        if isinstance(request, OpenAIChatRequest) and not messages:
            raise InvalidRequest("messages: must hold at least one message.")
        if endpoint is not CHAT:
            channels = [channel for channel in channels if channel.url != PARROT]  # it only chats
        instruction = _last_user_text(messages)
        passed = {name: value for name, value in fields.items() if name not in ("model", "stream")}
        if isinstance(request, RelayedRequest):
            passed["stream"] = streams
        return RelayPlan(
            endpoint=endpoint,
            route=route,
            channels=channels,
            model=request.model,
            fields=msgspec.json.encode(passed),
            choices=choices,
            units=min(route.units * choices, N_MAX_UNITS),
            streams=streams,
            counts_usage=counts_usage,
            prompt_tokens=_prompt_tokens(fields),
            instruction=instruction,
            speaks=route.intent and endpoint is CHAT and speech_text(instruction) is not None,
        )


def _prompts(prompt: Any) -> int:
    """How many prompts a legacy completion has: a list of texts or of lists of tokens has several."""
    several = isinstance(prompt, list) and prompt and not isinstance(prompt[0], int)
    return len(prompt) if several else 1


def _prompt_tokens(fields: dict[str, Any]) -> int:
    """The Han characters of the request."""
    messages, prompt = fields.get("messages"), fields.get("prompt", fields.get("input"))
    if isinstance(messages, list):
        return sum(han_count(text_of(message)) for message in messages)
    texts = prompt if isinstance(prompt, list) else [prompt]
    return sum(han_count(text) for text in texts if isinstance(text, str))


def _last_user_text(messages: list[dict[str, Any]]) -> str:
    """The text of the last user message; empty if there is none."""
    return next((text_of(each) for each in reversed(messages) if each.get("role") == "user"), "")
