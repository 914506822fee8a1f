"""Wakes tasks that wait for a commit: at once in the process that committed, by the database's notifications
across processes, and by polling where the database has no notifications."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from myna.store.database import Database

POLL_S = 0.05
"""Polling interval where the database has no notifications, and this process makes all commits but those of
commands."""
POLL_UNNOTIFIED_S = 0.25
"""The same where other processes serve too."""
POLL_NOTIFIED_S = 2.0
"""Polling interval where it has them: some events, such as a deadline, come without a commit."""


class Notifications:
    """Notifications of one kind. `channel` is their name in the database."""

    def __init__(self, db: Database, channel: str) -> None:
        self._db = db
        self._channel = channel
        self._next = asyncio.Event()
        self._poll_s = POLL_S
        self._stop: Callable[[], Awaitable[None]] | None = None

    async def start(self) -> None:
        self._stop = await self._db.listen(self._channel, self.notify)
        if self._stop or not self._db.in_process:
            self._poll_s = POLL_NOTIFIED_S if self._stop else POLL_UNNOTIFIED_S

    async def close(self) -> None:
        """Stops listening and wakes all waiting tasks."""
        if self._stop:
            await self._stop()
        self.notify()

    def notify(self) -> None:
        """Wakes all tasks that wait now."""
        event, self._next = self._next, asyncio.Event()
        event.set()

    def next_event(self) -> asyncio.Event:
        """Set by the next notification. Get it before the query, or a commit in between is missed."""
        return self._next

    async def wait(self, event: asyncio.Event, timeout_s: float) -> None:
        """Returns after `event` is set, or when it is time to poll."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(timeout_s, self._poll_s)):
                await event.wait()
