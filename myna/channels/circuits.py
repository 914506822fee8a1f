"""The circuits of channels, and the places for requests to them.

A channel that fails again and again is avoided for a cooldown.

The failures of one account say little about a channel: its requests may cause them. So a circuit opens after
failures in a row of `FAILURES_MAX` accounts. After as many of fewer accounts the channel is suspected, and so
it is after the first one that follows a cooldown: `myna.gateway.trial` then sends a request of our own, whose
failure opens the circuit. The first success, of a call or of that request, closes it.

The places of one process: each account and each channel has a share of all. A request waits for a place for
at most WAIT_S. A channel that does not answer takes its own places, and the others serve on. An account gets
half of a channel's places, so that it leaves some to others on each channel.
"""

import logging
import math
import time
from collections.abc import Callable
from typing import Final

from msgspec import Struct
from prometheus_client import Gauge

from myna.errors import Overloaded
from myna.lib.shares import Shares
from myna.lib.telemetry import metrics

log = logging.getLogger(__name__)

FAILURES_MAX = 5
OPERATOR = 0
"""In place of an account, for requests of our own."""
PROBE_EVERY_S = 10.0
"""At most so often a suspected channel is probed."""
WAIT_S: Final = 1.0
RETRY_AFTER_S: Final = 1
CHANNEL_SHARE: Final = 0.75
"""Of all places, for a channel without a limit of its own."""
ACCOUNT_SHARE: Final = 0.75
"""Of all places, for one account."""
ACCOUNT_SHARE_OF_CHANNEL: Final = 0.5


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


class ChannelFull(Exception):
    """The channel, or the account on this channel, has as many requests open as it may have."""


class Outbound:
    """`total` places for requests to channels. What waits for a place of its channel has none of them."""

    def __init__(self, total: int) -> None:
        self._all = Shares[int](
            total,
            _part(total, ACCOUNT_SHARE),
            lambda: Overloaded(
                "As many calls are open as this account, or all accounts together, may have; the units were"
                " refunded, try again.",
                RETRY_AFTER_S,
            ),
        )
        self._channels: dict[str, tuple[Shares[int], Gauge]] = {}

    def place(self, channel: str, concurrent: int, account_id: int) -> "OutboundPlace":
        """Has a place for a request of the account, 0 for the operator. The channel may have `concurrent`
        places, or with 0 its share. Entering it raises Overloaded for the account, ChannelFull."""
        total = self._all.total
        most = min(concurrent or _part(total, CHANNEL_SHARE), total)
        if channel not in self._channels:
            self._channels[channel] = Shares(0, 0, ChannelFull), metrics.CHANNEL_PLACES.labels(channel)
        places, gauge = self._channels[channel]
        if places.total != most:
            places.total, places.share = most, _part(most, ACCOUNT_SHARE_OF_CHANNEL)
        return OutboundPlace(places, self._all, account_id, gauge)


class OutboundPlace(Struct, eq=False):
    """A place of a channel, and then one of all. The gauge counts the places of the channel. It is a class
    because every call has one: a generator as a context manager costs twice as much."""

    channel: Shares[int]
    of_all: Shares[int]
    account_id: int
    gauge: Gauge

    async def __aenter__(self) -> None:
        if not self.channel.try_take(self.account_id):
            await self.channel.wait_for(self.account_id, WAIT_S)
        if not self.of_all.try_take(self.account_id):
            try:
                await self.of_all.wait_for(self.account_id, WAIT_S)
            except BaseException:
                self.channel.release(self.account_id)
                metrics.levels[self.gauge] = self.channel.in_use
                raise
        metrics.levels[self.gauge] = self.channel.in_use

    async def __aexit__(self, *_: object) -> None:
        self.of_all.release(self.account_id)
        self.channel.release(self.account_id)
        metrics.levels[self.gauge] = self.channel.in_use


def _part(places: int, share: float) -> int:
    return math.ceil(places * share)
