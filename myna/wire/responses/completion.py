"""The parts of a chat completion, and of its chunks, that a response is made of. Other parts are ignored, and
so are members of another type than OpenAI's: see `lenient.py`."""

from typing import Any

from msgspec import Struct

from myna.wire.lenient import (
    count_of,
    joined,
    json_text_of,
    object_of,
    objects_of,
    reason_of,
    text_of,
    thought_of,
)

UNLIKELY = -9999.0
"""The log probability of a token without one, as OpenAI's API has it."""


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
    usage = usage_in(answer)
    return Completion([_choice(choice) for choice in objects_of(choices)], _usage(usage) if usage else None)


def usage_in(answer: dict[str, Any]) -> dict[str, Any] | None:
    """The usage of a completion or a chunk, which Moonshot sends within a choice."""
    places = [answer, *objects_of(answer.get("choices"))]
    return next((place["usage"] for place in places if isinstance(place.get("usage"), dict)), None)


def _choice(choice: dict[str, Any]) -> Choice:
    logprobs = [_logprob(each) for each in objects_of(object_of(choice.get("logprobs")).get("content"))]
    return Choice(
        index=count_of(choice.get("index")) or 0,
        message=_message(choice.get("message"), logprobs),
        delta=_message(choice.get("delta"), logprobs),
        finish_reason=reason_of(choice.get("finish_reason")) or None,
    )


def _message(message: Any, logprobs: list[dict[str, Any]]) -> ChatMessage | None:
    if not isinstance(message, dict):
        return None
    content = message.get("content")
    if not isinstance(content, str | list | None):
        raise UnusableAnswer("the answer's content is no text")
    thought = text_of(message.get("reasoning_content")) or text_of(message.get("reasoning"))
    return ChatMessage(
        content=text_of(content),
        refusal=text_of(message.get("refusal")),
        reasoning=thought or thought_of(content),
        logprobs=logprobs,
        tool_calls=[_call(call) for call in objects_of(message.get("tool_calls"))],
    )


def _logprob(given: dict[str, Any]) -> dict[str, Any]:
    """A token with its log probability, and with those of others in its place."""
    token, logprob, data = joined(text_of(given.get("token"))), given.get("logprob"), given.get("bytes")
    found = {
        "token": token,
        "logprob": logprob if isinstance(logprob, int | float) else UNLIKELY,
        "bytes": data if isinstance(data, list) else list(token.encode()),
    }
    others = given.get("top_logprobs")
    return found | {"top_logprobs": [_logprob(each) for each in objects_of(others)]}


def _call(call: dict[str, Any]) -> ToolCall:
    function = object_of(call.get("function"))
    return ToolCall(
        index=count_of(call.get("index")) or 0,
        id=text_of(call.get("id")),
        name=text_of(function.get("name")),
        arguments=json_text_of(function.get("arguments")),
    )


def _usage(usage: dict[str, Any]) -> ChatUsage:
    prompt = object_of(usage.get("prompt_tokens_details"))
    completion = object_of(usage.get("completion_tokens_details"))
    return ChatUsage(
        prompt_tokens=count_of(usage.get("prompt_tokens")) or 0,
        completion_tokens=count_of(usage.get("completion_tokens")) or 0,
        cached_tokens=count_of(prompt.get("cached_tokens")) or 0,
        cache_write_tokens=count_of(prompt.get("cache_write_tokens")) or 0,
        reasoning_tokens=count_of(completion.get("reasoning_tokens")) or 0,
    )
