"""Throttles: of requests with unknown API keys, and of failed sign-ins.

Each address has a bucket of requests with unknown keys: 20, then one per second. While it is empty, a key
that this process has not verified lately is refused without a query. Keys in use pass to the normal check, so
a proxy whose address many clients share can't be locked out by one of them. This state is in memory, per
process: it must cost a request nothing.

Failed sign-ins are counted in the database, for the account (for a name without an account: for the name)
and for the address. From the fifth failure in a row on, the next attempt must wait: 1 s, 2 s, 4 s, … and at
most 5 minutes. An attempt counts as failed until it has succeeded, so parallel attempts are counted too. An
attempt while blocked is not counted.

Attempts from an address at which the account has a session are counted for this pair only: failures elsewhere
don't stop that person. A session itself is never blocked. The loopback address is not counted, since every
client of a proxy on this machine has it.
"""

import hashlib
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from msgspec import Struct

from myna.errors import CommandError, RateLimited, sentences
from myna.lib.net import client_network
from myna.store.database import Database, Queries, Transaction
from myna.store.queries import sessions
from myna.store.queries import sign_in as store

FREE_FAILURES: Final = 4
"""Failures in a row without a wait."""
FIRST_WAIT_MS: Final = 1_000
WAIT_MAX_MS: Final = 300_000
WRONG = "The name or the password is wrong."
WRONG_PASSWORD = "The password is wrong."  # noqa: S105  no password
WRONG_CODE = "The code is wrong or was used already."
"""For a person who has shown the account's password or a session."""


class SignInRefused(CommandError):
    """The sign-in is refused. `retry_after_s` is 0 unless the reason is that there were too many attempts."""

    def __init__(self, sentence: str = WRONG, retry_after_s: int = 0, **values: Any) -> None:
        super().__init__(sentence, **values)
        self.retry_after_s = retry_after_s


class TooManyAttempts(SignInRefused):
    """There were too many attempts; another one is possible in `wait_ms`."""

    def __init__(self, wait_ms: int) -> None:
        seconds = max(1, math.ceil(wait_ms / 1000))
        super().__init__(
            "There were too many attempts; try again in {seconds} second."
            if seconds == 1
            else "There were too many attempts; try again in {seconds} seconds.",
            seconds,
            seconds=seconds,
        )


class Subjects(Struct, frozen=True):
    """What an attempt counts for: the person, and the address, which is empty if it isn't counted."""

    person: bytes
    address: bytes

    @property
    def all(self) -> list[bytes]:
        """In the order in which transactions lock them."""
        return [subject for subject in (self.person, self.address) if subject]


async def of_sign_in(db: Queries, account_id: int | None, name: str, address: str) -> Subjects:
    """The subjects of an attempt with a name, by which an account was found or not.

    Attempts count for the name as it was entered, in any case, not for the account: a wait must not tell
    which names and e-mail addresses are of one account, or of any.
    """
    if account_id is not None and await sessions.known_address(db, account_id, address):
        return Subjects(_subject("account at", f"{account_id} {address}"), b"")
    network = client_network(address)
    of_network = _subject("address", network) if network else b""
    return Subjects(_subject("name", name.casefold()), of_network)


def of_account(what: str, account_id: int) -> Subjects:
    """The subject of an attempt by a person who has shown a session or a password."""
    return Subjects(_subject(what, str(account_id)), b"")


async def begin(db: Database, subjects: Subjects) -> None:
    """Counts an attempt as a failure. Raises TooManyAttempts if one of the subjects is blocked."""
    for subject in subjects.all:  # a blocked attempt costs no write
        if wait_ms := await store.blocked_ms(db, subject):
            raise TooManyAttempts(wait_ms)

    async def work(connection: Transaction) -> None:
        for subject in subjects.all:
            failures = await store.count_failure(connection, subject)
            if failures is None:
                raise TooManyAttempts(await store.blocked_ms(connection, subject))
            if wait := wait_ms_after(failures):
                await store.block_sign_in(connection, subject, wait)

    await db.transaction(work)


async def succeeded(db: Database, subjects: Subjects) -> None:
    """Forgets the failures of the person, and this attempt's for the address: a person who can sign in to one
    account must not be able to try passwords of others without a wait."""

    async def work(connection: Transaction) -> None:
        await store.clear_failures(connection, subjects.person)
        if subjects.address:
            await store.uncount_failure(connection, subjects.address)

    await db.transaction(work)


def wait_ms_after(failures: int) -> int:
    """The wait after this many failures in a row."""
    if failures <= FREE_FAILURES:
        return 0
    return int(min(WAIT_MAX_MS, FIRST_WAIT_MS * 2 ** min(failures - FREE_FAILURES - 1, 20)))


def _subject(kind: str, value: str) -> bytes:
    return hashlib.sha256(f"{kind} {value}".encode(errors="surrogatepass")).digest()


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
    """One use of a key, by which the check of the key reports its result to the throttle."""

    _throttle: KeyThrottle
    _address: str
    _key_hash: bytes

    def verified(self) -> None:
        self._throttle.verified(self._key_hash)

    def failed(self) -> None:
        self._throttle.failed(self._address)
