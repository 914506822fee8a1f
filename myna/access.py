"""What was answered: counted, and written as the access log.

Both are done a few times a second for all of it: one write for many lines, and what would be looked up anew
for each request is still at hand for the next.
"""

import asyncio
import contextlib
import sys
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


class Access:
    """The access log of one event loop."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._gathered: list[Answered] = []
        self._encode = msgspec.json.Encoder().encode

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
        for answered in gathered:
            requests, seconds = metrics.of_request(answered.route, answered.status)
            requests.inc()
            seconds.observe(answered.seconds)
        with contextlib.suppress(OSError, ValueError):
            self._stream.write("".join(map(self._line, gathered)))
            self._stream.flush()

    def _line(self, answered: Answered) -> str:
        line = {
            "time": timestamp(answered.ended_at),
            "level": "info",
            "logger": "access",
            "request_id": answered.request_id,
            "method": answered.method,
            "path": answered.path,
            "status": answered.status,
            "ms": round(answered.seconds * 1000, 2),
        }
        return self._encode(line).decode() + "\n"
