"""Limits requests with unknown API keys per address, without stopping keys that are in use at that address.

Each address has a bucket of failures: 20 at once, then one per second. While it is empty, a key that this
process has not verified lately is refused without a query. Keys in use pass to the normal check, so a proxy
whose address many clients share can't be locked out by one of them. All state is in memory, per process.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable

from msgspec import Struct

from myna.addresses import client_network
from myna.errors import TooManyFailures

BURST_MAX = 20
"""Failures of an address at once."""
PER_S = 1.0
"""Failures of an address per second, after these."""
ADDRESSES_MAX = 10_000
KEYS_MAX = 10_000
"""Addresses that failed lately and keys that were verified lately; the oldest are forgotten."""


class KeyThrottle:
    """The addresses that failed and the hashes of the keys that were verified, in one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._verified: OrderedDict[bytes, None] = OrderedDict()
        self._failures: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """For each address how many failures it had left, and when."""

    def begin(self, address: str, key_hash: bytes) -> "KeyUse":
        """The use of a key from an address. Raises TooManyFailures if too many requests from there had an
        unknown key and this one is not in use."""
        if self._failures and key_hash not in self._verified:
            left = self._left(client_network(address))
            if left < 1:
                raise TooManyFailures(math.ceil((1 - left) / PER_S))
        return KeyUse(self, address, key_hash)

    def verified(self, key_hash: bytes) -> None:
        """The key is valid: it passes from now on."""
        self._verified[key_hash] = None
        self._verified.move_to_end(key_hash)
        if len(self._verified) > KEYS_MAX:
            self._verified.popitem(last=False)

    def failed(self, address: str) -> None:
        """The key is unknown. A loopback address is not counted: see `client_network`."""
        network = client_network(address)
        if not network:
            return
        self._failures[network] = max(0.0, self._left(network) - 1), self._clock()
        self._failures.move_to_end(network)
        if len(self._failures) > ADDRESSES_MAX:
            self._failures.popitem(last=False)

    def _left(self, network: str) -> float:
        left, at = self._failures.get(network, (BURST_MAX, 0.0))
        return min(BURST_MAX, left + (self._clock() - at) * PER_S)


class KeyUse(Struct, frozen=True):
    """One use of a key, whose result the check of the key tells the throttle."""

    _throttle: KeyThrottle
    _address: str
    _key_hash: bytes

    def verified(self) -> None:
        self._throttle.verified(self._key_hash)

    def failed(self) -> None:
        self._throttle.failed(self._address)
