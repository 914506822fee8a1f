"""The line under a new key: it waits for the first request, and says when it came or why it was refused."""

import time
from functools import partial

from myna.billing import reports
from myna.billing.reports import DAY_MS, HOURS_MAX_DAYS, Usage
from myna.lib.times import HOUR_MS
from myna.office.live import Part
from myna.office.visit import Visit
from myna.store.queries import keys as store
from myna.store.queries.keys import KeyRow, Refusal

WITHOUT_KEY_MAX_MS = 600_000
"""A request without a valid key is shown for this long: it may be another person's at the same address."""


async def first_request(visit: Visit, key: KeyRow) -> Part:
    """The line as it is now. It is final once a request has succeeded."""
    used = (await visit.read(partial(store.usage_of, key_ids=[key.id])))[key.id]
    refusal = None if used.ok_calls else await _refusal(visit, key)
    ended = await _ended(visit, key) if used.ok_calls else Usage()
    html = visit.part("first_request.html", key=key, used=used, ended=ended, refusal=refusal)
    return Part(html, final=used.ok_calls > 0)


async def _ended(visit: Visit, key: KeyRow) -> Usage:
    """The calls of the key that ended since it was made, at most in the last days that have hours."""
    start = max(key.created_at - HOUR_MS, visit.now_ms - (HOURS_MAX_DAYS - 1) * DAY_MS)
    end = time.time_ns() // 10**6 + HOUR_MS
    rows = await reports.usage_by_hour(visit.db, visit.account.id, start, end, key.id)
    return reports.total(row.usage for row in rows)


async def _refusal(visit: Visit, key: KeyRow) -> Refusal | None:
    """The latest refused request of this key, or one from the visitor's address without a valid key since
    this key was made."""
    of_key = await visit.read(partial(store.last_refusal, account_id=visit.account.id, key_id=key.id))
    without_key = visit.parts.refusals.without_key(visit.address)
    oldest = max(key.created_at, visit.now_ms - WITHOUT_KEY_MAX_MS, of_key.at if of_key else 0)
    return without_key if without_key and without_key.at > oldest else of_key
