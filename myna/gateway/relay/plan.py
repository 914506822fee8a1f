"""What a request asks for: its route, the channels to try in order, the body to send them, and how a stream
looks to the client: what is read of each event, the last ones, and an error. Or the speech that it asks for.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec
from msgspec import Struct

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.billing.ledger import Call, ChargeOrder
from myna.channels import routes
from myna.channels.channels import PARROT, Channel, Channels
from myna.channels.routes import Route, RouteKind
from myna.config import ConfigCache
from myna.engines.pool.admission import Slot
from myna.errors import InvalidRequest, MynaError
from myna.gateway.failover import FailedAttempt
from myna.gateway.intent import speech_text
from myna.gateway.relay import answers
from myna.gateway.relay.answers import RequestSummary
from myna.gateway.relay.events import DONE, EventRelay, Observer
from myna.http.request import SMALL_BODY_BYTES, read_body
from myna.http.responses import openai_error
from myna.settings import Settings
from myna.speech.plan import CheckedSpeech, Planner
from myna.speech.synthesize import SpokenPlan, SpokenSound, Synthesizer
from myna.wire.body import decode, to_event, to_json
from myna.wire.completions import han_count
from myna.wire.lenient import text_of
from myna.wire.openai import CompletionRequest, EmbeddingsRequest, OpenAIChatRequest, RelayedRequest
from myna.wire.v1 import ChatChoice, ChatMessage, ChatRequest, SpokenAnswer

N_MAX_UNITS: Final = 2**53 - 1
Asked = OpenAIChatRequest | CompletionRequest | EmbeddingsRequest | ChatRequest
LeftOut = dict[tuple[str, str, str], frozenset[str]]
"""The members that servers refused and that are not sent any more, by channel, its URL and the model."""


class Endpoint(Struct, frozen=True):
    """An endpoint that is relayed: its path below the base URL of a channel, the kind of its routes, the
    shape of its requests, and what makes its whole answer of a channel's, which raises FailedAttempt.

    These `members` of a request pass to a channel; without any, all but its model. If it `speaks`, an
    instruction to speak is spoken on each route. A call without an idempotency key `ends_with_client`: it is
    refunded if the client disconnects before its answer is complete."""

    path: str
    kind: RouteKind
    shape: type[Asked]
    answer: Callable[[bytes, RequestSummary, Channel], bytes] = answers.completion
    members: frozenset[str] = frozenset()
    speaks: bool = False
    ends_with_client: bool = True


CHAT: Final = Endpoint("/chat/completions", RouteKind.CHAT, OpenAIChatRequest)
COMPLETIONS: Final = Endpoint("/completions", RouteKind.CHAT, CompletionRequest)
EMBEDDINGS: Final = Endpoint("/embeddings", RouteKind.EMBEDDINGS, EmbeddingsRequest, answers.embeddings)


class Shape:
    """The events of one client's stream: chat completions as the channel sends them, with the usage if it is
    wanted, and `[DONE]` at the end."""

    def observer_for(self, channel: Channel) -> Observer | None:
        """Reads or translates the events of this channel, which is asked next; None: they pass on
        unparsed."""
        return None

    def last(self, relay: EventRelay) -> bytes:
        """The events at the end of a complete answer, which this relay has passed on. Called once."""
        return relay.ending()

    def error_event(self, error: MynaError) -> bytes:
        """The event that ends an incomplete answer."""
        return to_event(openai_error(error))


class ReadRequest(RequestSummary, frozen=True, kw_only=True):
    """A request as far as a plan needs it. `fields` is the body for a channel, without its model, as a JSON
    object: a call keeps bytes while it is open, since decoded objects take several times the memory and each
    full garbage collection visits them. `choices` is how many choices the answer has. `counts_usage`: the
    client wants an event with the usage. `instruction` is the text of the last user message. `refusal` makes
    the error for which it is refused, once its model is known."""

    endpoint: Endpoint
    fields: bytes
    choices: int
    streams: bool
    counts_usage: bool
    instruction: str
    refusal: Callable[[], InvalidRequest] | None


def read(endpoint: Endpoint, body: bytes) -> ReadRequest:
    """The request with this body. Raises InvalidRequest."""
    fields, request = decode(body, endpoint.shape)
    return read_fields(endpoint, fields, request)


def read_fields(endpoint: Endpoint, fields: dict[str, Any], request: Asked) -> ReadRequest:
    """A request that is decoded, or was translated from another shape. Raises InvalidRequest."""
    text, instruction = _texts(request)
    streams, counts_usage, choices, refusal = False, False, 1, None
    if isinstance(request, RelayedRequest):
        streams = bool(request.stream)
        counts_usage = streams and bool(request.stream_options and request.stream_options.include_usage)
        choices = (request.n or 1) * _prompts(fields.get("prompt"))
    if isinstance(request, OpenAIChatRequest) and not request.messages:
        refusal = _without_messages
    elif isinstance(request, CompletionRequest) and (request.best_of or 0) > (request.n or 1):
        refusal = _with_more_answers
    elif isinstance(request, ChatRequest) and not instruction.strip():
        raise _without_instruction(request.messages)
    kept = endpoint.members or fields.keys() - {"model", "stream"}
    passed = {name: value for name, value in fields.items() if name in kept}
    if endpoint.kind is RouteKind.CHAT:
        passed["stream"] = streams
    return ReadRequest(
        model=request.model,
        prompt_tokens=han_count(text),
        in_base64=isinstance(request, EmbeddingsRequest) and request.encoding_format == "base64",
        endpoint=endpoint,
        fields=msgspec.json.encode(passed),
        choices=choices,
        streams=streams,
        counts_usage=counts_usage,
        instruction=instruction,
        refusal=refusal,
    )


class RelayPlan(Struct, frozen=True):
    """A request, its route, the channels to try in order, and what to charge."""

    request: ReadRequest
    route: Route
    channels: list[Channel]
    order: ChargeOrder

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

    def answer_of(self, channel: Channel, body: bytes) -> bytes:
        """The whole answer, made from this channel's. Raises FailedAttempt."""
        return self.request.endpoint.answer(body, self.request, channel)

    def parrot(self, channel: Channel) -> bytes:
        """The whole answer of the built-in parrot."""
        return answers.parrot(self.request.instruction, self.request)

    def streamed(self, channel: Channel, body: bytes) -> bytes:
        """The whole completion of a channel that was asked for a stream and does not stream. Raises
        FailedAttempt."""
        return answers.completion(body, self.request, channel)

    def has_typed_events(self, channel: Channel) -> bool:
        """Whether the events of this channel are those of a response, which have a type."""
        return False

    async def ended(self, call: Call, answer: bytes) -> None:
        """Called with a complete answer of the call's channel, or with the last events of one, before the
        call is kept. Raises DatabaseUnavailable."""

    def shape(self, answer_max_bytes: int) -> Shape:
        """The shape of a stream's events. At most `answer_max_bytes` of the answer are kept in memory."""
        return Shape()


@dataclass(frozen=True, slots=True, eq=False)
class RelayPlanner:
    """Plans requests from this process's copy of the configuration."""

    settings: Settings
    config: ConfigCache
    channels: Channels
    speech: Planner
    synthesizer: Synthesizer
    left_out: LeftOut = field(default_factory=dict)

    async def plan(
        self, endpoint: Endpoint, caller: UnverifiedCaller, body: bytes, slot: Slot
    ) -> RelayPlan | SpokenPlan:
        """Raises InvalidRequest, ModelNotFound, TooManyBodies, and for speech what its planner raises."""
        if len(body) <= SMALL_BODY_BYTES:  # most are, and this is fast
            request = read(endpoint, body)
        else:
            request = await read_body(partial(read, endpoint, body), len(body), caller.details.account_id)
        plan = self.planned(request)
        if endpoint.path == CHAT.path and (endpoint.speaks or plan.route.intent):
            text = speech_text(request.instruction)
            if text is not None:
                return await self._spoken(caller, text, plan, slot)
        return plan

    def planned(self, request: ReadRequest) -> RelayPlan:
        """The plan of a request for channels. Raises InvalidRequest, ModelNotFound."""
        known = self.channels.known(self.config.current)
        key = request.endpoint.path, request.model, request.choices, request.streams
        if (found := known.get(key)) is None:
            route, *_ = found = self._routed(request)
            if route.name == request.model and request.choices == 1:  # callers choose no key
                known[key] = found
        if request.refusal is not None:
            raise request.refusal()
        route, channels, order = found
        return RelayPlan(request, route, self.channels.to_try(channels), order)

    def _routed(self, request: ReadRequest) -> tuple[Route, list[Channel], ChargeOrder]:
        """The route of a request, the channels that serve it, and what to charge. Raises ModelNotFound."""
        config, endpoint, settings = self.config.current, request.endpoint, self.settings
        route = routes.find(config, self.config.settings, request.model, endpoint.kind)
        channels = self.channels.serving(config, route)
        if endpoint.path != CHAT.path:
            channels = [channel for channel in channels if channel.url != PARROT]  # it only chats
        order = ChargeOrder(
            pays=Scope.CHAT,
            units=min(route.units * request.choices, N_MAX_UNITS),
            seconds=settings.stream_deadline_s if request.streams else settings.call_deadline_s,
            route=route.name,
            model=request.model,
        )
        return route, channels, order

    async def _spoken(self, caller: UnverifiedCaller, text: str, plan: RelayPlan, slot: Slot) -> SpokenPlan:
        """The plan of a chat that speaks this text; the content of its answer is the address of the audio.
        Raises MynaError."""
        request = plan.request
        checked = CheckedSpeech(
            text=text,
            voice_id=None,
            speed=1.0,
            channel_s=self.settings.call_deadline_s,
            node_s=self.settings.chat_speech_wait_s,
        )
        speech = await self.speech.plan(caller, checked, slot)

        def answer(sound: SpokenSound) -> str:
            """The same completion for a channel and for a node."""
            url, mode = self.synthesizer.url(sound.audio), "async" if sound.by_node else "sync"
            audio = SpokenAnswer(
                url=url,
                task_id=sound.task_id,
                mode=mode,
                voice_id=speech.voice_id,
                text=text,
                chars=len(text),
            )
            choice = ChatChoice(0, ChatMessage("assistant", url), "stop")
            whole = to_json(answers.chat_completion(request, choice, audio))
            if request.streams:
                whole = b"".join([*answers.as_events(whole, with_usage=request.counts_usage), DONE])
            return whole.decode()

        return SpokenPlan(speech, answer, self.config.settings.tts_units, plan.route.name)


def _prompts(prompt: Any) -> int:
    """How many prompts a legacy completion has: a list of texts or of lists of tokens has several."""
    several = isinstance(prompt, list) and prompt and not isinstance(prompt[0], int)
    return len(prompt) if several else 1


def _texts(request: Asked) -> tuple[str, str]:
    """All text of a request, and that of its last user message, empty if there is none."""
    if isinstance(request, (EmbeddingsRequest, CompletionRequest)):
        given = request.input if isinstance(request, EmbeddingsRequest) else request.prompt
        parts = given if isinstance(given, list) else [given]
        return "".join(part for part in parts if isinstance(part, str)), ""
    texts: list[str] = []
    instruction = ""
    for message in request.messages:
        content = message.get("content")
        texts.append(content if isinstance(content, str) else text_of(content))
        if message.get("role") == "user":
            instruction = texts[-1]
    return "".join(texts), instruction


def _without_instruction(messages: list[dict[str, Any]]) -> InvalidRequest:
    """The error of a chat of /v1 whose last user message has no text."""
    if not messages:
        return InvalidRequest("must hold at least one user message.", field="messages")
    if any(message.get("role") == "user" for message in messages):
        return InvalidRequest("the last user message has no text.", field="messages")
    return InvalidRequest("there is no message with the role user.", field="messages")


def _without_messages() -> InvalidRequest:
    return InvalidRequest("must hold at least one message.", field="messages")


def _with_more_answers() -> InvalidRequest:
    return InvalidRequest("must be at most n, the number of answers that are charged.", field="best_of")
