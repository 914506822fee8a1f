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

from myna.errors import RateLimited, sentences
from myna.lib.net import client_network

BURST_MAX = 20
"""The tokens of a full bucket."""
PER_S = 1.0
"""The tokens that are added to a bucket per second."""
ADDRESSES_MAX = 10_000
KEYS_MAX = 10_000
"""Addresses and verified keys that are remembered; the oldest are forgotten."""


class AddressBuckets:
    """A token bucket for each client network, in the memory of one process. A loopback address has none: see
    `client_network`."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The tokens of each network, and when it had them."""

    def wait_s(self, address: str) -> int:
        """The seconds until the address has a token, rounded up; 0 if it has one."""
        left = self._now(client_network(address)) if self._left else BURST_MAX
        return 0 if left >= 1 else math.ceil((1 - left) / PER_S)

    def take(self, address: str) -> None:
        """Takes a token, if there is one."""
        network = client_network(address)
        if not network:
            return
        self._left[network] = max(0.0, self._now(network) - 1), self._clock()
        self._left.move_to_end(network)
        if len(self._left) > ADDRESSES_MAX:
            self._left.popitem(last=False)

    def _now(self, network: str) -> float:
        left, at = self._left.get(network, (BURST_MAX, 0.0))
        return min(BURST_MAX, left + (self._clock() - at) * PER_S)


class KeyThrottle:
    """The addresses that failed and the hashes of the keys that were verified, in one process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._failures = AddressBuckets(clock)
        self._verified: OrderedDict[bytes, None] = OrderedDict()

    def begin(self, address: str, key_hash: bytes) -> "KeyUse":
        """The use of a key from an address. Raises RateLimited if too many requests from there had an
        unknown key and this one is not in use."""
        if key_hash not in self._verified and (wait_s := self._failures.wait_s(address)):
            raise RateLimited(sentences.UNKNOWN_KEYS, {"Retry-After": str(wait_s)})
        return KeyUse(self, address, key_hash)

    def verified(self, key_hash: bytes) -> None:
        """The key is valid: it passes from now on."""
        self._verified[key_hash] = None
        self._verified.move_to_end(key_hash)
        if len(self._verified) > KEYS_MAX:
            self._verified.popitem(last=False)

    def failed(self, address: str) -> None:
        """The key is unknown."""
        self._failures.take(address)


class KeyUse(Struct, frozen=True):
    """One use of a key, whose result the check of the key tells the throttle."""

    _throttle: KeyThrottle
    _address: str
    _key_hash: bytes

    def verified(self) -> None:
        self._throttle.verified(self._key_hash)

    def failed(self) -> None:
        self._throttle.failed(self._address)
