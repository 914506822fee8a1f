"""Wakes whoever waits for something to be committed: in this process at once, across processes as the
database tells it, and where it doesn't tell by looking again shortly."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from myna.store.database import Database

POLL_S = 0.05
"""How soon to look again where the database doesn't tell."""
POLL_TOLD_S = 2.0
"""The same where it does: for what passes without a commit, such as a deadline."""


class Bell:
    """One kind of news. `channel` is its name in the database."""

    def __init__(self, db: Database, channel: str) -> None:
        self._db, self._channel = db, channel
        self._next = asyncio.Event()
        self._poll_s = POLL_S
        self._stop: Callable[[], Awaitable[None]] | None = None

    async def start(self) -> None:
        self._stop = await self._db.listen(self._channel, self.ring)
        if self._stop:
            self._poll_s = POLL_TOLD_S

    async def close(self) -> None:
        """Wakes all who wait, for the last time."""
        if self._stop:
            await self._stop()
        self.ring()

    def ring(self) -> None:
        """Wakes all who wait now."""
        rung, self._next = self._next, asyncio.Event()
        rung.set()

    def next(self) -> asyncio.Event:
        """The next ring. To be asked for before looking: what is committed behind the look still wakes."""
        return self._next

    async def wait(self, ring: asyncio.Event, timeout_s: float) -> None:
        """Returns when it rang, or when it is time to look again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(timeout_s, self._poll_s)):
                await ring.wait()
