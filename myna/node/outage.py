"""Trying again: ever more slowly, each at its own moments, with one line in the log for a whole outage."""

import logging
import random
import time
from typing import Final

from myna.node.site import SiteFailed

FIRST_S: Final = 0.5
MAX_S: Final = 15.0

log = logging.getLogger(__name__)


class Outage:
    """The time in which somebody's tries fail; it ends when all those are through who failed in it."""

    def __init__(self) -> None:
        self._failing: set[Tries] = set()
        self._said: set[type[SiteFailed]] = set()
        self._since = 0.0

    def failed(self, who: "Tries", error: SiteFailed) -> None:
        """Logs the first failure, and the first of another kind."""
        if not self._failing:
            self._since = time.monotonic()
        self._failing.add(who)
        if type(error) not in self._said:
            log.warning("the site: %s Trying again.", error)
            self._said.add(type(error))

    def through(self, who: "Tries", *, well: bool) -> None:
        """This one fails no more; it need not have gone well, who was trying may have given up."""
        if who not in self._failing:
            return
        self._failing.remove(who)
        if self._failing:
            return
        self._said.clear()
        if well:
            log.info("the site: it answers again, after %.1f s", time.monotonic() - self._since)


class Tries:
    """One thing that is tried until it goes well. The pauses double up to `max_s` seconds."""

    def __init__(self, outage: Outage, max_s: float = MAX_S) -> None:
        self._outage, self._max_s = outage, max_s
        self._pause_s = FIRST_S

    def failed(self, error: SiteFailed, pause_s: float | None = None) -> float:
        """How many seconds to wait now: a random part of the pause, so that nodes don't knock together."""
        self._outage.failed(self, error)
        longest_s = pause_s or min(self._pause_s, self._max_s)
        self._pause_s = min(2 * self._pause_s, MAX_S)
        return longest_s * random.uniform(0.5, 1.0)  # noqa: S311  no secret

    def well(self) -> None:
        """It went well."""
        self._pause_s = FIRST_S
        self._outage.through(self, well=True)

    def give_up(self) -> None:
        """It isn't tried any more."""
        self._outage.through(self, well=False)
