"""What was answered: counted, and written as the access log.

Both are done a few times a second for all of it: one write for many lines, and what would be looked up anew
for each request is still at hand for the next.
"""

import asyncio
import contextlib
import sys
from collections import Counter
from typing import TextIO

import msgspec
from msgspec import Struct

from myna import metrics
from myna.logs import timestamp

FLUSH_EVERY_S = 0.2
GATHERED_MAX = 200
"""As many are done in half a millisecond, which other requests wait."""


class Answered(Struct, frozen=True, gc=False):
    """A request that is over. `route` is one of few, for the metrics; `path` is as it was asked for, without
    its query, since a caller may have put anything there. `ended_at` in Unix seconds."""

    request_id: str
    method: str
    route: str
    path: str
    status: int
    seconds: float
    ended_at: float


class _Line(Struct, frozen=True, gc=False):
    """An answered request in the log. `time` in UTC."""

    time: str
    level: str
    logger: str
    request_id: str
    method: str
    path: str
    status: int
    ms: float


class Access:
    """The access log of one event loop."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._gathered: list[Answered] = []
        self._encoder = msgspec.json.Encoder()

    def note(self, answered: Answered) -> None:
        if not self._gathered:
            asyncio.get_running_loop().call_later(FLUSH_EVERY_S, self.flush)
        self._gathered.append(answered)
        if len(self._gathered) >= GATHERED_MAX:
            self.flush()

    def flush(self) -> None:
        """Counts and writes what was gathered. Lines that can't be written are gone: a full disk or a reader
        that left stops no call, and there is no other place in which to say so."""
        gathered, self._gathered = self._gathered, []
        if not gathered:
            return
        for (route, status), count in Counter((one.route, one.status) for one in gathered).items():
            metrics.REQUESTS.labels(route, status).inc(count)
        for one in gathered:
            metrics.seconds_of(one.route).observe(one.seconds)
        # A list: of any other iterable, encode_lines (msgspec 0.22) never lets go.
        lines = self._encoder.encode_lines([_line(one) for one in gathered])
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(lines.decode())
            self._stream.flush()


def _line(one: Answered) -> _Line:
    took_ms = round(one.seconds * 1000, 2)
    return _Line(
        timestamp(one.ended_at), "info", "access", one.request_id, one.method, one.path, one.status, took_ms
    )
