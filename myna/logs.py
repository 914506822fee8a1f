"""JSON logs on stderr: one object a line, the request's id in each line that belongs to one.

Access lines are gathered and written together a few times a second: one write for many requests.
"""

import asyncio
import contextvars
import json
import logging
import sys
import time
from typing import TextIO

import msgspec

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")
FLUSH_EVERY_S = 0.2
GATHERED_MAX = 1000


class JsonFormatter(logging.Formatter):
    """Level, time, logger, message, the request's id, the error's trace."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if found := request_id.get():
            line["request_id"] = found
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(level: str) -> None:
    """All loggers write JSON to stderr from `level` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class Access:
    """The access log. Belongs to one event loop."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._lines: list[bytes] = []
        self._encode = msgspec.json.Encoder().encode

    def write(self, request: str, method: str, path: str, status: int, seconds: float) -> None:
        """`path` without its query, since a caller may have put anything there."""
        line = {
            "time": round(time.time(), 3),
            "level": "info",
            "logger": "access",
            "request_id": request,
            "method": method,
            "path": path,
            "status": status,
            "ms": round(seconds * 1000, 2),
        }
        if not self._lines:
            asyncio.get_running_loop().call_later(FLUSH_EVERY_S, self.flush)
        self._lines.append(self._encode(line))
        if len(self._lines) >= GATHERED_MAX:
            self.flush()

    def flush(self) -> None:
        """Writes what was gathered."""
        if self._lines:
            self._stream.write(b"\n".join(self._lines).decode() + "\n")
            self._stream.flush()
            self._lines.clear()
