"""JSON logs on stderr: one object per line, with the id of the request.

A separate thread writes them. If stderr blocks, lines are dropped and counted, and the next line that can be
written reports their number: neither a call nor a shutdown waits for a log.
"""

import contextvars
import json
import logging
import os
import re
import select
import sys
import time
from concurrent.futures import Future, wait
from functools import lru_cache, partial
from threading import RLock

from myna.lib.files import DiskThreads
from myna.lib.telemetry import metrics, traces

WAITING_MAX_BYTES = 2**20
"""Limit on lines that wait to be written."""
FLUSH_MAX_S = 1.0
"""How long a shutdown waits for the last lines."""

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")
traceparent: contextvars.ContextVar[str] = contextvars.ContextVar("traceparent", default="")
"""The client's header of that name (W3C Trace Context); empty without one."""
_KEY = re.compile(r"(myna(?:node|join|link|session|oidc)?_[0-9a-f]{6})[0-9a-f]+", re.IGNORECASE)
_LOGIN = re.compile(r"://[^/@\s]+@")


def trace_lines() -> str:
    """The lines of the headers by which a server's own log names the request that this task works on."""
    lines = ""
    if found := request_id.get():
        lines = f"x-request-id: {found}\r\n"
    if found := (traces.tracer and traces.traceparent()) or traceparent.get():
        lines += f"traceparent: {found}\r\n"
    return lines


def masked(text: str) -> str:
    """`text` with API keys, credentials and tokens of nodes, tokens of links and sessions, and logins in URLs
    masked. This is a second line of defence: no code logs any of them on purpose."""
    if "_" not in text and "@" not in text:  # most texts: a path, or the name of a model
        return text
    return _LOGIN.sub("://***@", _KEY.sub(r"\1***", text))


def timestamp(unix_s: float) -> str:
    """The time in UTC as ISO 8601, with milliseconds."""
    whole, millis = divmod(int(unix_s * 1000), 1000)
    return f"{_second(whole)}.{millis:03d}Z"


@lru_cache(maxsize=1)
def _second(unix_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix_s))


class JsonFormatter(logging.Formatter):
    """Formats time, level, logger, message, request id and traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": masked(record.getMessage()),
        }
        if current := request_id.get():
            line["request_id"] = current
        if record.exc_info:
            line["error"] = masked(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


class LogWriter:
    """Writes lines to a file descriptor, in order. None, for a process without stderr, discards them.

    The descriptor stays in blocking mode, since other programs may share the terminal. `write` is reentrant:
    the garbage collector may run inside it, and asyncio then logs exceptions that were never retrieved.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._thread = DiskThreads(1)
        self._lock = RLock()
        self._waiting_bytes = 0
        self._dropped = 0
        self._partial_line = False
        self._last: Future[None] | None = None

    def write(self, lines: bytes) -> None:
        """Queues complete lines. Drops them if too many wait."""
        size_bytes = len(lines)
        with self._lock:
            if self._waiting_bytes + size_bytes > WAITING_MAX_BYTES:
                self._drop(lines)
                return
            self._waiting_bytes += size_bytes
            self._last = self._thread.submit(partial(self._write_queued, lines))

    def flush(self) -> None:
        """Waits at most FLUSH_MAX_S for the lines queued so far."""
        if self._last is not None:
            wait([self._last], FLUSH_MAX_S)

    def _drop(self, lines: bytes) -> None:
        count = lines.count(b"\n")
        self._dropped += count
        metrics.LOG_LINES_DROPPED.inc(count)

    def _write_queued(self, lines: bytes) -> None:
        """Runs in the thread."""
        size_bytes = len(lines)
        with self._lock:
            self._waiting_bytes -= size_bytes
            dropped, self._dropped = self._dropped, 0
        report = _dropped_report(dropped) if dropped else b""
        if not self._try_to_write(report + lines):
            with self._lock:
                self._dropped += dropped
                self._drop(lines)

    def _try_to_write(self, data: bytes) -> bool:
        """Returns False if the reader has closed the pipe or the disk is full."""
        if self._descriptor is None:
            return False
        if self._partial_line:
            data = b"\n" + data
        left = memoryview(data)
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # another program has made it non-blocking
                select.select([], [self._descriptor], [])
            except OSError:
                self._partial_line |= len(left) < len(data)
                return False
        self._partial_line = False
        return True


def _dropped_report(dropped: int) -> bytes:
    line = {
        "time": timestamp(time.time()),
        "level": "warning",
        "logger": __name__,
        "message": f"{dropped} lines of the log were dropped: the reader of stderr was too slow or has ended",
    }
    return json.dumps(line).encode() + b"\n"


class _Handler(logging.Handler):
    """The handler of all loggers. Python flushes it when the process ends."""

    def __init__(self, writer: LogWriter) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._writer.write(self.format(record).encode(errors="backslashreplace") + b"\n")
        except Exception:  # such as arguments that don't match the message, as in every handler
            self.handleError(record)

    def flush(self) -> None:
        self._writer.flush()


def configure(level: str) -> LogWriter:
    """Makes all loggers write JSON to stderr from `level` on. Returns the writer."""
    writer = LogWriter(sys.stderr.fileno() if sys.stderr else None)
    handler = _Handler(writer)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    return writer
