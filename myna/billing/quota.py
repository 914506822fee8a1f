"""The storage quota: how many bytes of audio, samples and responses an account may store.

It limits abuse: an account that has reached it can store no more. No request queries the database for it:
each process sums up the stored bytes in the background. So an account can exceed its quota by what it stores
until the next `refresh` and by the speech that is in progress then.
"""

import time
from collections.abc import Callable

from myna.config import MIB, ConfigCache
from myna.errors import InsufficientQuota, sentences
from myna.store.database import Database
from myna.store.queries import site

SHARE_MAX = 0.02
"""The share of its time that a process spends on the sums: those of a large site are refreshed less often."""
INTERVAL_MAX_S = 300.0
"""The longest time between two refreshes, however long the last one took: it may have been stalled."""
QUERY_MAX_S = 60.0
"""Timeout of the query, since its connection may be dead. With 300,000 audio files it takes 0.7 s."""


class Quota:
    """The accounts that have reached the site's quota, as of the last `refresh`."""

    def __init__(
        self, db: Database, config: ConfigCache, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._db = db
        self._config = config
        self._clock = clock
        self._stored: dict[int, int] = {}
        self._not_before_s = 0.0

    async def refresh(self) -> None:
        """Sums up what the accounts store, unless the last refresh is too recent for what it cost."""
        bytes_max = self._bytes_max
        began_s = self._clock()
        if began_s < self._not_before_s:
            return
        if bytes_max:
            self._stored = await self._db.snapshot(
                lambda db: site.accounts_that_store(db, bytes_max), query_max_s=QUERY_MAX_S
            )
        else:
            self._stored = {}
        now_s = self._clock()
        self._not_before_s = now_s + min((now_s - began_s) / SHARE_MAX, INTERVAL_MAX_S)

    @property
    def any_reached(self) -> bool:
        """Whether any account has reached it."""
        return bool(self._stored)

    def check(self, account_id: int) -> None:
        """Raises InsufficientQuota if the account may store no more."""
        stored, bytes_max = self._stored.get(account_id, 0), self._bytes_max
        if bytes_max and stored >= bytes_max:
            raise InsufficientQuota(
                sentences.STORAGE_QUOTA_REACHED, stored_mib=stored // MIB, mib_max=bytes_max // MIB
            )

    @property
    def _bytes_max(self) -> int:
        return self._config.settings.account_storage_mib * MIB
