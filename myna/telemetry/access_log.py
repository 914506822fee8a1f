"""The access log and the metrics of requests.

Handlers and use cases record what they learn about a request in its `RequestDetails`, which its `Request` and
its caller have. Completed requests are counted and logged in batches: one write for many lines, and one label
lookup per metric for many requests.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

import msgspec
from msgspec import Struct

from myna.errors import MynaError
from myna.telemetry import metrics
from myna.telemetry.logs import timestamp

FLUSH_EVERY_S = 0.2
BUFFERED_MAX = 200
"""A batch of this size blocks the event loop for half a millisecond."""
REFUSED = "refused"
"""The route of requests that the server refused without the application, such as a bad request line or a
connection over the limit. Method and path are empty, since the client may have sent any bytes."""
REFUSALS_LOGGED_MAX = 20
"""Logged refusals per second, since a client can cause many cheaply. All of them are counted."""


class RequestDetails(Struct, gc=False):
    """Details of a request; 0 or empty if unknown. `error_type` is the type in the error envelope. `units`
    were charged and not refunded. `channel` answered or was tried last. `replay_of` is the id, in hex, of the
    call whose stored response was sent. `balance` is the account's at the last key check or charge, `ignored`
    names unknown fields of the body (see `body.ignored`), `ignored_tools` the tools that were left out,
    `unspoken` counts what of a text was not spoken, `message` is that of the error envelope, `call_id` is the
    charged call, and `rate_headers` are the headers about its limits; these seven are not logged."""

    account_id: int = 0
    key_id: int = 0
    error_type: str = ""
    units: int = 0
    channel: str = ""
    replay_of: str = ""
    balance: int = 0
    ignored: str = ""
    ignored_tools: str = ""
    unspoken: dict[str, int] = {}
    message: str = ""
    call_id: bytes = b""
    rate_headers: dict[str, str] = {}

    def failed(self, error: MynaError) -> None:
        """The request ends with this error."""
        self.error_type, self.message = error.type, error.message


class CompletedRequest(Struct, frozen=True, gc=False):
    """A completed request. `route` has few values, for the metrics. `path` is the requested path without its
    query, which may contain secrets. `ended_at` in Unix seconds, `address` is the client's."""

    request_id: str
    method: str
    route: str
    path: str
    status: int
    seconds: float
    ended_at: float
    details: RequestDetails
    address: str = ""


class _Line(Struct, frozen=True, gc=False, omit_defaults=True, kw_only=True):
    """A line of the access log. `time` in UTC. Unknown values are omitted."""

    time: str
    level: str
    logger: str
    request_id: str
    method: str = ""
    path: str = ""
    status: int
    ms: float | None = None
    account_id: int = 0
    key_id: int = 0
    error_type: str = ""
    units: int = 0
    channel: str = ""
    replay_of: str = ""


class AccessLog:
    """The access log of one event loop. `write` takes complete lines and must not block. `on_error` takes
    each request that ended with an error response."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self.on_error: Callable[[CompletedRequest], None] = lambda completed: None
        self._buffer: list[CompletedRequest] = []
        self._encoder = msgspec.json.Encoder()
        self._second = 0
        self._refusals_logged = 0

    def record(self, completed: CompletedRequest) -> None:
        if not self._buffer:
            asyncio.get_running_loop().call_later(FLUSH_EVERY_S, self.flush)
        self._buffer.append(completed)
        if len(self._buffer) >= BUFFERED_MAX:
            self.flush()

    def flush(self) -> None:
        """Counts and writes the buffered requests."""
        buffered, self._buffer = self._buffer, []
        if not buffered:
            return
        groups = Counter(
            (one.route, one.status, one.details.error_type, one.details.channel) for one in buffered
        )
        for (route, status, error_type, channel), count in groups.items():
            metrics.REQUESTS.labels(route, status).inc(count)
            if error_type:
                metrics.REQUEST_ERRORS.labels(route, error_type).inc(count)
            if channel:
                metrics.CHANNEL_REQUESTS.labels(channel, status).inc(count)
        for one in buffered:
            if one.route != REFUSED:
                metrics.seconds_of(one.route).observe(one.seconds)
            if one.details.error_type:
                self.on_error(one)
        # A list: encode_lines of msgspec 0.22 leaks a reference to any other iterable.
        self._write(self._encoder.encode_lines([_line(one) for one in buffered if self._is_logged(one)]))

    def _is_logged(self, one: CompletedRequest) -> bool:
        if one.route != REFUSED:
            return True
        if int(one.ended_at) != self._second:
            self._second = int(one.ended_at)
            self._refusals_logged = 0
        self._refusals_logged += 1
        return self._refusals_logged <= REFUSALS_LOGGED_MAX


def _line(one: CompletedRequest) -> _Line:
    details = one.details
    return _Line(
        time=timestamp(one.ended_at),
        level="info",
        logger="access",
        request_id=one.request_id,
        method=one.method,
        path=one.path,
        status=one.status,
        ms=None if one.route == REFUSED else round(one.seconds * 1000, 2),
        account_id=details.account_id,
        key_id=details.key_id,
        error_type=details.error_type,
        units=details.units,
        channel=details.channel,
        replay_of=details.replay_of,
    )
