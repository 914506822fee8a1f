"""One chat call to the upstreams: each channel in order until one answers, under a total deadline.

A channel that can't be connected to, answers 429, 5xx or anything but 200, takes too long, or whose answer
is broken, empty or too large, makes room for the next one. What an upstream says of an error is logged, cut
short and without the channel's key, and never returned: it may hold its address or a secret.
"""

import logging
import time
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Struct

from myna import metrics
from myna.channels import PARROT, Channel, Channels
from myna.errors import UpstreamFailed
from myna.outbound import Answer, Outbound, OutboundFailed

log = logging.getLogger(__name__)

NO_CHANNEL = (
    "No chat channel is configured: the operator adds one with"
    " 'myna channel add chat NAME URL' or MYNA_CHAT_URL."
)
ALL_FAILED = "No chat channel gave an answer; the units were refunded, try again later."
LOGGED_MAX_CHARS = 500
NOT_ITS_FAULT = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
"""What a healthy channel answers to a request it can't serve: by that, no caller may send it to rest."""


class _Message(Struct):
    content: str | None = None
    tool_calls: list[dict[str, Any]] | None = None


class _Choice(Struct):
    message: _Message
    finish_reason: str | None = None


class _Completion(Struct):
    choices: list[_Choice]


class Said(Struct, frozen=True):
    """What the model answered. `content` is empty only beside tool calls."""

    content: str
    tool_calls: list[dict[str, Any]] | None
    finish_reason: str


class Fault(Exception):
    """A try that failed, and why, without a secret. `kind` is one of few, for the metric; `said` is what the
    upstream said, for the log alone; `blameless` where it may be the request's fault."""

    def __init__(self, kind: str, why: str, said: str = "", *, blameless: bool = False) -> None:
        super().__init__(why)
        self.kind, self.said, self.blameless = kind, said, blameless


_decoder = msgspec.json.Decoder(_Completion)


async def ask(
    outbound: Outbound,
    channels: Channels,
    candidates: list[Channel],
    conversation: dict[str, Any],
    instruction: str,
    *,
    seconds: float,
    try_s: float,
    answer_max_bytes: int,
) -> Said:
    """The first good answer. Raises UpstreamFailed, from the last Fault, when no channel has one within
    `seconds`."""
    if not candidates:
        raise UpstreamFailed(NO_CHANNEL)
    last: Fault | None = None
    until = time.monotonic() + seconds
    for channel in candidates:
        left = until - time.monotonic()
        if left <= 0:
            break
        if channel.url == PARROT:
            return Said(f"🦜 {instruction}", None, "stop")
        try:
            said = await _try(outbound, channel, conversation, min(left, try_s), answer_max_bytes)
        except Fault as fault:
            if not fault.blameless:
                channels.rests.failed(channel.name)
            metrics.UPSTREAM_FAILURES.labels(channel.name, fault.kind).inc()
            log.warning("chat channel %r failed: %s%s", channel.name, fault, fault.said)
            last = fault.with_traceback(None)  # which would hold on to this frame, as the frame does to it
            continue
        channels.rests.succeeded(channel.name)
        return said
    raise UpstreamFailed(ALL_FAILED) from last


async def _try(
    outbound: Outbound, channel: Channel, conversation: dict[str, Any], seconds: float, answer_max_bytes: int
) -> Said:
    headers = {"content-type": "application/json", "accept": "application/json"}
    if channel.key:
        headers["authorization"] = f"Bearer {channel.key}"
    body = {**conversation, "stream": False}
    if channel.model:
        body["model"] = channel.model
    try:
        answer = await outbound.request(
            "POST",
            channel.url.rstrip("/") + "/chat/completions",
            headers=headers,
            body=msgspec.json.encode(body),
            deadline_s=seconds,
            answer_max_bytes=answer_max_bytes,
        )
    except OutboundFailed as failure:
        raise Fault(type(failure).__name__, str(failure)) from failure
    return _read(answer, channel)


def _read(answer: Answer, channel: Channel) -> Said:
    if answer.status != HTTPStatus.OK:
        said = f": {_without_secrets(answer.body, channel)[:LOGGED_MAX_CHARS]!r}"
        blameless = answer.status in NOT_ITS_FAULT
        raise Fault(f"Status{answer.status}", f"status {answer.status}", said, blameless=blameless)
    try:
        completion = _decoder.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Fault("NoCompletion", "the answer is no chat completion", f": {error}") from error
    if not completion.choices:
        raise Fault("NoChoices", "the answer has no choices")
    choice = completion.choices[0]
    if not choice.message.content and not choice.message.tool_calls:
        raise Fault("EmptyAnswer", "the answer is empty")
    return Said(choice.message.content or "", choice.message.tool_calls, choice.finish_reason or "stop")


def _without_secrets(body: bytes, channel: Channel) -> str:
    """The beginning of an upstream's words, without what we logged in with, should they repeat it."""
    said = body[: 4 * LOGGED_MAX_CHARS].decode(errors="replace")
    for secret in filter(None, (channel.key, unquote(urlsplit(channel.url).password or ""))):
        said = said.replace(secret, "***")
    return said
