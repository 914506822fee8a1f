"""Tries the channels of a call in order until one answers, under a total deadline."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from myna.channels import Channel, Channels
from myna.errors import Overloaded, RequestRefused, UpstreamFailed
from myna.http_client import ClientResponse, OutOfFiles, RequestFailed, TimedOut
from myna.outbound import RETRY_AFTER_S, ChannelFull
from myna.telemetry import access_log, metrics

log = logging.getLogger(__name__)
T = TypeVar("T")

NO_CHANNEL = (
    "No chat channel is enabled: the operator adds one with 'myna channel add chat NAME URL' or"
    " MYNA_CHAT_URL, or enables one."
)
ALL_FAILED = "No chat channel gave an answer; the units were refunded, try again later."
FULL = "Every channel has as many requests open as it may have; the units were refunded, try again."
OUT_OF_FILES = "The service has as many files open as it may have; the units were refunded, try again."
LOGGED_MAX_CHARS = 500
REQUEST_FAULTS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)
"""Statuses that a bad request causes. They don't count as failures: else a client could open a circuit."""


class FailedAttempt(Exception):
    """A failed attempt. The message contains no secret.

    `kind` is the label of the metric; `detail` is what the upstream sent, for the log only; `blameless` means
    that the request may be the cause; `final`, that another channel would fail likewise; `timed_out`, that
    the channel may still be working on it. `body` is that of a response that blames the request. `ours`: this
    process could not connect to any channel.
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
        body: bytes = b"",
        ours: bool = False,
    ) -> None:
        super().__init__(why)
        self.kind = kind
        self.detail = detail
        self.blameless = blameless
        self.final = final
        self.timed_out = timed_out
        self.body = body
        self.ours = ours


def of_request(failure: RequestFailed) -> FailedAttempt:
    """The failed attempt of a request that got no whole response."""
    ours = isinstance(failure, OutOfFiles)
    return FailedAttempt(
        type(failure).__name__,
        str(failure),
        blameless=ours,
        timed_out=isinstance(failure, TimedOut),
        ours=ours,
    )


def of_status(answer: ClientResponse, channel: Channel, *, model_is_callers: bool = False) -> FailedAttempt:
    """The failed attempt of a response whose status is no success. `model_is_callers`: the caller chose the
    model, so a 404, by which servers refuse an unknown model, is not counted as a failure."""
    at_fault = answer.status in REQUEST_FAULTS
    return FailedAttempt(
        f"Status{answer.status}",
        f"status {answer.status}",
        logged(answer.body, channel),
        blameless=at_fault or (model_is_callers and answer.status == HTTPStatus.NOT_FOUND),
        body=answer.body if at_fault else b"",
    )


class _Refusal(msgspec.Struct):
    code: str | None = None
    param: str | None = None


class _Refused(msgspec.Struct):
    error: _Refusal


def refusal_of(body: bytes) -> RequestRefused:
    """The error for a caller whose request a channel refused with this body, with its `code` and `param` if
    it has OpenAI's shape. The message isn't passed on, since it may contain an address or a secret."""
    try:
        error = msgspec.json.decode(body, type=_Refused).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        error = _Refusal()
    return RequestRefused(_word(error.code), _word(error.param))


def _word(text: str | None) -> str | None:
    return text if text and len(text) <= 64 and text.replace("_", "").replace(".", "").isalnum() else None


async def first_answer(
    channels: Channels,
    candidates: Sequence[Channel],
    attempt: Callable[[Channel, float], Awaitable[T]],
    *,
    account_id: int,
    seconds: float,
    fair_try_s: float,
) -> T:
    """The result of the first attempt that doesn't raise FailedAttempt. `attempt` gets a channel and the
    seconds that are left. Raises UpstreamFailed, from the last FailedAttempt, if no channel answers within
    `seconds`; Overloaded if the account or a channel had no place for it, or this process no file.

    After a timeout the next channel is tried only with at least `fair_try_s` left, since the first one may
    still be generating. A timeout after less than that doesn't count as a failure of the channel.
    """
    if not candidates:
        raise UpstreamFailed(NO_CHANNEL)
    last: FailedAttempt | None = None
    is_full = False
    until = time.monotonic() + seconds
    try:
        for channel in candidates:
            left = until - time.monotonic()
            if left <= 0:
                break
            access_log.details().channel = channel.name
            try:
                async with channels.place(channel, account_id):
                    answer = await attempt(channel, until - time.monotonic())
            except ChannelFull:
                metrics.UPSTREAM_FAILURES.labels(channel.name, ChannelFull.__name__).inc()
                is_full = True
                continue
            except FailedAttempt as failure:
                if not failure.blameless and not (failure.timed_out and left < fair_try_s):
                    channels.circuits.failed(channel.name, str(failure))
                metrics.UPSTREAM_FAILURES.labels(channel.name, failure.kind).inc()
                log.warning("chat channel %r failed: %s%s", channel.name, failure, failure.detail)
                last = failure
                if failure.ours:
                    raise Overloaded(OUT_OF_FILES, RETRY_AFTER_S) from failure
                if failure.final or (failure.timed_out and until - time.monotonic() < fair_try_s):
                    break
                continue
            channels.circuits.succeeded(channel.name)
            return answer
        if is_full and not (last and last.final):
            raise Overloaded(FULL, RETRY_AFTER_S) from last
        raise UpstreamFailed(ALL_FAILED) from last
    finally:
        last = None  # else its traceback and this frame are a reference cycle


def logged(body: bytes, channel: Channel) -> str:
    """The beginning of an answer, without secrets, as the detail of a failed attempt."""
    return f": {_without_secrets(body, channel)[:LOGGED_MAX_CHARS]!r}"


def _without_secrets(body: bytes, channel: Channel) -> str:
    """The beginning of the body, with the channel's key and password masked."""
    text = body[: 4 * LOGGED_MAX_CHARS].decode(errors="replace")
    for secret in filter(None, (channel.key, unquote(urlsplit(channel.url).password or ""))):
        text = text.replace(secret, "***")
    return text
