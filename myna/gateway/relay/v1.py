"""A chat of /v1: a relayed call that passes some members on, and is answered with the first choice alone.

An empty answer with a `finish_reason` is final, since the request caused it.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from myna.channels.channels import Channel
from myna.channels.routes import RouteKind
from myna.gateway.failover import FailedAttempt, from_answer
from myna.gateway.relay import answers
from myna.gateway.relay.answers import RequestSummary
from myna.gateway.relay.plan import CHAT, Endpoint
from myna.wire import completions
from myna.wire.body import has_too_many_containers, to_json
from myna.wire.failures import EMPTY, EMPTY_CAUSED, NULL, choice_reports_error
from myna.wire.lenient import UNREADABLE, reason_of, strict, text_of
from myna.wire.v1 import ChatChoice, ChatMessage, ChatRequest

PASSED_ON: Final = frozenset(
    {
        "messages", "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed",
        "response_format", "tools", "tool_choice", "parallel_tool_calls", "presence_penalty",
        "frequency_penalty", "logit_bias", "reasoning_effort",
    }
)  # fmt: skip
"""Members of the request that are sent upstream. `n` is not: one call is charged, one answer is returned."""

TOOL_CALLS_MAX_BYTES: Final = 2**20
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
    error: msgspec.Raw = NULL


class _Choices(Struct, array_like=True, gc=False):
    """Decodes only the array's first element."""

    first: _Choice | None = None


_choices = msgspec.json.Decoder(_Choices)
_tool_calls = msgspec.json.Decoder(list[dict[str, Any]] | None)


def first_choice(body: bytes, channel: Channel) -> ChatChoice:
    """The first choice of a channel's completion, with a content or with tool calls. Raises FailedAttempt."""
    try:
        _, found = answers.validated(body, "choices", channel)
        choice = strict(_choices.decode, found).first or _Choice()
        if choice_reports_error(choice.finish_reason, choice.error):
            raise answers.reported_error(body, channel)
        if (message := choice.message or choice.delta) is None:
            raise from_answer("NoChoices", "the answer's choice has no message", body, channel)
        content = message.content
        if not isinstance(content, str):
            content = text_of(completions.message({"content": content}, whole=True)["content"])
        reason, tool_calls = reason_of(choice.finish_reason), None
        given = message.tool_calls
        if given is not NULL and (calls := _tool_calls.decode(_bounded(given))) is not None:
            tool_calls = [one for call in calls if (one := completions.call(call))]
    except UNREADABLE as error:
        raise from_answer(
            "NoCompletion", "the answer is no chat completion", body, channel, f": {error}"
        ) from error
    if not content and not tool_calls:
        # such as max_tokens 1 for a model that reasons, or a stop sequence that it begins with
        raise FailedAttempt("EmptyAnswer", "the answer is empty", meaning=EMPTY_CAUSED if reason else EMPTY)
    return ChatChoice(0, ChatMessage("assistant", content, tool_calls), reason or "stop")


def _bounded(tool_calls: msgspec.Raw) -> bytes:
    """The JSON of the tool calls. Raises FailedAttempt if they are too large to decode at once."""
    found = bytes(tool_calls)
    if len(found) > TOOL_CALLS_MAX_BYTES or has_too_many_containers(found):
        raise FailedAttempt("LargeToolCalls", "the answer's tool calls are too large")
    return found


def completion(body: bytes, request: RequestSummary, channel: Channel) -> bytes:
    """The JSON of a ChatCompletion with the first choice of a channel's. Raises FailedAttempt."""
    return to_json(answers.chat_completion(request, first_choice(body, channel)))


V1_CHAT: Final = Endpoint(
    CHAT.path,
    RouteKind.CHAT,
    ChatRequest,
    completion,
    members=PASSED_ON,
    speaks=True,
    ends_with_client=False,
)
