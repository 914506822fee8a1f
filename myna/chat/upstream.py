"""One chat call upstream: tries the channels in order until one answers, under a total deadline.

The next channel is tried after a failed connection, a status other than 200, a timeout, or an answer that is
invalid, empty or too large. An empty answer with a `finish_reason` is final, since the request caused it. The
body of an error is logged, truncated and without the channel's key. It is never returned to the client, since
it may contain an address or a secret.
"""

import logging
import time
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from myna.channels import PARROT, Channel, Channels
from myna.errors import UpstreamFailed
from myna.http_client import ClientResponse, HttpClient, RequestFailed, TimedOut
from myna.telemetry import access_log, metrics
from myna.wire.body import has_too_many_containers

log = logging.getLogger(__name__)

NO_CHANNEL = (
    "No chat channel is configured: the operator adds one with"
    " 'myna channel add chat NAME URL' or MYNA_CHAT_URL."
)
ALL_FAILED = "No chat channel gave an answer; the units were refunded, try again later."
LOGGED_MAX_CHARS = 500
REQUEST_FAULTS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
"""Statuses that a bad request causes. They don't count as failures: else a client could open a circuit."""


TOOL_CALLS_MAX_BYTES = 2**20
"""The default maximum of a request body. Larger tool calls would take long to decode."""


class _Message(Struct):
    content: str | None = None
    tool_calls: msgspec.Raw = msgspec.Raw(b"null")


class _Choice(Struct):
    message: _Message
    finish_reason: str | None = None


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


class FailedAttempt(Exception):
    """A failed attempt. The message contains no secret.

    `kind` is the label of the metric; `detail` is what the upstream sent, for the log only; `blameless` means
    that the request may be the cause; `final`, that another channel would fail likewise; `timed_out`, that
    the channel may still be working on it.
    """

    def __init__(
        self,
        kind: str,
        why: str,
        detail: str = "",
        *,
        blameless: bool = False,
        final: bool = False,
        timed_out: bool = False,
    ) -> None:
        super().__init__(why)
        self.kind = kind
        self.detail = detail
        self.blameless = blameless
        self.final = final
        self.timed_out = timed_out


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
    seconds: float,
    fair_try_s: float,
    answer_max_bytes: int,
) -> ModelAnswer:
    """Returns the first valid answer. Raises UpstreamFailed, from the last FailedAttempt, if no channel gives
    one within `seconds`.

    After a timeout the next channel is tried only with at least `fair_try_s` left, since the first one may
    still be generating. A timeout after less than that doesn't count as a failure of the channel.
    """
    if not candidates:
        raise UpstreamFailed(NO_CHANNEL)
    last: FailedAttempt | None = None
    until = time.monotonic() + seconds
    try:
        for channel in candidates:
            left = until - time.monotonic()
            if left <= 0:
                break
            access_log.details().channel = channel.name
            if channel.url == PARROT:
                return ModelAnswer(f"🦜 {instruction}", None, "stop")
            try:
                body = _body(channel.model or model, conversation)
                answer = await _try(http_client, channel, body, left, answer_max_bytes)
            except FailedAttempt as failure:
                if not failure.blameless and not (failure.timed_out and left < fair_try_s):
                    channels.circuits.failed(channel.name, str(failure))
                metrics.UPSTREAM_FAILURES.labels(channel.name, failure.kind).inc()
                log.warning("chat channel %r failed: %s%s", channel.name, failure, failure.detail)
                last = failure
                if failure.final or (failure.timed_out and until - time.monotonic() < fair_try_s):
                    break
                continue
            channels.circuits.succeeded(channel.name)
            return answer
        raise UpstreamFailed(ALL_FAILED) from last
    finally:
        last = None  # else its traceback and this frame are a reference cycle


async def _try(
    http_client: HttpClient,
    channel: Channel,
    body: bytes,
    seconds: float,
    answer_max_bytes: int,
) -> ModelAnswer:
    headers = {"content-type": "application/json", "accept": "application/json"}
    if channel.key:
        headers["authorization"] = f"Bearer {channel.key}"
    try:
        answer = await http_client.request(
            "POST",
            channel.url.rstrip("/") + "/chat/completions",
            headers=headers,
            body=body,
            deadline_s=seconds,
            answer_max_bytes=answer_max_bytes,
        )
    except RequestFailed as failure:
        timed_out = isinstance(failure, TimedOut)
        raise FailedAttempt(type(failure).__name__, str(failure), timed_out=timed_out) from failure
    return _read(answer, channel)


def _body(model: str, conversation: bytes) -> bytes:
    """`conversation`, a JSON object with members, with the two that do not pass from request to channel."""
    return b'{"model":%b,"stream":false,%b' % (msgspec.json.encode(model), conversation[1:])


def _read(answer: ClientResponse, channel: Channel) -> ModelAnswer:
    if answer.status != HTTPStatus.OK:
        detail = f": {_without_secrets(answer.body, channel)[:LOGGED_MAX_CHARS]!r}"
        blameless = answer.status in REQUEST_FAULTS
        raise FailedAttempt(f"Status{answer.status}", f"status {answer.status}", detail, blameless=blameless)
    try:
        choice = _completion.decode(answer.body).choices.first
        if choice is None:
            raise FailedAttempt("NoChoices", "the answer has no choices")
        tool_calls = _tool_calls.decode(_bounded(choice.message.tool_calls))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FailedAttempt("NoCompletion", "the answer is no chat completion", f": {error}") from error
    if not choice.message.content and not tool_calls:
        # such as max_tokens 1 for a model that reasons, or a stop sequence that it begins with
        raise FailedAttempt(
            "EmptyAnswer", "the answer is empty", blameless=True, final=bool(choice.finish_reason)
        )
    return ModelAnswer(choice.message.content or "", tool_calls, choice.finish_reason or "stop")


def _bounded(tool_calls: msgspec.Raw) -> bytes:
    """The JSON of the tool calls. Raises FailedAttempt if they are too large to decode at once."""
    found = bytes(tool_calls)
    if len(found) > TOOL_CALLS_MAX_BYTES or has_too_many_containers(found):
        raise FailedAttempt("LargeToolCalls", "the answer's tool calls are too large")
    return found


def _without_secrets(body: bytes, channel: Channel) -> str:
    """The beginning of the body, with the channel's key and password masked."""
    text = body[: 4 * LOGGED_MAX_CHARS].decode(errors="replace")
    for secret in filter(None, (channel.key, unquote(urlsplit(channel.url).password or ""))):
        text = text.replace(secret, "***")
    return text
