"""The circuits of channels: a channel that fails again and again is avoided for a cooldown.

The failures of one account say little about a channel: its requests may cause them. So a circuit opens after
failures in a row of `FAILURES_MAX` accounts. After as many of fewer accounts the channel is suspected, and
so it is after the first one that follows a cooldown: `myna.gateway.probe` then sends a request of our own,
whose failure opens the circuit. The first success, of a call or of that request, closes it.
"""

import logging
import time
from collections.abc import Callable

from msgspec import Struct

from myna.lib.telemetry import metrics

log = logging.getLogger(__name__)

FAILURES_MAX = 5
OPERATOR = 0
"""In place of an account, for requests of our own."""
PROBE_EVERY_S = 10.0
"""At most so often a suspected channel is probed."""


class CircuitChange(Struct, frozen=True):
    """A circuit opened for `open_s` seconds after `error`, or closed if that is 0."""

    channel: str
    open_s: float
    error: str


class _Failures(Struct):
    """Those of a channel since its last success. `kind` is that of the last request: see `probe`."""

    count: int = 0
    accounts: set[int] = set()
    kind: str = ""
    probed_at: float = float("-inf")


class Circuits:
    """The circuits of one process, which are not shared with other processes.

    `on_change` is called when a circuit opens or closes. An open circuit admits calls again after the
    cooldown. It closes with the first success.
    """

    def __init__(
        self,
        cooldown_s: float,
        clock: Callable[[], float] = time.monotonic,
        on_change: Callable[[CircuitChange], None] = lambda change: None,
    ) -> None:
        self._cooldown_s = cooldown_s
        self._clock = clock
        self._on_change = on_change
        self._failures: dict[str, _Failures] = {}
        self._until: dict[str, float] = {}

    def open(self, name: str) -> bool:
        return name in self._until and self.open_s(name) > 0

    def open_s(self, name: str) -> float:
        """Seconds until it admits calls again; 0 if it isn't open."""
        return max(0.0, self._until.get(name, 0.0) - self._clock())

    def half_open(self, name: str) -> None:
        """Restores a circuit that was open before this process started: the first success closes it."""
        self._until.setdefault(name, 0.0)

    def failed(self, name: str, error: str, account_id: int, kind: str = "") -> None:
        """Counts a failure of a call of this account, or of OPERATOR. `kind` is that of the request."""
        if self.open(name):
            return
        failures = self._failures.setdefault(name, _Failures())
        failures.count += 1
        failures.accounts.add(account_id)
        failures.kind = kind
        proven = account_id == OPERATOR and self._suspected(name, failures)
        if not proven and len(failures.accounts) < FAILURES_MAX:
            return
        del self._failures[name]
        self._until[name] = self._clock() + self._cooldown_s
        metrics.CIRCUIT_OPEN.labels(name).set(1)
        metrics.CIRCUIT_OPENED.labels(name).inc()
        log.warning("circuit of channel %r is open for %g s: %s", name, self._cooldown_s, error)
        self._on_change(CircuitChange(name, self._cooldown_s, error))

    def succeeded(self, name: str) -> None:
        self._failures.pop(name, None)
        if self._until.pop(name, None) is not None:
            metrics.CIRCUIT_OPEN.labels(name).set(0)
            log.info("circuit of channel %r is closed: a call succeeded", name)
            self._on_change(CircuitChange(name, 0.0, ""))

    def to_probe(self) -> dict[str, str]:
        """The channels to probe now, each with the kind of the request that failed. They are not returned
        again for PROBE_EVERY_S."""
        now = self._clock()
        due = {
            name: failures
            for name, failures in self._failures.items()
            if self._suspected(name, failures) and now - failures.probed_at >= PROBE_EVERY_S
        }
        for failures in due.values():
            failures.probed_at = now
        return {name: failures.kind for name, failures in due.items()}

    def _suspected(self, name: str, failures: _Failures) -> bool:
        return failures.count >= FAILURES_MAX or (name in self._until and not self.open(name))
