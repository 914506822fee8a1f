"""The storage quota: how many bytes of audio and samples an account may store.

It bounds abuse: an account that reached it can store no more. No request reads the database for it. Each
process sums up what is stored in the background, so an account can exceed its quota by what it stores until
the next `look` and by the speech that is in progress then.
"""

import time
from collections.abc import Callable

from myna.config import MIB, ConfigCache
from myna.errors import StorageQuotaReached
from myna.store.database import Database
from myna.store.queries import storage

SHARE_MAX = 0.02
"""Of the time, that a process spends on summing up; a large site is looked at less often."""
INTERVAL_MAX_S = 300.0
"""How long the next look waits at most, however long the last one took: it may have been stalled."""
QUERY_MAX_S = 60.0
"""How long the query may take: a connection may be dead. With 300,000 audio files it takes 0.7 s."""


class Quota:
    """The accounts that have reached the site's quota, as of the last `look`."""

    def __init__(self, db: Database, site: ConfigCache, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._site = site
        self._clock = clock
        self._stored: dict[int, int] = {}
        self._not_before_s = 0.0

    async def look(self) -> None:
        """Sums up what the accounts store, unless the last time was too short ago for its cost."""
        bytes_max = self._bytes_max
        began_s = self._clock()
        if began_s < self._not_before_s:
            return
        if bytes_max:
            self._stored = await self._db.snapshot(
                lambda db: storage.reached(db, bytes_max), query_max_s=QUERY_MAX_S
            )
        else:
            self._stored = {}
        now_s = self._clock()
        self._not_before_s = now_s + min((now_s - began_s) / SHARE_MAX, INTERVAL_MAX_S)

    @property
    def anyone(self) -> bool:
        """Whether any account has reached it."""
        return bool(self._stored)

    def check(self, account_id: int) -> None:
        """Raises StorageQuotaReached where the account may store nothing more."""
        stored, bytes_max = self._stored.get(account_id, 0), self._bytes_max
        if bytes_max and stored >= bytes_max:
            raise StorageQuotaReached(stored // MIB, bytes_max // MIB)

    @property
    def _bytes_max(self) -> int:
        return self._site.settings.account_storage_mib * MIB
