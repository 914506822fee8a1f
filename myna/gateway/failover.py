"""Tries the channels of a call in order until one answers, under a total deadline."""

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final, Protocol, TypeVar
from urllib.parse import unquote, urlsplit

from msgspec import Struct, field

from myna.channels.channels import Channel, Channels
from myna.channels.circuits import ChannelFull
from myna.channels.routes import RouteKind
from myna.errors import NO_RETRY, MynaError, UpstreamFailed
from myna.http.client import AnswerTooLarge, ClientResponse, HttpClient, RequestFailed, TimedOut
from myna.lib.telemetry import metrics, traces
from myna.lib.telemetry.requests import RequestDetails
from myna.settings import Settings
from myna.wire.completions import BYTES_PER_TOKEN, usage_at_end
from myna.wire.failures import (
    BY_KIND,
    FAILED,
    MEANINGS,
    NO_ERROR,
    Meaning,
    ServerError,
    error_of,
    read,
    retry_after_s,
    sanitized,
)

log = logging.getLogger(__name__)
T = TypeVar("T")

_OK: Final = HTTPStatus.OK.value
"""A member of HTTPStatus is looked up by a Python function."""
NO_CHANNEL = (
    "No chat channel is enabled: the operator adds one with 'myna channel add chat NAME URL' or"
    " MYNA_CHAT_URL, or enables one."
)
LOGGED_MAX_CHARS = 500


class FailedAttempt(Exception):
    """A failed attempt. The message contains no secret.

    `kind` is the label of the metric; `detail` is what the server sent, for the log only. `meaning` is that
    of the kind, unless it is given. `server_error` is the error that the server sent, for the operator;
    `public_error` is the part of it that a caller may see. An answer that is too large has more than
    `limit_bytes`, if they are known. `blameless`: the channel is perhaps not at fault. `final`: no other
    channel may answer, and the caller is told this failure.
    """

    def __init__(
        self,
        kind: str,
        why: str,
        detail: str = "",
        *,
        meaning: Meaning | None = None,
        limit_bytes: int = 0,
        server_error: ServerError = NO_ERROR,
        public_error: ServerError = NO_ERROR,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(why)
        self.kind = kind
        self.detail = detail
        self.meaning = meaning or BY_KIND.get(kind, FAILED)
        self.limit_bytes = limit_bytes
        self.server_error = server_error
        self.public_error = public_error
        self.retry_after_s = retry_after_s
        self.blameless = not self.meaning.counts
        self.final = False

    @property
    def timed_out(self) -> bool:
        """Whether the channel may still be working on it."""
        return isinstance(self.__cause__, TimedOut)


def from_request(failure: RequestFailed) -> FailedAttempt:
    """The failed attempt of a request that got no whole response; it is raised from `failure`."""
    limit_bytes = failure.limit_bytes if isinstance(failure, AnswerTooLarge) else 0
    return FailedAttempt(type(failure).__name__, str(failure), limit_bytes=limit_bytes)


def from_status(answer: ClientResponse, channel: Channel, *, model_is_callers: bool = False) -> FailedAttempt:
    """The failed attempt of a response whose status is no success. `model_is_callers`: the caller chose the
    model, which the server need not have."""
    kind, why = f"Status{answer.status}", f"status {answer.status}"
    failed = from_error(kind, why, answer.body, channel, answer.status, model_is_callers=model_is_callers)
    failed.retry_after_s = retry_after_s(answer.headers, failed.server_error.message)
    return failed


def from_answer(kind: str, why: str, body: bytes, channel: Channel, detail: str = "") -> FailedAttempt:
    """The failed attempt of an answer that is not what was asked for: of its error, if it reports one."""
    server = read(_OK, body)
    if server.message or server.code or server.status != HTTPStatus.INTERNAL_SERVER_ERROR:
        return from_error(kind, why, body, channel)
    return FailedAttempt(kind, why, detail)


def from_error(
    kind: str,
    why: str,
    body: bytes,
    channel: Channel,
    status: int = _OK,
    *,
    model_is_callers: bool = False,
) -> FailedAttempt:
    """The failed attempt of an error that a server sent, perhaps in an answer with the status 200."""
    server = read(status, body)
    return FailedAttempt(
        kind,
        why,
        logged(body, channel),
        meaning=server.meaning(model_is_callers=model_is_callers),
        server_error=server,
        public_error=sanitized(server, channel.url, channel.key),
    )


def error_for(failures: Sequence[FailedAttempt]) -> MynaError:
    """The error if every attempt failed: of the failure that tells the caller most, in whatever order they
    came."""
    told = min(failures, key=_rank, default=FailedAttempt("TimedOut", "no time was left"))
    waits = [failure.retry_after_s for failure in failures]
    return error_of(told.meaning, public_error=told.public_error, waits=waits, limit_bytes=told.limit_bytes)


def _rank(failure: FailedAttempt) -> tuple[bool, int, bool, bool]:
    error = failure.public_error
    return not failure.final, MEANINGS.index(failure.meaning), not error.message, not error.code


class Asker(Protocol):
    """Who asks channels: a call, or this service itself for no account."""

    account_id: int
    details: RequestDetails

    @property
    def seconds_left(self) -> float:
        """For the answer."""


class Nobody(Struct):
    """An `Asker` without an account."""

    seconds_left: float
    account_id: int = 0
    details: RequestDetails = field(default_factory=RequestDetails)


@dataclass(frozen=True, slots=True, eq=False)
class ChannelClient:
    """Asks the channels of one process: one of them, or several in order."""

    settings: Settings
    channels: Channels
    http_client: HttpClient

    async def answer_of(
        self,
        channel: Channel,
        path: str,
        body: bytes | None,
        *,
        deadline_s: float,
        answer_max_bytes: int | None = None,
        method: str = "POST",
        headers: Mapping[str, str] | None = None,
        model_is_callers: bool = False,
    ) -> ClientResponse:
        """A channel's whole answer, of status 200, to a request with the channel's headers or these. Without
        `answer_max_bytes` its limit is that of the settings. Raises FailedAttempt."""
        if answer_max_bytes is None:
            answer_max_bytes = self.settings.answer_max_bytes
        try:
            answer = await self.http_client.request(
                method,
                channel.url.rstrip("/") + path,
                headers=headers or channel.headers(),
                body=body,
                deadline_s=deadline_s,
                answer_max_bytes=answer_max_bytes,
            )
        except RequestFailed as failure:
            raise from_request(failure) from failure
        if answer.status != _OK:
            raise from_status(answer, channel, model_is_callers=model_is_callers)
        return answer

    async def first_answer(
        self,
        candidates: Sequence[Channel],
        attempt: Callable[[Channel, float], Awaitable[T]],
        *,
        asker: Asker,
        kind: str = RouteKind.CHAT,
        fair_try_s: float | None = None,
        adapt: Callable[[Channel, FailedAttempt], bool] = lambda channel, failure: False,
    ) -> T:
        """The result of the first attempt that doesn't raise FailedAttempt. `attempt` gets a channel and the
        seconds that are left, and makes a request of this kind; `adapt` returns whether the next one to the
        same channel is another, which is then made at once. Raises the error of `error_for` if no channel
        answers in the asker's time, and Overloaded if the account has no place for it.

        After a timeout the next channel is tried only with at least `fair_try_s` left, by default that of the
        settings, since the first one may still be generating. A timeout after less than that doesn't count as
        a failure of the channel.
        """
        if not candidates:
            error = UpstreamFailed(NO_CHANNEL)
            error.headers = NO_RETRY
            raise error
        circuits = self.channels.circuits
        fair_try_s = self.settings.fair_try_s if fair_try_s is None else fair_try_s
        failures: list[FailedAttempt] = []
        until = time.monotonic() + asker.seconds_left
        for channel in candidates:
            left = until - time.monotonic()
            if left <= 0:
                break
            asker.details.asks(channel.name)
            try:
                asked = (kind, channel.name, channel.url, channel.model, asker.details)
                with traces.attempt(*asked) if traces.tracer else traces.OFF:
                    async with self.channels.place(channel, asker.account_id):
                        while True:
                            try:
                                answer = await attempt(channel, until - time.monotonic())
                                break
                            except FailedAttempt as failure:
                                if failure.final or not adapt(channel, failure):
                                    raise
            except ChannelFull:
                metrics.UPSTREAM_FAILURES.labels(channel.name, ChannelFull.__name__).inc()
                failures.append(FailedAttempt(ChannelFull.__name__, "it has no place"))
                continue
            except FailedAttempt as failure:
                if not failure.blameless and not (failure.timed_out and left < fair_try_s):
                    circuits.failed(channel.name, str(failure), asker.account_id, kind)
                metrics.UPSTREAM_FAILURES.labels(channel.name, failure.kind).inc()
                log.warning("channel %r failed: %s%s", channel.name, failure, failure.detail)
                failures.append(_without_frames(failure))
                is_late = failure.timed_out and until - time.monotonic() < fair_try_s
                if is_late or failure.final or not failure.meaning.elsewhere:
                    break
                continue
            circuits.succeeded(channel.name)
            return answer
        raise error_for(failures) from min(failures, key=_rank, default=None)


def _without_frames(failure: FailedAttempt) -> FailedAttempt:
    """The failure without its tracebacks and those of its causes: their frames have the list of failures, and
    would be a reference cycle."""
    errors: list[BaseException | None] = [failure]
    while errors:
        if error := errors.pop():
            error.__traceback__ = None
            errors += [error.__context__, None if error.__cause__ is error.__context__ else error.__cause__]
    return failure


def note_tokens(details: RequestDetails, answer: bytes, request: bytes, output: int | None = None) -> None:
    """Notes the tokens of a call: those of the channel's usage, else counted from the size of the `request`
    and of the `answer`, or `output` where that is known better."""
    usage = usage_at_end(answer)
    details.tokens_counted = usage is None
    if usage is None:
        usage = len(request) // BYTES_PER_TOKEN, len(answer) // BYTES_PER_TOKEN if output is None else output
    details.input_tokens, details.output_tokens = usage


def logged(body: bytes, channel: Channel) -> str:
    """The beginning of an answer, without secrets, as the detail of a failed attempt."""
    text = body[: 4 * LOGGED_MAX_CHARS].decode(errors="replace")
    return f": {without_secrets(text, channel)[:LOGGED_MAX_CHARS]!r}"


def without_secrets(text: str, channel: Channel) -> str:
    """The text with the channel's key and password masked."""
    for secret in filter(None, (channel.key, unquote(urlsplit(channel.url).password or ""))):
        text = text.replace(secret, "***")
    return text
