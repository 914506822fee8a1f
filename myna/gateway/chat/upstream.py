"""One chat call upstream: tries the channels in order until one answers, under a total deadline.

The next channel is tried after a failed connection, a status other than 200, a timeout, or an answer that is
invalid, empty or too large. An empty answer with a `finish_reason` is final, since the request caused it. The
body of an error is logged, truncated and without the channel's key. What of it the client gets is decided in
`myna.wire.failures`.
"""

from typing import Any

import msgspec
from msgspec import Struct

from myna.channels.channels import PARROT, Channel
from myna.gateway.chat import text
from myna.gateway.chat.failover import Asker, FailedAttempt, Failover, unusable
from myna.wire import completions
from myna.wire.body import has_too_many_containers
from myna.wire.failures import EMPTY, EMPTY_CAUSED
from myna.wire.lenient import UNREADABLE, reason_of, strict, text_of

TOOL_CALLS_MAX_BYTES = 2**20
"""The default maximum of a request body. Larger tool calls would take long to decode."""


class _Message(Struct):
    content: Any = None
    tool_calls: msgspec.Raw = msgspec.Raw(b"null")


class _Choice(Struct):
    """Some servers send the message of a whole answer as `delta`."""

    message: _Message | None = None
    delta: _Message | None = None
    finish_reason: Any = None


class _Choices(Struct, array_like=True):
    """Decodes only the array's first element."""

    first: _Choice | None = None


class _Completion(Struct):
    choices: _Choices


class ModelAnswer(Struct, frozen=True):
    """The model's answer. `content` is empty only if there are tool calls."""

    content: str
    tool_calls: list[dict[str, Any]] | None
    finish_reason: str


_completion = msgspec.json.Decoder(_Completion)
_tool_calls = msgspec.json.Decoder(list[dict[str, Any]] | None)


async def ask(
    failover: Failover,
    candidates: list[Channel],
    model: str,
    conversation: bytes,
    instruction: str,
    *,
    asker: Asker,
    seconds: float,
    fair_try_s: float | None = None,
) -> ModelAnswer:
    """Returns the first valid answer. Raises UpstreamFailed, Overloaded: see `Failover.first_answer`."""

    async def attempt(channel: Channel, left: float) -> ModelAnswer:
        if channel.url == PARROT:
            return ModelAnswer(f"🦜 {instruction}", None, "stop")
        body = _body(channel.model or model, conversation)
        answer = await failover.answer_of(channel, "/chat/completions", body, deadline_s=left)
        text.note_tokens(asker.details, answer.body, body)
        return model_answer(answer.body, channel)

    return await failover.first_answer(
        candidates, attempt, asker=asker, seconds=seconds, fair_try_s=fair_try_s
    )


def _body(model: str, conversation: bytes) -> bytes:
    """`conversation`, a JSON object with members, with the two that do not pass from request to channel."""
    return b'{"model":%b,"stream":false,%b' % (msgspec.json.encode(model), conversation[1:])


def model_answer(answer: bytes, channel: Channel) -> ModelAnswer:
    """The first choice of a chat completion. Raises FailedAttempt."""
    try:
        choice = strict(_completion.decode, answer).choices.first
        if choice is None:
            raise unusable("NoChoices", "the answer has no choices", answer, channel)
        if (message := choice.message or choice.delta) is None:
            raise unusable("NoChoices", "the answer's choice has no message", answer, channel)
        content = message.content
        if not isinstance(content, str):
            content = text_of(completions.message({"content": content}, whole=True)["content"])
        reason, tool_calls = reason_of(choice.finish_reason), None
        if (found := _tool_calls.decode(_bounded(message.tool_calls))) is not None:
            tool_calls = [one for call in found if (one := completions.call(call))]
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
