"""Waiting for a condition with a deadline, which is what tests do instead of sleeping."""

import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable

SERVER_PORTS = range(10_000, 32_768)
_PAUSE = threading.Event()


def wait_until(condition: Callable[[], bool], deadline_s: float, what: str, *, every_s: float = 0.01) -> None:
    """Return as soon as `condition()` is true; after `deadline_s` seconds raise TimeoutError(what)."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {deadline_s} s: {what}")
        _PAUSE.wait(every_s)


def free_port() -> int:
    """A free TCP port on the loopback. Linux gives no port as low to clients, so
    no connection takes it before, or between, the starts of a server."""
    while True:
        port = SERVER_PORTS.start + secrets.randbelow(len(SERVER_PORTS))
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
