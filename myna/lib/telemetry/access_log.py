"""The access log and the metrics of requests.

Completed requests are counted and logged in batches: one write for many lines, and one label lookup per
metric for many requests. Nothing reads the log: what a request learned about itself is in its
`RequestDetails`.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from myna.lib.telemetry import metrics
from myna.lib.telemetry.logs import timestamp
from myna.lib.telemetry.requests import CompletedRequest

FLUSH_EVERY_S = 0.2
BUFFERED_MAX = 200
"""A batch of this size blocks the event loop for half a millisecond."""
REFUSED = "refused"
"""The route of requests that the server refused without the application, such as a bad request line or a
connection over the limit. Method and path are empty, since the client may have sent any bytes."""
REFUSALS_LOGGED_MAX = 20
"""Logged refusals per second, since a client can cause many cheaply. All of them are counted."""


class _Line(Struct, frozen=True, gc=False, omit_defaults=True):
    """A line of the access log. `time` in UTC. Unknown values are omitted. After `ms` come the first fields
    of `RequestDetails`."""

    time: str
    level: str
    logger: str
    request_id: str
    method: str | UnsetType
    path: str | UnsetType
    status: int
    ms: float | UnsetType
    account_id: int = 0
    key_id: int = 0
    error_type: str = ""
    units: int = 0
    channel: str = ""
    route: str = ""
    model: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    tokens_counted: bool = False
    first_byte_ms: float | None = None
    replay_of: str = ""


_DETAILS: Final = len(_Line.__struct_fields__) - _Line.__struct_fields__.index("account_id")


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
                metrics.observed[metrics.seconds_of(one.route)].append(one.seconds)
            if one.details.channel and one.details.route:
                metrics.of_call(one.details.channel, one.details.route).count(one.details, one.seconds)
            if one.details.error_type:
                self.on_error(one)
        metrics.fold()
        if not buffered:
            return
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
    return _Line(
        timestamp(one.ended_at),
        "info",
        "access",
        one.request_id,
        one.method or UNSET,
        one.path or UNSET,
        one.status,
        UNSET if one.route == REFUSED else round(one.seconds * 1000, 2),
        *structs.astuple(one.details)[:_DETAILS],
    )
