"""One chat call to the upstreams: each channel in order until one answers, under a total deadline.

A channel that can't be connected to, answers 429, 5xx or anything but 200, takes too long, or whose answer
is broken, empty or too large, makes room for the next one. What an upstream says of an error is logged, cut
short, and never returned: it may hold its address or a secret.
"""

import logging
import time
from typing import Any

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
LOGGED_MAX_BYTES = 500


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


class _Fault(Exception):
    """A try that failed; the text is for the log and the metric."""


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
    """The first good answer. Raises UpstreamFailed when no channel has one within `seconds`."""
    if not candidates:
        raise UpstreamFailed(NO_CHANNEL)
    until = time.monotonic() + seconds
    for channel in candidates:
        left = until - time.monotonic()
        if left <= 0:
            break
        if channel.url == PARROT:
            return Said(f"🦜 {instruction}", None, "stop")
        try:
            said = await _try(outbound, channel, conversation, min(left, try_s), answer_max_bytes)
        except _Fault as fault:
            channels.rests.failed(channel.name)
            metrics.UPSTREAM_FAILURES.labels(channel.name, type(fault.__cause__ or fault).__name__).inc()
            log.warning("chat channel %r failed: %s", channel.name, fault)
            continue
        channels.rests.succeeded(channel.name)
        return said
    raise UpstreamFailed(ALL_FAILED)


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
        raise _Fault(str(failure)) from failure
    return _read(answer)


def _read(answer: Answer) -> Said:
    if answer.status != 200:
        text = answer.body[:LOGGED_MAX_BYTES].decode(errors="replace")
        raise _Fault(f"status {answer.status}: {text!r}")
    try:
        completion = _decoder.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Fault(f"the answer is no chat completion: {error}") from error
    if not completion.choices:
        raise _Fault("the answer has no choices")
    choice = completion.choices[0]
    if not choice.message.content and not choice.message.tool_calls:
        raise _Fault("the answer is empty")
    return Said(choice.message.content or "", choice.message.tool_calls, choice.finish_reason or "stop")
