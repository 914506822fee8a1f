"""The rows that the calls of a batch share, written once at its end: ledger, balances, counters, reports.

`commit_batch` in `migrations/routines.postgresql.sql` is the same for PostgreSQL.
"""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, cast

import apsw
import msgspec
from msgspec import Struct

from myna.store.batch import (
    DAY_MS,
    MINUTE_MS,
    NO_LIMITS,
    CallState,
    Charge,
    ChargeRefused,
    EntryKind,
    LimitReached,
    Limits,
    Rate,
    RefusalReason,
)
from myna.store.rows import chunks, columns

_json = msgspec.json.Encoder()


class Statement(NamedTuple):
    """SQL that writes rows: the text before them, of one row, and after them. `one` is a statement for a
    single row, which SQLite runs without a temporary table."""

    head: str
    row: str
    tail: str = ""
    one: str = ""


_INSERT_ENTRIES = Statement(
    "INSERT INTO ledger (call_id, kind, account_id, units, created_at) VALUES ", "(?, ?, ?, ?, ?)"
)
_UPDATE_BALANCES = Statement(
    "UPDATE accounts SET balance = balance + e.column2 FROM (VALUES ",
    "(?, ?)",
    ") AS e WHERE accounts.id = e.column1 AND balance + e.column2 >= 0",
    one="UPDATE accounts SET balance = balance + ?2 WHERE id = ?1 AND balance + ?2 >= 0",
)
_ADD_USAGE = Statement(
    "INSERT INTO key_usage (key_id, calls, ok_calls, cost, last_used_at) VALUES ",
    "(?, ?, ?, ?, ?)",
    """ ON CONFLICT (key_id) DO UPDATE SET
    calls = calls + excluded.calls, ok_calls = ok_calls + excluded.ok_calls, cost = cost + excluded.cost,
    last_used_at = max(last_used_at, excluded.last_used_at)""",
)
_INSERT_OUTBOX = "INSERT INTO outbox (id, at, size, entries, ended) VALUES (?1, ?2, ?3, ?4, ?5)"


class Changes:
    """The net changes of rows that many calls share, written once at the end. `hour` is the present hour of
    the reports, set before a call is counted."""

    def __init__(self, now: int) -> None:
        self.hour = 0
        self.balances: defaultdict[int, int] = defaultdict(int)
        self._now = now
        self._keys: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        self._entries: list[tuple[bytes, int, int, int, int]] = []
        self._ends: list[tuple[int, int, int, CallState, int, int, str]] = []

    def add_entry(self, call_id: bytes, kind: EntryKind, account_id: int, key_id: int, units: int) -> None:
        self._entries.append((call_id, kind, account_id, key_id, units))
        self.balances[account_id] += units

    def count(
        self, account_id: int, key_id: int, pays: int, state: CallState, units: int, ms: int, channel: str
    ) -> None:
        """Adds an ended call to the counters of its key, and to the outbox. `ms` is how long it was open."""
        self._ends.append((account_id, key_id, pays, state, units, ms, channel))
        counters = self._keys[key_id]
        counters[0] += 1
        if state == CallState.KEPT:
            counters[1] += 1
            counters[2] += units

    def write(self, db: apsw.Connection) -> None:
        now = self._now
        write(
            db, _INSERT_ENTRIES,
            [(call_id, kind, account, units, now) for call_id, kind, account, _, units in self._entries],
        )  # fmt: skip
        changed = [(account, units) for account, units in self.balances.items() if units]
        if write(db, _UPDATE_BALANCES, changed) != len(changed):
            raise AssertionError("a balance would be below zero")
        write(db, _ADD_USAGE, [(key_id, *counters, now) for key_id, counters in self._keys.items()])
        self.write_outbox(db)

    def write_outbox(self, db: apsw.Connection) -> None:
        """Writes the calls that ended and the entries for the reports."""
        now = self._now
        if size := len(self._entries) + len(self._ends):
            entries = [(call_id.hex(), *entry) for call_id, *entry in self._entries]
            outbox_id = now.to_bytes(8, "big") + os.urandom(8)  # the oldest first
            ends = [self.hour, *zip(*self._ends, strict=True)] if self._ends else []
            row = (outbox_id, now, size, _json.encode(entries).decode(), _json.encode(ends).decode())
            db.execute(_INSERT_OUTBOX, row)


def write(db: apsw.Connection, statement: Statement, rows: Sequence[tuple[object, ...]]) -> int:
    """Writes the rows; returns how many rows of the database changed."""
    changed = 0
    for chunk in chunks(rows):
        db.execute(_sql(statement, len(chunk)), list(chain.from_iterable(chunk)))
        changed += db.changes()
    return changed


@lru_cache
def _sql(statement: Statement, rows: int) -> str:
    if rows == 1 and statement.one:
        return statement.one
    return statement.head + ", ".join([statement.row] * rows) + statement.tail


_WRITE = """
INSERT INTO limits (account_id, key_id, minute_ends, minute_calls, open_calls, day_from, day_ends, day_units)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) ON CONFLICT (account_id, key_id) DO UPDATE SET
    minute_ends = excluded.minute_ends, minute_calls = excluded.minute_calls,
    open_calls = excluded.open_calls,
    day_from = excluded.day_from, day_ends = excluded.day_ends, day_units = excluded.day_units
"""
_END = """
UPDATE limits SET open_calls = open_calls - ?4,
    day_units = day_units - CASE WHEN day_from = ?3 THEN ?5 ELSE 0 END
WHERE account_id = ?1 AND key_id = ?2
"""
_TAKE_FROM_CAP = """
UPDATE key_caps SET used = used + ?2
WHERE key_id = ?1 AND used + ?2 <= units AND ends_at > ?3 RETURNING starts_at
"""
_CAP_HAS_ENDED = "SELECT 1 FROM key_caps WHERE key_id = ?1 AND ends_at <= ?2"
_GIVE_BACK_TO_CAP = "UPDATE key_caps SET used = used - ?3 WHERE key_id = ?1 AND starts_at = ?2"
Counted = tuple[int, int, int]
"""Where a call counts: the account, the key (0 for the limits of the account), and the `day_from`."""


class Usage(Struct):
    """A row of `limits`: see its migration."""

    account_id: int
    key_id: int
    rpm: int | None = None
    concurrent: int | None = None
    units_per_day: int | None = None
    minute_ends: int = 0
    minute_calls: int = 0
    open_calls: int = 0
    day_from: int = 0
    day_ends: int = 0
    day_units: int = 0
    is_changed: int = 0

    def begin_windows(self, now: int) -> None:
        """Begins another minute and another day if the present ones are over."""
        if not self.minute_ends - 2 * MINUTE_MS <= now < self.minute_ends:
            self.minute_ends, self.minute_calls = now + MINUTE_MS, 0
        if not self.day_ends - 2 * DAY_MS <= now < self.day_ends:
            self.day_from = max(now, self.day_from + 1)
            self.day_ends, self.day_units = now + DAY_MS, 0

    def limits(self, defaults: Limits) -> Limits:
        """Its own limits, or else those of the site."""
        return Limits(
            rpm=defaults.rpm if self.rpm is None else self.rpm,
            concurrent=defaults.concurrent if self.concurrent is None else self.concurrent,
            units_per_day=defaults.units_per_day if self.units_per_day is None else self.units_per_day,
        )


_READ = f"""
SELECT {columns(Usage, is_changed="0")} FROM limits WHERE account_id = ?1 AND key_id = ?2
"""


class Use(Struct, frozen=True):
    """The usage of a key or an account, and the limits that a charge must keep."""

    usage: Usage
    limits: Limits


class Limited:
    """The usage of the limited keys and accounts of a batch, read once and written once."""

    def __init__(self, db: apsw.Connection, now: int) -> None:
        self._db = db
        self._now = now
        self._known: dict[tuple[int, int], Usage] = {}

    def uses(self, charge: Charge, account_id: int, key_id: int, *, key: bool, account: bool) -> list[Use]:
        """What a charge of this key uses. `key` and `account`: whether they have limits set."""
        defaults = charge.default_limits
        of_key = defaults.key if defaults else NO_LIMITS
        of_account = defaults.account if defaults else NO_LIMITS
        rows = [(key_id, key, of_key), (0, account, of_account)]
        return [
            Use(usage := self._usage(account_id, row_id), usage.limits(default))
            for row_id, has_own, default in rows
            if has_own or default != NO_LIMITS
        ]

    def refusal(self, uses: Sequence[Use], units: int) -> ChargeRefused | None:
        """The first limit that a charge of `units` would exceed."""
        for use in uses:
            usage, limits = use.usage, use.limits
            if limits.rpm and usage.minute_calls >= limits.rpm:
                left_ms = usage.minute_ends - self._now
                return _reached(RefusalReason.RPM, use, limits.rpm, usage.minute_calls, left_ms)
            if limits.concurrent and usage.open_calls >= limits.concurrent:
                return _reached(RefusalReason.CONCURRENT, use, limits.concurrent, usage.open_calls, 0)
            if limits.units_per_day and usage.day_units + units > limits.units_per_day:
                left_ms = usage.day_ends - self._now
                return _reached(
                    RefusalReason.UNITS_PER_DAY, use, limits.units_per_day, usage.day_units, left_ms
                )
        return None

    def count(self, uses: Sequence[Use], units: int) -> Rate | None:
        """Counts a charged call. Returns the limit of calls in a minute of which the least is left."""
        rates = []
        for use in uses:
            usage = use.usage
            usage.minute_calls += 1
            usage.open_calls += 1
            usage.day_units += units
            usage.is_changed = 1
            if rpm := use.limits.rpm:
                reset_ms = usage.minute_ends - self._now
                rates.append(Rate(limit=rpm, remaining=rpm - usage.minute_calls, reset_ms=reset_ms))
        return min(rates, key=lambda rate: rate.remaining, default=None)

    def write(self) -> None:
        """Writes what was counted."""
        for usage in self._known.values():
            if usage.is_changed:
                minute = (usage.minute_ends, usage.minute_calls)
                day = (usage.day_from, usage.day_ends, usage.day_units)
                row = (usage.account_id, usage.key_id, *minute, usage.open_calls, *day)
                self._db.execute(_WRITE, row)

    def _usage(self, account_id: int, key_id: int) -> Usage:
        usage = self._known.get((account_id, key_id))
        if usage is None:
            rows = self._db.execute(_READ, (account_id, key_id)).fetchall()
            usage = Usage(*cast(list[int], rows[0])) if rows else Usage(account_id, key_id)
            usage.begin_windows(self._now)
            self._known[account_id, key_id] = usage
        return usage


def end(db: apsw.Connection, ended: Mapping[Counted, Sequence[int]]) -> None:
    """Takes ended calls from the open ones: how many, and their refunded units, which are given back to the
    day in which they were charged, unless it is over."""
    for counted, sums in ended.items():
        db.execute(_END, (*counted, *sums))


def _reached(why: RefusalReason, use: Use, limit: int, used: int, reset_ms: int) -> ChargeRefused:
    reached = LimitReached(of_key=use.usage.key_id != 0, limit=limit, used=used, reset_ms=reset_ms)
    return ChargeRefused(why, limit=reached)


def take_from_cap(db: apsw.Connection, key_id: int, units: int, now: int) -> int | RefusalReason:
    """Takes units from the cap of a key. Returns the start of its period, or why it refuses."""
    for (starts_at,) in db.execute(_TAKE_FROM_CAP, (key_id, units, now)).fetchall():
        return cast(int, starts_at)
    ended = db.execute(_CAP_HAS_ENDED, (key_id, now)).fetchall()
    return RefusalReason.PERIOD if ended else RefusalReason.CAP


def give_back_to_caps(db: apsw.Connection, refunds: Mapping[tuple[int, int], int]) -> None:
    """Gives units back, by key and start of the period in which they were charged. A period that is over is
    not changed."""
    for (key_id, starts_at), units in refunds.items():
        db.execute(_GIVE_BACK_TO_CAP, (key_id, starts_at, units))
