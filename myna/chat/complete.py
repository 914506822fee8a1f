"""Use case: a chat completion. Intent, charge, upstream or speech, keep or refund."""

import time
from typing import Any

import msgspec
from msgspec import Struct

from myna.channels import Channel, Channels
from myna.chat import upstream
from myna.chat.han import han_count
from myna.chat.intent import speech_text
from myna.chat.upstream import Said
from myna.errors import InvalidRequest
from myna.ids import new_name
from myna.keys import Scope
from myna.ledger import Call, Caller, Ledger, Order
from myna.outbound import Outbound
from myna.settings import Settings
from myna.site import Site
from myna.speech.draft import filled
from myna.speech.plan import Planner, SpeechPlan, Wish
from myna.speech.synthesize import Answers, Synthesizer
from myna.store.batch import Replayed
from myna.wire.body import decode
from myna.wire.encode import to_json
from myna.wire.v1 import ChatChoice, ChatCompletion, ChatMessage, ChatRequest, SpokenAnswer, Usage

PASSED_ON = frozenset(
    {
        "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed", "response_format",
        "tools", "tool_choice", "parallel_tool_calls", "presence_penalty", "frequency_penalty", "logit_bias",
        "reasoning_effort",
    }
)  # fmt: skip
"""What means something to a chat model. `n` is not among them: one call is charged, one answer is given."""

ID_PREFIX = "chatcmpl-"


class ChatPlan(Struct, frozen=True):
    """A request as it goes upstream, and the channels to try."""

    request: ChatRequest
    conversation: dict[str, Any]
    instruction: str
    channels: list[Channel]


class SpokenPlan(Struct, frozen=True):
    """A request that asks for speech, and what is answered."""

    speech: SpeechPlan
    answers: Answers


class Chat:
    """Answers chat requests for one process."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        site: Site,
        channels: Channels,
        outbound: Outbound,
        planner: Planner,
        synthesizer: Synthesizer,
    ) -> None:
        self._settings, self._ledger, self._site = settings, ledger, site
        self._channels, self._outbound = channels, outbound
        self._planner, self._synthesizer = planner, synthesizer

    async def complete(self, caller: Caller, body: bytes) -> str:
        """The JSON of a ChatCompletion. Raises what `errors.py` draws."""
        admitted = await self._ledger.admit(caller, lambda: self._decide(caller, body))
        if isinstance(admitted, Replayed):
            return admitted.answer
        call, plan = admitted
        if isinstance(plan, SpokenPlan):
            return await self._speak(caller, call, plan)
        async with call:
            said = await self._ask(call, plan)
            answer = to_json(_completion(plan.request, said))
            await call.keep(answer, stored=caller.reservation is not None)
            return answer

    async def _decide(self, caller: Caller, body: bytes) -> Order[ChatPlan | SpokenPlan]:
        fields, request = decode(body, ChatRequest)
        instruction = instruction_of(request.messages)
        to_speak = speech_text(instruction)
        settings = self._settings
        if to_speak is not None:
            wish = Wish(to_speak, None, 1.0, settings.call_deadline_s, settings.chat_speech_wait_s)
            speech = await self._planner.plan(caller, wish)
            answers = self._answers(request, speech)
            return self._synthesizer.order(speech, SpokenPlan(speech, answers), answers)
        passed = {name: value for name, value in fields.items() if name in PASSED_ON}
        conversation = {"model": request.model, "messages": request.messages, **passed}
        plan = ChatPlan(request, conversation, instruction, self._channels.chat(self._site.config))
        return Order(Scope.CHAT, self._site.settings.chat_units, settings.call_deadline_s, plan)

    async def _ask(self, call: Call, plan: ChatPlan) -> Said:
        return await upstream.ask(
            self._outbound,
            self._channels,
            plan.channels,
            plan.conversation,
            plan.instruction,
            seconds=call.seconds_left,
            try_s=self._settings.upstream_timeout_s,
            answer_max_bytes=self._settings.answer_max_bytes,
        )

    async def _speak(self, caller: Caller, call: Call, plan: SpokenPlan) -> str:
        """The answer with the audio's address. It waits for the task where a node speaks."""
        async with call:
            spoken = await self._synthesizer.deliver(caller, call, plan.speech, plan.answers)
        if spoken is not None:
            return spoken
        audio = await self._synthesizer.ended(call, plan.speech)
        return filled(plan.answers.draft, call.task_id, audio)

    def _answers(self, request: ChatRequest, speech: SpeechPlan) -> Answers:
        """One completion, whoever speaks."""

        def answer(mode: str, url: str, task_id: int) -> str:
            text = speech.wish.text
            spoken = SpokenAnswer(url, task_id, mode, speech.voice_id, text, len(text))
            completion = _completion(request, Said(url, None, "stop"))
            return to_json(msgspec.structs.replace(completion, audio=spoken))

        return Answers(
            spoken=lambda delivered: answer("sync", delivered.url, delivered.task_id),
            ordered=lambda task_id, name: answer("async", self._synthesizer.url(name), task_id),
        )


def instruction_of(messages: list[dict[str, Any]]) -> str:
    """The text of the last user message. Raises InvalidRequest where there is none."""
    if not messages:
        raise InvalidRequest("messages: must hold at least one user message.")
    for message in reversed(messages):
        if message.get("role") == "user":
            text = text_of(message)
            if not text.strip():
                raise InvalidRequest("messages: the last user message has no text.")
            return text
    raise InvalidRequest("messages: there is no message with the role user.")


def text_of(message: dict[str, Any]) -> str:
    """The text of a message: its string, or its text parts joined; empty where there is none."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(text for text in parts if isinstance(text, str))


def _completion(request: ChatRequest, said: Said) -> ChatCompletion:
    prompt = sum(han_count(text_of(message)) for message in request.messages)
    answer = han_count(said.content)
    return ChatCompletion(
        id=ID_PREFIX + new_name(),
        object="chat.completion",
        created=int(time.time()),
        model=request.model,
        choices=[
            ChatChoice(0, ChatMessage("assistant", said.content, said.tool_calls), said.finish_reason),
        ],
        usage=Usage(prompt, answer, prompt + answer),
    )
