"""The rules of the audit on the tables of the reports.

What is in the outbox is not folded yet: a rule counts it as if it were. So each rule reads the tables and the
outbox in one snapshot.
"""

from collections import Counter
from operator import attrgetter

from msgspec import Struct

from myna.lib.times import day_of, day_start
from myna.store.batch import DAY_MS
from myna.store.database import Queries
from myna.store.queries import outbox
from myna.store.queries import rollup as store
from myna.store.queries.audit import lines
from myna.store.rows import fetch_value

HOURS_DAYS = 35
"""How many days back an audit that isn't full reads hours. It reads the days before them instead."""

ENTRIES_RULE = "a ledger entry is in the reports' ledger once, or in the outbox"
SUMS_RULE = "the last entry of the reports' ledger has its account's balance"
RUNNING_RULE = "an entry of the reports' ledger has the sums of the entries up to it"
HOURS_RULE = "a key's hours sum to its counters"
DAYS_RULE = "a key's days sum to its hours"
SITE_RULE = "the site's hours sum to those of the keys"

_MISSING = """
SELECT l.call_id, l.kind, l.account_id, l.units, e.units FROM ledger l
LEFT JOIN entries e ON e.account_id = l.account_id AND e.at = l.created_at AND e.call_id = l.call_id
     AND e.kind = l.kind
WHERE l.call_id >= $1 AND l.call_id < $2 AND (e.call_id IS NULL OR e.units <> l.units)"""
_LAST_SUMS = """
SELECT a.id, a.balance, coalesce((
    SELECT e.balance FROM entries e WHERE e.account_id = a.id
    ORDER BY e.at DESC, e.call_id DESC, e.kind DESC LIMIT 1), 0)
FROM accounts a WHERE a.id > $1 AND a.id <= $2"""
_RUNNING = """
SELECT account_id, at, call_id, kind, number, n, balance, s FROM (
    SELECT account_id, at, call_id, kind, number, balance, units,
           row_number() OVER w AS n, sum(units) OVER w AS s
    FROM entries WHERE account_id > $1 AND account_id <= $2
    WINDOW w AS (PARTITION BY account_id ORDER BY at, call_id, kind)) AS summed
WHERE number <> n OR balance <> s"""
_HOURS = """
SELECT key_id, CAST(sum(calls) AS BIGINT), CAST(sum(ok_calls) AS BIGINT), CAST(sum(units) AS BIGINT) FROM (
    SELECT u.key_id, u.calls, u.ok_calls, u.cost AS units FROM keys k JOIN key_usage u ON u.key_id = k.id
    WHERE k.account_id > $1 AND k.account_id <= $2
    UNION ALL SELECT key_id, -calls, -ok_calls, -units FROM usage_days
    WHERE account_id > $1 AND account_id <= $2 AND day < $3
    UNION ALL SELECT key_id, -calls, -ok_calls, -units FROM usage_hours
    WHERE account_id > $1 AND account_id <= $2 AND hour >= $4) AS found
GROUP BY key_id HAVING sum(calls) <> 0 OR sum(ok_calls) <> 0 OR sum(units) <> 0"""
_DAYS = """
SELECT account_id, key_id, kind, CAST(sum(calls) AS BIGINT), CAST(sum(ok_calls) AS BIGINT),
       CAST(sum(units) AS BIGINT), CAST(sum(ms) AS BIGINT) FROM (
    SELECT account_id, key_id, kind, calls, ok_calls, units, ms FROM usage_days
    WHERE account_id > $1 AND account_id <= $2 AND day >= $3 AND day < $4
    UNION ALL SELECT account_id, key_id, kind, -calls, -ok_calls, -units, -ms FROM usage_hours
    WHERE account_id > $1 AND account_id <= $2 AND hour >= $5 AND hour < $6) AS found
GROUP BY account_id, key_id, kind
HAVING sum(calls) <> 0 OR sum(ok_calls) <> 0 OR sum(units) <> 0 OR sum(ms) <> 0"""
_SITE = """
SELECT hour, kind, CAST(sum(calls) AS BIGINT), CAST(sum(ok_calls) AS BIGINT), CAST(sum(units) AS BIGINT)
FROM (
    SELECT h.hour, h.kind, h.calls, h.ok_calls, h.units
    FROM accounts a CROSS JOIN usage_hours h WHERE h.account_id = a.id AND h.hour >= $1
    UNION ALL SELECT hour, kind, -calls, -ok_calls, -units FROM site_hours WHERE hour >= $1) AS found
GROUP BY hour, kind HAVING sum(calls) <> 0 OR sum(ok_calls) <> 0 OR sum(units) <> 0"""


async def missing_entries(db: Queries, start: bytes, end: bytes) -> list[str]:
    """A line for each ledger entry of the calls in this range that is not in `entries` nor in the outbox."""
    rows = await db.fetch(_MISSING, start, end)
    if not rows:
        return []
    waiting = Counter(
        (one.call_id, one.kind, one.account_id, one.units) for one in (await outbox.pending(db)).entries
    )
    wrong = []
    for call_id, kind, account_id, units, folded in rows:
        if folded is not None or waiting[bytes(call_id), kind, account_id, units] != 1:
            wrong.append(f"{bytes(call_id).hex()} {kind} {account_id} {units}: {folded}")
    return wrong


async def wrong_sums(db: Queries, after: int, last: int) -> list[str]:
    """A line for each account with an id above `after` and up to `last` whose last entry, and what is in the
    outbox, don't sum to its balance."""
    waiting: Counter[int] = Counter()
    for entry in (await outbox.pending(db)).entries:
        waiting[entry.account_id] += entry.units
    rows = await db.fetch(_LAST_SUMS, after, last)
    return [
        f"{account_id}: {balance}, not {folded} + {waiting[account_id]}"
        for account_id, balance, folded in rows
        if balance != folded + waiting[account_id]
    ]


async def wrong_running_sums(db: Queries, after: int, last: int) -> list[str]:
    """A line for each entry of these accounts whose number or balance isn't that of the entries up to it."""
    return lines(await db.fetch(_RUNNING, after, last))


class _Written(Struct, frozen=True):
    """The days before `day` are written for all accounts, in this zone; `start` is where that day begins, in
    Unix ms."""

    day: int
    start: int
    zone: str


async def _written(db: Queries) -> _Written:
    """The days up to the oldest that is still to be written; none while the days are rebuilt."""
    state = await store.state(db)
    if state.rebuilt_until < store.ALL_REBUILT:
        return _Written(0, 0, state.zone)
    ends = await outbox.pending_ends(db)
    day = day_of(state.zone, min([state.now, *(end.hour for end in ends)]))
    stale = await fetch_value(db, int, "SELECT min(day) FROM stale_days")
    day = day if stale is None else min(day, stale)
    return _Written(day, day_start(state.zone, day), state.zone)


async def wrong_hours(db: Queries, after: int, last: int, *, full: bool) -> list[str]:
    """A line for each key of the accounts with ids above `after` and up to `last` whose counters differ from
    the sum of its days, its later hours and its calls in the outbox. A full audit reads hours alone."""
    written = await _written(db)
    ends = await outbox.pending_ends(db)
    of_keys = [end for end in ends if after < end.account_id <= last]
    waiting = {key_id: sums[:3] for key_id, sums in outbox.counted(of_keys, attrgetter("key_id")).items()}
    rows = await db.fetch(_HOURS, after, last, *((0, 0) if full else (written.day, written.start)))
    missing = {key_id: counters for key_id, *counters in rows}
    return [
        f"{key_id}: {missing.get(key_id)} missing, {waiting.get(key_id)} in the outbox"
        for key_id in sorted(missing.keys() | waiting.keys())
        if missing.get(key_id) != waiting.get(key_id)
    ]


async def wrong_days(db: Queries, after: int, last: int, *, full: bool) -> list[str]:
    """A line for each key of these accounts whose days don't sum to their hours: the last days, or all."""
    written = await _written(db)
    first = 0 if full else max(written.day - HOURS_DAYS, 0)
    start = 0 if full else day_start(written.zone, first)
    return lines(await db.fetch(_DAYS, after, last, first, written.day, start, written.start))


async def wrong_site_hours(db: Queries, *, full: bool) -> list[str]:
    """A line for each hour and kind whose calls of the site don't sum to those of all keys: of the last days,
    or all. The job writes both tables; `wrong_hours` compares them with the counters of the batches."""
    now = (await store.state(db)).now
    return lines(await db.fetch(_SITE, 0 if full else now - HOURS_DAYS * DAY_MS))
