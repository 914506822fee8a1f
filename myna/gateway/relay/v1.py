"""Use case: a chat completion of /v1. Plan, charge, a channel or speech, keep or refund.

The next channel is tried after a failed connection, a status other than 200, a timeout, or an answer that is
invalid, empty or too large. An empty answer with a `finish_reason` is final, since the request caused it. The
body of an error is logged, truncated and without the channel's key. What of it the client gets is decided in
`myna.wire.failures`.
"""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.billing.ledger import Call, ChargeOrder, Ledger
from myna.channels.channels import PARROT, Channel
from myna.config import ConfigCache
from myna.engines.pool.admission import Slot
from myna.errors import InvalidRequest
from myna.gateway.failover import Asker, ChannelClient, FailedAttempt, note_tokens, of_error, unusable
from myna.gateway.intent import speech_text
from myna.http.request import read_body
from myna.lib.ids import new_name
from myna.speech.plan import CheckedSpeech, Planner
from myna.speech.synthesize import Disconnected, SpokenPlan, SpokenSound, Synthesizer
from myna.store.batch import Replayed
from myna.wire import completions, lenient
from myna.wire.body import decode, has_too_many_containers, to_json, to_json_text
from myna.wire.completions import han_count
from myna.wire.failures import EMPTY, EMPTY_CAUSED, NULL, reports_error
from myna.wire.lenient import UNREADABLE, reason_of, strict
from myna.wire.v1 import ChatChoice, ChatCompletion, ChatMessage, ChatRequest, SpokenAnswer, Usage

PASSED_ON = frozenset(
    {
        "messages", "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed",
        "response_format", "tools", "tool_choice", "parallel_tool_calls", "presence_penalty",
        "frequency_penalty", "logit_bias", "reasoning_effort",
    }
)  # fmt: skip
"""Fields of the request that are sent upstream. `n` is not: one call is charged, one answer is returned."""

TOOL_CALLS_MAX_BYTES = 2**20
"""The default maximum of a request body. Larger tool calls would take long to decode."""


# Decoded JSON has no cycles, and an answer may repeat these a hundred thousand times.
class _Message(Struct, gc=False):
    content: Any = None
    tool_calls: msgspec.Raw = NULL


class _Choice(Struct, gc=False):
    """Some servers send the message of a whole answer as `delta`."""

    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: Any = None


class _Choices(Struct, array_like=True, gc=False):
    """Decodes only the array's first element."""

    first: _Choice | None = None


class _Completion(Struct, gc=False):
    choices: _Choices
    error: msgspec.Raw = NULL
    base_resp: msgspec.Raw = NULL
    object: msgspec.Raw = NULL


class ModelAnswer(Struct, frozen=True):
    """The model's answer. `content` is empty only if there are tool calls."""

    content: str
    tool_calls: list[dict[str, Any]] | None
    finish_reason: str


_completion_decoder = msgspec.json.Decoder(_Completion)
_tool_calls_decoder = msgspec.json.Decoder(list[dict[str, Any]] | None)


class RequestSummary(Struct, frozen=True):
    """What a response repeats of its request: the model, and the count of Han characters in its messages."""

    model: str
    prompt_tokens: int


class ReadChat(Struct, frozen=True):
    """A request as far as a plan needs it. `conversation` is what a channel gets of it, as a JSON object."""

    summary: RequestSummary
    conversation: bytes
    instruction: str


class ChatPlan(Struct, frozen=True):
    """A request, the channels to try in order, and what to charge."""

    request: ReadChat
    channels: list[Channel]
    order: ChargeOrder


@dataclass(frozen=True, slots=True, eq=False)
class Chat:
    """Answers chat requests for one process."""

    channel_client: ChannelClient
    ledger: Ledger
    config: ConfigCache
    planner: Planner
    synthesizer: Synthesizer

    async def complete(self, caller: UnverifiedCaller, body: bytes, disconnected: Disconnected) -> bytes:
        """Returns the JSON of a ChatCompletion. Raises MynaError."""
        with Slot() as slot:
            outcome = await self.ledger.charge_plan(caller, lambda: self._plan(caller, body, slot))
            if isinstance(outcome, Replayed):
                return outcome.answer.encode()
            charged, plan = outcome
            if isinstance(plan, SpokenPlan):
                return (await self.speak(charged, plan, disconnected)).encode()
        async with charged as call:
            request = plan.request
            answered = await ask(
                self.channel_client,
                plan.channels,
                request.summary.model,
                request.conversation,
                request.instruction,
                asker=call,
                seconds=call.seconds_left,
            )
            answer = to_json(_chat_completion(request.summary, answered))
            stored = answer.decode() if call.repeatable else ""  # only a retry reads it
            await call.keep(stored)
            return answer

    async def _plan(self, caller: UnverifiedCaller, body: bytes, slot: Slot) -> ChatPlan | SpokenPlan:
        request = await read_body(partial(_read, body), len(body), caller.details.account_id)
        summary, to_speak = request.summary, speech_text(request.instruction)
        if to_speak is None:
            return ChatPlan(
                request=request,
                channels=self.channel_client.channels.chat(self.config.current),
                order=ChargeOrder(
                    pays=Scope.CHAT,
                    units=self.config.settings.chat_units,
                    seconds=self.channel_client.settings.call_deadline_s,
                    route=summary.model,
                ),
            )
        return await self.plan_speech(caller, to_speak, summary, slot, summary.model)

    async def plan_speech(
        self, caller: UnverifiedCaller, text: str, summary: RequestSummary, slot: Slot, route: str
    ) -> SpokenPlan:
        """A chat call that speaks. Raises MynaError."""
        checked = CheckedSpeech(
            text=text,
            voice_id=None,
            speed=1.0,
            channel_s=self.channel_client.settings.call_deadline_s,
            node_s=self.channel_client.settings.chat_speech_wait_s,
        )
        speech = await self.planner.plan(caller, checked, slot)

        def answer(sound: SpokenSound) -> str:
            """The same completion for a channel and for a node."""
            url, mode = self.synthesizer.url(sound.audio), "async" if sound.by_node else "sync"
            spoken = SpokenAnswer(
                url=url,
                task_id=sound.task_id,
                mode=mode,
                voice_id=speech.voice_id,
                text=text,
                chars=len(text),
            )
            completion = _chat_completion(summary, ModelAnswer(url, None, "stop"))
            return to_json_text(msgspec.structs.replace(completion, audio=spoken))

        return SpokenPlan(speech, answer, self.config.settings.tts_units, route)

    async def speak(self, call: Call, plan: SpokenPlan, disconnected: Disconnected) -> str:
        """Returns the response with the audio's URL. Waits for the task if a node speaks."""
        async with call:
            spoken = await self.synthesizer.deliver(call, plan, disconnected)
        if spoken is not None:
            return spoken
        return plan.filled(call.task_id, await self.synthesizer.ended(call, plan.speech))


def _read(body: bytes) -> ReadChat:
    """The request with this body. Raises InvalidRequest."""
    fields, request = decode(body, ChatRequest)
    return ReadChat(
        summary=RequestSummary(request.model, han_count("".join(map(text_of, request.messages)))),
        conversation=conversation_of(fields),
        instruction=instruction_of(request.messages),
    )


def conversation_of(fields: dict[str, Any]) -> bytes:
    """The fields to send upstream, as a JSON object. A call keeps bytes while it is open, since decoded
    objects take several times the memory and each full garbage collection visits them."""
    return msgspec.json.encode({name: value for name, value in fields.items() if name in PASSED_ON})


def instruction_of(messages: list[dict[str, Any]]) -> str:
    """The text of the last user message. Raises InvalidRequest if there is none."""
    if not messages:
        raise InvalidRequest("must hold at least one user message.", field="messages")
    for message in reversed(messages):
        if message.get("role") == "user":
            text = text_of(message)
            if not text.strip():
                raise InvalidRequest("the last user message has no text.", field="messages")
            return text
    raise InvalidRequest("there is no message with the role user.", field="messages")


def text_of(message: dict[str, Any]) -> str:
    """The text of a message: its string, or its text parts joined; empty if it has none."""
    return lenient.text_of(message.get("content"))


def _chat_completion(summary: RequestSummary, answer: ModelAnswer) -> ChatCompletion:
    prompt, completion = summary.prompt_tokens, han_count(answer.content)
    return ChatCompletion(
        id=completions.ID_PREFIX + new_name(),
        object="chat.completion",
        created=int(time.time()),
        model=summary.model,
        choices=[
            ChatChoice(0, ChatMessage("assistant", answer.content, answer.tool_calls), answer.finish_reason),
        ],
        usage=Usage(prompt, completion, prompt + completion),
    )


async def ask(
    channel_client: ChannelClient,
    candidates: list[Channel],
    model: str,
    conversation: bytes,
    instruction: str,
    *,
    asker: Asker,
    seconds: float,
    fair_try_s: float | None = None,
) -> ModelAnswer:
    """Returns the first valid answer. Raises UpstreamFailed, Overloaded: see `ChannelClient.first_answer`."""

    async def attempt(channel: Channel, left: float) -> ModelAnswer:
        if channel.url == PARROT:
            return ModelAnswer(f"🦜 {instruction}", None, "stop")
        body = _body(channel.model or model, conversation)
        answer = await channel_client.answer_of(channel, "/chat/completions", body, deadline_s=left)
        note_tokens(asker.details, answer.body, body)
        return model_answer(answer.body, channel)

    return await channel_client.first_answer(
        candidates, attempt, asker=asker, seconds=seconds, fair_try_s=fair_try_s
    )


def _body(model: str, conversation: bytes) -> bytes:
    """`conversation`, a JSON object with members, with the two that do not pass from request to channel."""
    return b'{"model":%b,"stream":false,%b' % (msgspec.json.encode(model), conversation[1:])


def model_answer(answer: bytes, channel: Channel) -> ModelAnswer:
    """The first choice of a chat completion. Raises FailedAttempt."""
    try:
        found = strict(_completion_decoder.decode, answer)
        if reports_error({"error": found.error, "object": found.object, "base_resp": found.base_resp}):
            raise of_error("ErrorAnswer", "the answer reports an error", answer, channel)
        choice = found.choices.first
        if choice is None:
            raise unusable("NoChoices", "the answer has no choices", answer, channel)
        if (message := choice.message or choice.delta) is None:
            raise unusable("NoChoices", "the answer's choice has no message", answer, channel)
        content = message.content
        if not isinstance(content, str):
            content = lenient.text_of(completions.message({"content": content}, whole=True)["content"])
        reason, tool_calls = reason_of(choice.finish_reason), None
        if (calls := _tool_calls_decoder.decode(_bounded(message.tool_calls))) is not None:
            tool_calls = [one for call in calls if (one := completions.call(call))]
    except UNREADABLE as error:
        raise unusable(
            "NoCompletion", "the answer is no chat completion", answer, channel, f": {error}"
        ) from error
    if not content and not tool_calls:
        # such as max_tokens 1 for a model that reasons, or a stop sequence that it begins with
        raise FailedAttempt("EmptyAnswer", "the answer is empty", meaning=EMPTY_CAUSED if reason else EMPTY)
    return ModelAnswer(content, tool_calls, reason or "stop")


def _bounded(tool_calls: msgspec.Raw) -> bytes:
    """The JSON of the tool calls. Raises FailedAttempt if they are too large to decode at once."""
    found = bytes(tool_calls)
    if len(found) > TOOL_CALLS_MAX_BYTES or has_too_many_containers(found):
        raise FailedAttempt("LargeToolCalls", "the answer's tool calls are too large")
    return found
