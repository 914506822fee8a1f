"""One chat call upstream: tries the channels in order until one answers, under a total deadline.

The next channel is tried after a failed connection, a status other than 200, a timeout, or an answer that is
invalid, empty or too large. An empty answer with a `finish_reason` is final, since the request caused it. The
body of an error is logged, truncated and without the channel's key. What of it the client gets is decided in
`myna.channel_failures`.
"""

from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from myna.channel_failures import EMPTY, EMPTY_CAUSED
from myna.channels import PARROT, Channel, Channels
from myna.chat.failover import FailedAttempt, first_answer, of_request, of_status
from myna.http_client import ClientResponse, HttpClient, RequestFailed
from myna.telemetry.access_log import RequestDetails
from myna.wire.body import has_too_many_containers
from myna.wire.lenient import UNREADABLE, json_text_of, object_of, strict, text_of

TOOL_CALLS_MAX_BYTES = 2**20
"""The default maximum of a request body. Larger tool calls would take long to decode."""


class _Message(Struct):
    content: Any = None
    tool_calls: msgspec.Raw = msgspec.Raw(b"null")


class _Choice(Struct):
    message: _Message
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
    http_client: HttpClient,
    channels: Channels,
    candidates: list[Channel],
    model: str,
    conversation: bytes,
    instruction: str,
    *,
    details: RequestDetails,
    seconds: float,
    fair_try_s: float,
    answer_max_bytes: int,
) -> ModelAnswer:
    """Returns the first valid answer, to a call with these details. Raises UpstreamFailed,
    Overloaded: see `first_answer`."""

    async def attempt(channel: Channel, left: float) -> ModelAnswer:
        if channel.url == PARROT:
            return ModelAnswer(f"🦜 {instruction}", None, "stop")
        body = _body(channel.model or model, conversation)
        return await _try(http_client, channel, body, left, answer_max_bytes)

    return await first_answer(
        channels, candidates, attempt, details=details, seconds=seconds, fair_try_s=fair_try_s
    )


async def _try(
    http_client: HttpClient,
    channel: Channel,
    body: bytes,
    seconds: float,
    answer_max_bytes: int,
) -> ModelAnswer:
    try:
        answer = await http_client.request(
            "POST",
            channel.url.rstrip("/") + "/chat/completions",
            headers=headers_of(channel),
            body=body,
            deadline_s=seconds,
            answer_max_bytes=answer_max_bytes,
        )
    except RequestFailed as failure:
        raise of_request(failure) from failure
    return read(answer, channel)


def headers_of(channel: Channel, accept: str = "application/json") -> dict[str, str]:
    """The headers of a request to a channel, with its key."""
    headers = {"content-type": "application/json", "accept": accept}
    if channel.key:
        headers["authorization"] = f"Bearer {channel.key}"
    return headers


def _body(model: str, conversation: bytes) -> bytes:
    """`conversation`, a JSON object with members, with the two that do not pass from request to channel."""
    return b'{"model":%b,"stream":false,%b' % (msgspec.json.encode(model), conversation[1:])


def read(answer: ClientResponse, channel: Channel) -> ModelAnswer:
    """The answer of a channel. Raises FailedAttempt."""
    if answer.status != HTTPStatus.OK:
        raise of_status(answer, channel)
    try:
        choice = strict(_completion.decode, answer.body).choices.first
        if choice is None:
            raise FailedAttempt("NoChoices", "the answer has no choices")
        content, reason = text_of(choice.message.content), text_of(choice.finish_reason)
        tool_calls = _with_text(_tool_calls.decode(_bounded(choice.message.tool_calls)))
    except UNREADABLE as error:
        raise FailedAttempt("NoCompletion", "the answer is no chat completion", f": {error}") from error
    if not content and not tool_calls:
        # such as max_tokens 1 for a model that reasons, or a stop sequence that it begins with
        raise FailedAttempt("EmptyAnswer", "the answer is empty", meaning=EMPTY_CAUSED if reason else EMPTY)
    return ModelAnswer(content, tool_calls, reason or "stop")


def _with_text(calls: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """The calls, whose arguments are JSON: some servers send an object."""
    for function in (object_of(call.get("function")) for call in calls or []):
        if isinstance(function.get("arguments"), dict):
            function["arguments"] = json_text_of(function["arguments"])
    return calls


def _bounded(tool_calls: msgspec.Raw) -> bytes:
    """The JSON of the tool calls. Raises FailedAttempt if they are too large to decode at once."""
    found = bytes(tool_calls)
    if len(found) > TOOL_CALLS_MAX_BYTES or has_too_many_containers(found):
        raise FailedAttempt("LargeToolCalls", "the answer's tool calls are too large")
    return found
