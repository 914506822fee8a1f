"""Use case: a chat completion. Plan, charge, upstream or speech, keep or refund."""

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from myna.accounts.keys import Scope, UnverifiedCaller
from myna.billing.ledger import Call, ChargeOrder, Ledger
from myna.channels.channels import Channel
from myna.config import ConfigCache
from myna.engines.pool.admission import Slot
from myna.errors import InvalidRequest
from myna.gateway.chat import upstream
from myna.gateway.chat.failover import Failover
from myna.gateway.chat.intent import speech_text
from myna.gateway.chat.text import han_count
from myna.gateway.chat.upstream import ModelAnswer
from myna.http.request import read_body
from myna.lib.ids import new_name
from myna.speech.plan import CheckedSpeech, Planner
from myna.speech.synthesize import Disconnected, SpokenPlan, SpokenSound, Synthesizer
from myna.store.batch import Replayed
from myna.wire import lenient
from myna.wire.body import decode, to_json, to_json_text
from myna.wire.v1 import ChatChoice, ChatCompletion, ChatMessage, ChatRequest, SpokenAnswer, Usage

PASSED_ON = frozenset(
    {
        "messages", "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed",
        "response_format", "tools", "tool_choice", "parallel_tool_calls", "presence_penalty",
        "frequency_penalty", "logit_bias", "reasoning_effort",
    }
)  # fmt: skip
"""Fields of the request that are sent upstream. `n` is not: one call is charged, one answer is returned."""

ID_PREFIX = "chatcmpl-"


class RequestSummary(Struct, frozen=True):
    """What a response repeats of its request: the model, and the count of Han characters in its messages."""

    model: str
    prompt_tokens: int


class ReadChat(Struct, frozen=True):
    """A request as far as a plan needs it: see `ChatPlan`."""

    summary: RequestSummary
    conversation: bytes
    instruction: str


class ChatPlan(Struct, frozen=True):
    """The upstream request, and the channels to try in order."""

    summary: RequestSummary
    conversation: bytes
    instruction: str
    channels: list[Channel]
    order: ChargeOrder


@dataclass(frozen=True, slots=True, eq=False)
class Chat:
    """Answers chat requests for one process."""

    failover: Failover
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
            model_answer = await upstream.ask(
                self.failover,
                plan.channels,
                plan.summary.model,
                plan.conversation,
                plan.instruction,
                asker=call,
                seconds=call.seconds_left,
            )
            answer = to_json(_completion(plan.summary, model_answer))
            stored = answer.decode() if call.repeatable else ""  # only a retry reads it
            await call.keep(stored)
            return answer

    async def _plan(self, caller: UnverifiedCaller, body: bytes, slot: Slot) -> ChatPlan | SpokenPlan:
        request = await read_body(partial(_read, body), len(body), caller.details.account_id)
        summary, to_speak = request.summary, speech_text(request.instruction)
        if to_speak is None:
            return ChatPlan(
                summary=summary,
                conversation=request.conversation,
                instruction=request.instruction,
                channels=self.failover.channels.chat(self.config.current),
                order=ChargeOrder(
                    pays=Scope.CHAT,
                    units=self.config.settings.chat_units,
                    seconds=self.failover.settings.call_deadline_s,
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
            channel_s=self.failover.settings.call_deadline_s,
            node_s=self.failover.settings.chat_speech_wait_s,
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
            completion = _completion(summary, ModelAnswer(url, None, "stop"))
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


def _completion(summary: RequestSummary, answer: ModelAnswer) -> ChatCompletion:
    prompt, completion = summary.prompt_tokens, han_count(answer.content)
    return ChatCompletion(
        id=ID_PREFIX + new_name(),
        object="chat.completion",
        created=int(time.time()),
        model=summary.model,
        choices=[
            ChatChoice(0, ChatMessage("assistant", answer.content, answer.tool_calls), answer.finish_reason),
        ],
        usage=Usage(prompt, completion, prompt + completion),
    )
