"""Folds what the batches write to the outbox into the tables of the reports.

    batch ──► outbox ──fold──► entries            the ledger by account
                       └─────► usage_hours        the calls of each key
                       └─────► site_hours         the site's calls by channel and latency
                       └─────► stale_days ──► usage_days      the sums of past days' hours

A report also counts the rows of the outbox, in the same snapshot, so it includes every committed call: see
`myna/billing/reports.py`.

A row of the outbox is deleted in the transaction that folds it, so each is folded once, in any order: a
refund has the id of its charge. One process folds at a time. Each step is one short transaction.
"""

from functools import partial

from myna.lib.times import day_of, day_start, hour_offset
from myna.store.database import Database, Transaction
from myna.store.queries import outbox
from myna.store.queries import rollup as store
from myna.store.queries.rollup import ALL_REBUILT, DaySpan, RollupState

STEP_ROWS = 2000
"""Entries and ends that one step folds, or days that it writes: some 8 to 12 ms of the writer's time."""
REBUILD_ACCOUNTS = 50
"""Accounts whose days one step rebuilds, unless these are more than STEP_ROWS."""


async def roll(db: Database, zone: str) -> None:
    """Folds all that there is, with `zone` as the reporting zone."""
    state = await store.state(db)
    today = day_of(zone, state.now)
    if not await store.has_work(db, zone, hour_offset(zone, state.now), today):
        return
    while await db.transaction(partial(_step, zone=zone)):
        pass


async def _step(db: Transaction, *, zone: str) -> bool:
    """One step. Returns whether there may be more to do."""
    state = await store.claim(db)
    if state is None:
        return False  # another process folds
    offset = hour_offset(zone, state.now)
    if state.hour_offset_ms != offset:
        await store.set_hour_offset(db, offset)
    if state.zone != zone:
        await store.set_zone(db, zone)
        return True
    if await _fold(db, zone):
        return True
    if state.rebuilt_until < ALL_REBUILT:
        return await _rebuild(db, state)
    return await _write_stale(db, state)


async def _fold(db: Transaction, zone: str) -> bool:
    pending = await outbox.take(db, STEP_ROWS)
    await store.add_entries(db, pending.entries)
    await store.add_usage_hours(db, pending.ends)
    await store.add_site_hours(db, pending.ends)
    days = {hour: day_of(zone, hour) for hour in {end.hour for end in pending.ends}}
    await store.mark_stale(db, {(days[end.hour], end.account_id) for end in pending.ends})
    return bool(pending.entries or pending.ends)


async def _write_stale(db: Transaction, state: RollupState) -> bool:
    """Writes stale days that are over. A call that is folded later marks its day again."""
    found = await store.stale(db, day_of(state.zone, state.now), STEP_ROWS)
    await store.write_days(db, [_span(state.zone, account_id, day) for day, account_id in found])
    return bool(found)


async def _rebuild(db: Transaction, state: RollupState) -> bool:
    """Writes all days of the next accounts in the present zone."""
    after = until = state.rebuilt_until
    today = day_of(state.zone, state.now)
    spans: list[DaySpan] = []
    found = await store.first_hours(db, after, REBUILD_ACCOUNTS)
    for account_id, hour in found:
        first = today if hour is None else min(day_of(state.zone, hour), today)
        if spans and len(spans) + today - first > STEP_ROWS:
            break
        spans += [_span(state.zone, account_id, day) for day in range(first, today + 1)]
        until = account_id
    await store.begin_rebuild(db, after, until if found else ALL_REBUILT)
    await store.write_days(db, spans)
    await store.mark_stale(db, {(today, account_id) for account_id, _ in found if account_id <= until})
    return True


def _span(zone: str, account_id: int, day: int) -> DaySpan:
    return DaySpan(account_id, day, day_start(zone, day), day_start(zone, day + 1))
