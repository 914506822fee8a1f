"""Waiting for a condition with a deadline, which is what tests do instead of sleeping."""

import socket
import threading
import time
from collections.abc import Callable

_PAUSE = threading.Event()


def wait_until(condition: Callable[[], bool], deadline_s: float, what: str, *, every_s: float = 0.01) -> None:
    """Return as soon as `condition()` is true; after `deadline_s` seconds raise TimeoutError(what)."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {deadline_s} s: {what}")
        _PAUSE.wait(every_s)


def free_port() -> int:
    """A TCP port on the loopback that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
