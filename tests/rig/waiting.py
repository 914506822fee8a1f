"""Waiting for a condition with a deadline, which is what tests do instead of sleeping; and clocks that a test
moves: a deadline passes when the test says so, and not when the machine is slow."""

import asyncio
import contextlib
import fcntl
import inspect
import os
import secrets
import socket
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

SOON_S = float(os.environ.get("MYNA_TEST_SOON_S", "60"))
"""How long a test waits for what happens at once on any machine that isn't overloaded. Mutation checks, where
it often doesn't happen, set it lower."""
SERVER_PORTS = range(10_000, 32_768)
_PAUSE = threading.Event()
_used: set[int] = set()


def wait_until(condition: Callable[[], bool], deadline_s: float, what: str, *, every_s: float = 0.01) -> None:
    """Return as soon as `condition()` is true; after `deadline_s` seconds raise TimeoutError(what)."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {deadline_s} s: {what}")
        _PAUSE.wait(every_s)


async def until(
    condition: Callable[[], bool | Awaitable[bool]], what: str = "", deadline_s: float = SOON_S
) -> None:
    """Returns once the condition is true; raises TimeoutError(what) at the deadline."""
    end = time.monotonic() + deadline_s
    while not (found := condition()) or (inspect.isawaitable(found) and not await found):
        if time.monotonic() > end:
            raise TimeoutError(f"not within {deadline_s} s: {what}")
        await asyncio.sleep(0.005)


def free_port() -> int:
    """A TCP port on the loopback without a listener, which no other test is given, in this process or
    another, as long as this process lives. Linux gives no port as low to clients, so no connection takes it
    before, or between, the starts of a server."""
    while True:
        port = SERVER_PORTS.start + secrets.randbelow(len(SERVER_PORTS))
        if port not in _used:
            with socket.socket() as probe, contextlib.suppress(OSError):
                fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
                _used.add(port)
                probe.bind(("127.0.0.1", port))
                return port


@cache
def _claims() -> int:
    """A file with a byte for each port. Who locks it has the port; the lock ends with its process."""
    path = Path(tempfile.gettempdir()) / f"myna-test-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)


class Clock:
    """Seconds that a test moves; `clock()` is the time."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class LoopClock:
    """The clock of the running event loop, which must be asyncio's own, not uvloop's.

    What measures a deadline with `loop.time()`, such as `asyncio.timeout`, sees the moved time; what reads
    `time.monotonic()` doesn't.
    """

    def __init__(self) -> None:
        self._ahead_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._real = self._loop.time
        self._loop.time = self._time  # type: ignore[method-assign]

    def move(self, seconds: float) -> None:
        """Advances the loop's time; timers that are due run in its next iteration."""
        self._ahead_s += seconds

    def _time(self) -> float:
        return self._real() + self._ahead_s


class MonotonicClock:
    """`time.monotonic()` of the named modules, which only `move` advances."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
        self.now = time.monotonic()
        for module in modules:
            monkeypatch.setattr(f"{module}.time", SimpleNamespace(monotonic=lambda: self.now))

    def move(self, seconds: float) -> None:
        self.now += seconds
