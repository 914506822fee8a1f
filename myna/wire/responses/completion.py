"""The parts of a chat completion, and of its chunks, that a response is made of. Other parts are ignored, and
so are members of another type than OpenAI's: see `lenient.py`."""

from typing import Any

from msgspec import Struct

from myna.wire import completions
from myna.wire.lenient import count_of, json_text_of, object_of, objects_of, reason_of, text_of


class UnusableAnswer(Exception):
    """The server's answer is no chat completion, or is larger than the limit."""


class ToolCall(Struct, frozen=True):
    """A call of a function. In a chunk the parts of one call have the same index, and the arguments are a
    part of the JSON."""

    index: int
    id: str
    name: str
    arguments: str


class ChatMessage(Struct, frozen=True):
    """What the assistant says, or a part of it; texts are empty where it says nothing. `logprobs` are those
    of the content's tokens."""

    content: str = ""
    refusal: str = ""
    reasoning: str = ""
    logprobs: list[dict[str, Any]] = []
    tool_calls: list[ToolCall] = []


class Choice(Struct, frozen=True):
    """An answer, in `message`, or a part of it, in `delta`."""

    index: int
    message: ChatMessage | None
    delta: ChatMessage | None
    finish_reason: str | None


class ChatUsage(Struct, frozen=True):
    """Tokens of the request and the answer, of which some are of a kind."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int


class Completion(Struct, frozen=True):
    """A chat completion or one of its chunks. The last chunk may have no choices."""

    choices: list[Choice]
    usage: ChatUsage | None


def read(answer: Any) -> Completion:
    """The completion or the chunk. Raises UnusableAnswer if it is none."""
    choices = answer.get("choices") if isinstance(answer, dict) else False
    if not isinstance(choices, list | None):
        raise UnusableAnswer("the answer is no chat completion")
    usage = completions.usage(usage_in(answer))
    return Completion([_choice(choice) for choice in objects_of(choices)], _usage(usage) if usage else None)


def usage_in(answer: dict[str, Any]) -> dict[str, Any] | None:
    """The usage of a completion or a chunk, which Moonshot sends within a choice."""
    places = [answer, *objects_of(answer.get("choices"))]
    return next((place["usage"] for place in places if isinstance(place.get("usage"), dict)), None)


def _choice(choice: dict[str, Any]) -> Choice:
    tokens = object_of(completions.logprobs(choice.get("logprobs"))).get("content") or []
    return Choice(
        index=count_of(choice.get("index")) or 0,
        message=_message(choice.get("message"), tokens),
        delta=_message(choice.get("delta"), tokens),
        finish_reason=reason_of(choice.get("finish_reason")) or None,
    )


def _message(message: Any, logprobs: list[dict[str, Any]]) -> ChatMessage | None:
    if not isinstance(message, dict):
        return None
    said = completions.message(message, whole=False)
    if not isinstance(said.get("content"), str | list | None):
        raise UnusableAnswer("the answer's content is no text")
    return ChatMessage(
        content=text_of(said.get("content")),
        refusal=text_of(said.get("refusal")),
        reasoning=text_of(said.get("reasoning_content")) or text_of(said.get("reasoning")),
        logprobs=logprobs,
        tool_calls=[_call(call) for call in objects_of(message.get("tool_calls"))],
    )


def _call(call: dict[str, Any]) -> ToolCall:
    function = object_of(call.get("function"))
    return ToolCall(
        index=count_of(call.get("index")) or 0,
        id=str(call.get("id") or ""),
        name=text_of(function.get("name")),
        arguments=json_text_of(function.get("arguments")),
    )


def _usage(usage: dict[str, Any]) -> ChatUsage:
    prompt = object_of(usage.get("prompt_tokens_details"))
    completion = object_of(usage.get("completion_tokens_details"))
    return ChatUsage(
        prompt_tokens=usage["prompt_tokens"],
        completion_tokens=usage["completion_tokens"],
        cached_tokens=count_of(prompt.get("cached_tokens")) or 0,
        cache_write_tokens=count_of(prompt.get("cache_write_tokens")) or 0,
        reasoning_tokens=count_of(completion.get("reasoning_tokens")) or 0,
    )
