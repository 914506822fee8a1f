"""Queries of the job that folds the outbox into the tables of the reports. See `myna/billing/rollup.py`."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter

import msgspec
from msgspec import Struct

from myna.store.batch import EntryKind
from myna.store.database import Queries, Row, Transaction
from myna.store.queries.outbox import EndedCall, NewEntry, counted
from myna.store.rows import ID_MAX, columns, fetch_row, fetch_rows, has_row

ALL_REBUILT = ID_MAX
"""`rollup_state.rebuilt_until` if the days of all accounts are in the zone."""


class RollupState(Struct, frozen=True):
    """How far the tables of the reports are; see the migration. Times in Unix ms."""

    zone: str
    rebuilt_until: int
    hour_offset_ms: int
    now: int


class EntryRow(NewEntry, frozen=True, gc=False):
    """A folded entry. `number` to `redeemed` are sums of the account's entries up to it."""

    number: int
    balance: int
    charged: int
    refunded: int
    redeemed: int


class DaySpan(Struct, frozen=True):
    """A day of an account: its hours are from `start` on and before `end`, in Unix ms."""

    account_id: int
    day: int
    start: int
    end: int


_sums_decoder = msgspec.json.Decoder(tuple[int, int, int, int, int, int])
_SUMS = (
    "'[' || "
    + " || ',' || ".join(
        f"e.{name}" for name in ("at", "number", "balance", "charged", "refunded", "redeemed")
    )
    + " || ']'"
)
_STATE = columns(RollupState, "r", hour_offset_ms="(SELECT hour_offset_ms FROM site)", now="now_ms()")
_ENTRY = columns(EntryRow)
_ENTRY_TYPES = ("bigint", "bigint", "bytea", *["bigint"] * 8)
_INSERT_ENTRIES = f"INSERT INTO entries ({_ENTRY})"
_MOVE_SUMS = f"""ON CONFLICT (account_id, at, call_id, kind) DO UPDATE SET {
    ", ".join(
        f"{name} = excluded.{name}" for name in ("number", "balance", "charged", "refunded", "redeemed")
    )
}"""
_ADD_USAGE = (
    "calls = {0}.calls + excluded.calls, ok_calls = {0}.ok_calls + excluded.ok_calls,"
    " units = {0}.units + excluded.units"
)
_CHARGE, _REFUND, _REDEEM = int(EntryKind.CHARGE), int(EntryKind.REFUND), int(EntryKind.REDEEM)
_in_order = attrgetter("at", "call_id", "kind")
EMPTY = EntryRow(0, 0, b"", 0, 0, 0, 0, 0, 0, 0, 0)
"""Before the first entry of an account."""


async def state(db: Queries) -> RollupState:
    """The stored state."""
    (found,) = await fetch_rows(db, RollupState, f"SELECT {_STATE} FROM rollup_state r")
    return found


async def claim(db: Transaction) -> RollupState | None:
    """Locks the state until the transaction ends, so that one process folds; None if another one does."""
    return await fetch_row(db, RollupState, f"SELECT {_STATE} FROM rollup_state r{db.skip_locked}")


async def has_work(db: Queries, zone: str, hour_offset_ms: int, before_day: int) -> bool:
    """Whether a step would change anything: stale days count before `before_day`."""
    sql = """SELECT 1 FROM rollup_state r WHERE zone <> $1 OR rebuilt_until < $2
        OR $3 <> (SELECT hour_offset_ms FROM site)
        OR EXISTS (SELECT 1 FROM outbox) OR EXISTS (SELECT 1 FROM stale_days WHERE day < $4)"""
    return await has_row(db, sql, zone, ALL_REBUILT, hour_offset_ms, before_day)


# ---- entries


async def add_entries(db: Transaction, new: Sequence[NewEntry]) -> None:
    """Adds these entries, and brings the sums of later entries up to date."""
    by_account: defaultdict[int, list[NewEntry]] = defaultdict(list)
    for entry in new:
        by_account[entry.account_id].append(entry)
    last = await _last(db, by_account)
    newer: list[Row] = []
    older: list[Row] = []
    for account_id, entries in sorted(by_account.items()):
        base = last.get(account_id, EMPTY)
        if base.at < min(entry.at for entry in entries):
            newer += summed(base, entries)
        else:
            older += await _merged(db, account_id, entries)
    await db.with_rows(_INSERT_ENTRIES, newer, "", *_ENTRY_TYPES)
    await db.with_rows(_INSERT_ENTRIES, older, _MOVE_SUMS, *_ENTRY_TYPES)


async def _merged(db: Queries, account_id: int, entries: Sequence[NewEntry]) -> list[Row]:
    """These entries and the account's entries after the first of them."""
    first_at = min(entry.at for entry in entries)
    sql = f"SELECT {_ENTRY} FROM entries WHERE account_id = $1 AND at >= $2"
    later = await fetch_rows(db, EntryRow, sql, account_id, first_at)
    return summed(await last_before(db, account_id, first_at), [*later, *entries])


def summed(base: EntryRow, entries: Sequence[NewEntry]) -> list[Row]:
    """The rows of an account's entries in order, each with the sums up to it, for `columns(EntryRow)`; `base`
    is the entry before them."""
    number, balance = base.number, base.balance
    charged, refunded, redeemed = base.charged, base.refunded, base.redeemed
    rows: list[Row] = []
    for entry in sorted(entries, key=_in_order) if len(entries) > 1 else entries:
        kind, units = entry.kind, entry.units
        number += 1
        balance += units
        if kind == _CHARGE:
            charged -= units
        elif kind == _REFUND:
            refunded += units
        elif kind == _REDEEM:
            redeemed += units
        place = entry.account_id, entry.at, entry.call_id, kind
        rows.append((*place, entry.key_id, units, number, balance, charged, refunded, redeemed))
    return rows


async def _last(db: Transaction, accounts: Iterable[int]) -> dict[int, EntryRow]:
    """The last entry of each account, with its time and its sums alone. One search of the index for each: the
    subquery returns a single column, so the sums are one JSON array."""
    rows = await db.with_rows(
        "WITH wanted (account_id) AS (",
        [(account_id,) for account_id in sorted(accounts)],
        f") SELECT account_id, (SELECT {_SUMS} FROM entries e WHERE e.account_id = wanted.account_id"
        " ORDER BY e.at DESC, e.call_id DESC, e.kind DESC LIMIT 1) FROM wanted",
    )
    found = {}
    for account_id, text in rows:
        if text is not None:
            at, *sums = _sums_decoder.decode(text)
            found[account_id] = EntryRow(account_id, at, b"", 0, 0, 0, *sums)
    return found


async def last_before(db: Queries, account_id: int, at: int) -> EntryRow:
    """The account's last entry before this time, or EMPTY."""
    sql = f"""SELECT {_ENTRY} FROM entries WHERE account_id = $1 AND at < $2
        ORDER BY at DESC, call_id DESC, kind DESC LIMIT 1"""
    return await fetch_row(db, EntryRow, sql, account_id, at) or EMPTY


# ---- usage


async def add_usage_hours(db: Transaction, ends: Iterable[EndedCall]) -> None:
    """Adds these calls to the hours of their keys."""
    found = counted(ends, lambda end: (end.account_id, end.hour, end.key_id, end.kind))
    await db.with_rows(
        "INSERT INTO usage_hours (account_id, hour, key_id, kind, calls, ok_calls, units, ms)",
        [(*place, *counters) for place, counters in sorted(found.items())],
        "ON CONFLICT (account_id, hour, key_id, kind) DO UPDATE SET"
        f" {_ADD_USAGE.format('usage_hours')}, ms = usage_hours.ms + excluded.ms",
    )


async def add_site_hours(db: Transaction, ends: Iterable[EndedCall]) -> None:
    """Adds these calls to the hours of the site."""
    found = counted(ends, lambda end: (end.hour, end.channel, end.kind, end.ms.bit_length()))
    await db.with_rows(
        "INSERT INTO site_hours (hour, channel, kind, bucket, calls, ok_calls, units)",
        [(*place, *counters[:3]) for place, counters in sorted(found.items())],
        f"ON CONFLICT (hour, channel, kind, bucket) DO UPDATE SET {_ADD_USAGE.format('site_hours')}",
        *("bigint", "text", "bigint", "bigint", "bigint", "bigint", "bigint"),
    )


async def mark_stale(db: Transaction, days: Iterable[tuple[int, int]]) -> None:
    """Marks these days (day, account) to be written from their hours."""
    head = "INSERT INTO stale_days (day, account_id)"
    await db.with_rows(head, sorted(set(days)), "ON CONFLICT DO NOTHING")


async def stale(db: Queries, before_day: int, limit: int) -> list[tuple[int, int]]:
    """Stale days (day, account) before `before_day`, the oldest first."""
    sql = "SELECT day, account_id FROM stale_days WHERE day < $1 ORDER BY day, account_id LIMIT $2"
    rows = await db.fetch(sql, before_day, limit)
    return [(int(day), int(account_id)) for day, account_id in rows]


async def write_days(db: Transaction, spans: Sequence[DaySpan]) -> None:
    """Writes these days as the sums of their hours. They are no longer stale."""
    await db.with_rows(
        "WITH spans (account_id, day, first, past) AS (",
        [msgspec.structs.astuple(span) for span in spans],
        """) INSERT INTO usage_days (account_id, day, key_id, kind, calls, ok_calls, units, ms)
        SELECT s.account_id, s.day, h.key_id, h.kind, sum(h.calls), sum(h.ok_calls), sum(h.units), sum(h.ms)
        FROM spans s CROSS JOIN usage_hours h
        WHERE h.account_id = s.account_id AND h.hour >= s.first AND h.hour < s.past
        GROUP BY s.account_id, s.day, h.key_id, h.kind
        ON CONFLICT (account_id, day, key_id, kind) DO UPDATE SET calls = excluded.calls,
        ok_calls = excluded.ok_calls, units = excluded.units, ms = excluded.ms""",
    )
    days = [(span.day, span.account_id) for span in spans]
    await db.with_rows("DELETE FROM stale_days WHERE (day, account_id) IN (", days, ")")


# ---- the zone


async def set_zone(db: Transaction, zone: str) -> None:
    """Sets the reporting zone; the days of all accounts are to be rebuilt."""
    await db.fetch("UPDATE rollup_state SET zone = $1, rebuilt_until = 0", zone)


async def set_hour_offset(db: Transaction, offset_ms: int) -> None:
    """Sets at which minutes the hours begin from now on."""
    await db.fetch("UPDATE site SET hour_offset_ms = $1", offset_ms)


async def first_hours(db: Queries, after_id: int, limit: int) -> list[tuple[int, int | None]]:
    """Accounts with ids above `after_id`, each with its first hour."""
    sql = """SELECT a.id, (SELECT min(h.hour) FROM usage_hours h WHERE h.account_id = a.id)
        FROM accounts a WHERE a.id > $1 ORDER BY a.id LIMIT $2"""
    return [(int(account_id), hour) for account_id, hour in await db.fetch(sql, after_id, limit)]


async def begin_rebuild(db: Transaction, after_id: int, until_id: int) -> None:
    """Deletes the days of the accounts with ids above `after_id` and up to `until_id`, and moves on to
    `until_id`."""
    await db.fetch("DELETE FROM usage_days WHERE account_id > $1 AND account_id <= $2", after_id, until_id)
    await db.fetch("UPDATE rollup_state SET rebuilt_until = $1", until_id)
