"""Limits on request bodies: on the size of each, on the memory of all in one process, and on the time that
decoding large ones takes from the event loop.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from msgspec import Struct, field

from myna.errors import TooManyBodies
from myna.lib.shares import Shares

SMALL_BODY_BYTES = 64 * 1024
"""Smaller bodies are neither counted nor paced: the limit on connections bounds their memory."""
ACCOUNT_SHARES = 4
"""One account may use at most 1 / ACCOUNT_SHARES of the budget."""


class BodyBudget:
    """The bytes of larger request bodies in the memory of one process. One account may use at most its share:
    a quarter, or one body of the largest size if that is more."""

    def __init__(self, max_bytes: int, body_max_bytes: int = 0) -> None:
        share = max(max_bytes // ACCOUNT_SHARES, body_max_bytes)
        self._bytes = Shares[int](max_bytes, share, TooManyBodies)

    @property
    def in_use_bytes(self) -> int:
        return self._bytes.in_use

    def take(self, size_bytes: int, account_id: int) -> None:
        """Raises TooManyBodies. `account_id` is 0 for compute nodes, which have no share."""
        self._bytes.take(account_id, size_bytes)

    def release(self, size_bytes: int, account_id: int) -> None:
        self._bytes.release(account_id, size_bytes)


class Pacer:
    """Admits one large body per iteration of the event loop, in order of arrival.

    Decoding one takes up to 50 ms. If many arrive together, other callbacks run between them. The first one
    doesn't wait.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()

    async def wait(self) -> None:
        """Returns to one waiter per iteration of the event loop."""
        await self._lock.acquire()
        asyncio.get_running_loop().call_soon(self._lock.release)


class BodyLimits(Struct, frozen=True):
    """Limits on each request body, and on all of them together."""

    body_max_bytes: int
    body_timeout_s: float
    budget: BodyBudget
    pacer: Pacer = field(default_factory=Pacer)


T = TypeVar("T")

WAIT_S: Final = 20.0
_thread = ThreadPoolExecutor(1, thread_name_prefix="large-body")
"""One: several threads would take the interpreter from the event loop for longer."""
_turns = Shares[int](1, 1, TooManyBodies)


async def read_body(read: Callable[[], T], size_bytes: int, account_id: int) -> T:
    """The result of `read`, which decodes and checks a body of this size, and is pure. The accounts that wait
    are served in turn. Raises TooManyBodies after WAIT_S, and what `read` raises."""
    if size_bytes <= SMALL_BODY_BYTES:
        return read()
    await _turns.wait_for(account_id, WAIT_S)
    try:
        return await asyncio.get_running_loop().run_in_executor(_thread, read)
    finally:
        _turns.release(account_id)
