"""JSON logs on stderr: one object a line, the request's id in each line that belongs to one."""

import contextvars
import json
import logging
import re
import sys
import time
from functools import lru_cache

request_id: contextvars.ContextVar[str] = contextvars.ContextVar("request_id", default="")
_KEY = re.compile(r"(myna(?:node|join)?_[0-9a-f]{6})[0-9a-f]+", re.IGNORECASE)
_LOGIN = re.compile(r"://[^/@\s]+@")


def masked(text: str) -> str:
    """`text` without API keys, without credentials and tokens of nodes, and without whoever logs in by a URL:
    the last resort, behind all code that names none of them."""
    return _LOGIN.sub("://***@", _KEY.sub(r"\1***", text))


def timestamp(unix_s: float) -> str:
    """The moment in UTC, to the millisecond, as ISO 8601 writes it."""
    whole, millis = divmod(int(unix_s * 1000), 1000)
    return f"{_second(whole)}.{millis:03d}Z"


@lru_cache(maxsize=1)
def _second(unix_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix_s))


class JsonFormatter(logging.Formatter):
    """Level, time, logger, message, the request's id, the error's trace."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": masked(record.getMessage()),
        }
        if found := request_id.get():
            line["request_id"] = found
        if record.exc_info:
            line["error"] = masked(self.formatException(record.exc_info))
        return json.dumps(line, ensure_ascii=False)


def configure(level: str) -> None:
    """All loggers write JSON to stderr from `level` on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
