"""The rows that the calls of a batch share, written once at its end: ledger, balances, counters, reports.

`commit_batch` in `migrations/routines.postgresql.sql` is the same for PostgreSQL.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import apsw
import msgspec

from myna.store.batch import CallState, EntryKind

_json = msgspec.json.Encoder()
_ROWS_MAX = 64
"""How many rows a statement writes, or a lower power of two: with few sizes all statements stay prepared.
Each statement releases the interpreter lock, so fewer are better."""


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
    changed = begin = 0
    while left := len(rows) - begin:
        size = min(_ROWS_MAX, 1 << left.bit_length() - 1)
        chunk = rows[begin : begin + size]
        db.execute(_sql(statement, size), list(chain.from_iterable(chunk)))
        changed += db.changes()
        begin += size
    return changed


@lru_cache
def _sql(statement: Statement, rows: int) -> str:
    if rows == 1 and statement.one:
        return statement.one
    return statement.head + ", ".join([statement.row] * rows) + statement.tail
