"""Retries with exponential backoff and jitter, and a log line for each outage instead of each failure."""

import logging
import random
import time
from typing import Final

from myna.node.server_client import ServerFailed

FIRST_S: Final = 0.5
MAX_S: Final = 15.0

log = logging.getLogger(__name__)


class OutageLog:
    """Logs the outages of the service. An outage lasts while any Backoff fails."""

    def __init__(self) -> None:
        self._failing: set[Backoff] = set()
        self._logged: set[type[ServerFailed]] = set()
        self._since = 0.0

    def failed(self, backoff: "Backoff", error: ServerFailed) -> None:
        """Logs the first error of each class in an outage."""
        if not self._failing:
            self._since = time.monotonic()
        self._failing.add(backoff)
        if type(error) not in self._logged:
            log.warning("the service: %s Trying again.", error)
            self._logged.add(type(error))

    def ended(self, backoff: "Backoff", *, succeeded: bool) -> None:
        """The Backoff succeeded, or its caller stopped trying."""
        if backoff not in self._failing:
            return
        self._failing.remove(backoff)
        if self._failing:
            return
        self._logged.clear()
        if succeeded:
            log.info("the service: it answers again, after %.1f s", time.monotonic() - self._since)


class Backoff:
    """The pauses between the tries of one operation. They double up to MAX_S."""

    def __init__(self, outages: OutageLog) -> None:
        self._outages = outages
        self._pause_s = FIRST_S

    def failed(self, error: ServerFailed, pause_s: float | None = None) -> float:
        """The seconds to wait before the next try: 50 to 100 % of the pause, so that nodes do not retry at
        the same moment. `pause_s` replaces the pause."""
        self._outages.failed(self, error)
        max_pause_s = pause_s or self._pause_s
        self._pause_s = min(2 * self._pause_s, MAX_S)
        return max_pause_s * random.uniform(0.5, 1.0)  # noqa: S311  no secret

    def succeeded(self) -> None:
        """Resets the pause."""
        self._pause_s = FIRST_S
        self._outages.ended(self, succeeded=True)

    def stopped(self) -> None:
        """The operation is not tried any more, or has succeeded."""
        self._outages.ended(self, succeeded=False)
