"""The parts of a chat completion, and of its chunks, that a response is made of. Other parts are ignored."""

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

T = TypeVar("T")


class UnusableAnswer(Exception):
    """The server's answer is no chat completion, or is larger than the limit."""


class Function(Struct, frozen=True):
    """The called function. In a chunk the arguments are a part of the JSON."""

    name: str | None = None
    arguments: str | None = None


class ToolCall(Struct, frozen=True):
    """A call of a function. In a chunk the parts of one call have the same index."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


class ChatMessage(Struct, frozen=True):
    """What the assistant says, or a part of it. Servers name reasoning in one of two ways."""

    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[ToolCall] | None = None


class Choice(Struct, frozen=True):
    """An answer, in `message`, or a part of it, in `delta`."""

    index: int | None = None
    message: ChatMessage | None = None
    delta: ChatMessage | None = None
    finish_reason: str | None = None


class PromptDetails(Struct, frozen=True):
    """Tokens of the prompt by kind."""

    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class CompletionDetails(Struct, frozen=True):
    """Tokens of the answer by kind."""

    reasoning_tokens: int | None = None


class ChatUsage(Struct, frozen=True):
    """Tokens of the request and the answer."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: PromptDetails | None = None
    completion_tokens_details: CompletionDetails | None = None


class Completion(Struct, frozen=True):
    """A chat completion or one of its chunks. The last chunk may have no choices."""

    choices: list[Choice] = []
    usage: ChatUsage | None = None


def read(answer: dict[str, Any]) -> Completion:
    """The completion or the chunk. Raises UnusableAnswer."""
    try:
        return msgspec.convert(answer, Completion)
    except msgspec.ValidationError as error:
        raise UnusableAnswer(f"the answer is no chat completion: {error}") from None
