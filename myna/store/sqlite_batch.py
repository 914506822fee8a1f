"""The batch of charges and ends on SQLite: decided in Python, written in few statements.

Runs inside the writer's transaction, so nothing changes between what it reads and what it writes. Its twin
for PostgreSQL is the function `commit_batch` in the migrations; the tests hold both to the same meaning.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple, cast

import apsw
import msgspec

from myna.store.batch import (
    AUDIO_MARK,
    TASK_MARK,
    CallState,
    Charge,
    Charged,
    ChargeOutcome,
    End,
    EndOutcome,
    EntryKind,
    NewTask,
    Refusal,
    Refused,
    Replayed,
    TaskStatus,
)
from myna.store.limits import RESERVATION_LIFE_MS

_json = msgspec.json.Encoder()


_ROWS_MAX = 64
"""How many rows a statement takes, or a lower power of two: few sizes, so that all of them stay prepared.
Each statement lets the interpreter go, so the fewer the better."""


class _Statement(NamedTuple):
    """SQL that takes rows: what stands before them, one of them, what stands behind. `one` is the same for a
    row that is alone, where SQLite then needs no table of its own in between."""

    head: str
    row: str
    tail: str = ""
    one: str = ""


_ENTER = _Statement(
    "INSERT INTO ledger (call_id, kind, account_id, units, created_at) VALUES ", "(?, ?, ?, ?, ?)"
)
_MOVE_BALANCES = _Statement(
    "UPDATE accounts SET balance = balance + e.column2 FROM (VALUES ",
    "(?, ?)",
    ") AS e WHERE accounts.id = e.column1 AND balance + e.column2 >= 0",
    one="UPDATE accounts SET balance = balance + ?2 WHERE id = ?1 AND balance + ?2 >= 0",
)
_COUNT = _Statement(
    "INSERT INTO key_usage (key_id, calls, ok_calls, cost) VALUES ",
    "(?, ?, ?, ?)",
    """ ON CONFLICT (key_id) DO UPDATE SET
    calls = calls + excluded.calls, ok_calls = ok_calls + excluded.ok_calls, cost = cost + excluded.cost""",
)


class _Key(msgspec.Struct):
    """What the batch knows of a charge's key and its account; `balance` is shared through `_Account`. `done`
    if the charge itself was committed before; `version` is the site's."""

    key_id: int
    account: "_Account"
    scopes: int
    usable: bool
    done: bool
    version: int


class _Account(msgspec.Struct):
    account_id: int
    balance: int


class _Changes:
    """The net change of each row that many calls share, written once at the end."""

    def __init__(self) -> None:
        self.balances: defaultdict[int, int] = defaultdict(int)
        self.keys: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        self.entries: list[tuple[bytes, int, int, int]] = []

    def enter(self, call_id: bytes, kind: EntryKind, account_id: int, units: int) -> None:
        self.entries.append((call_id, kind, account_id, units))
        self.balances[account_id] += units

    def count(self, key_id: int, ok_calls: int, cost: int) -> None:
        """One more call of the key has ended."""
        counters = self.keys[key_id]
        counters[0] += 1
        counters[1] += ok_calls
        counters[2] += cost

    def write(self, db: apsw.Connection, now: int) -> None:
        _write(db, _ENTER, [(*entry, now) for entry in self.entries])
        moved = [(account, units) for account, units in self.balances.items() if units]
        if _write(db, _MOVE_BALANCES, moved) != len(moved):
            raise AssertionError("a balance would have fallen below zero")
        _write(db, _COUNT, [(key, *counters) for key, counters in self.keys.items()])


def run(
    db: apsw.Connection, ends: Sequence[End], charges: Sequence[Charge], now: int
) -> tuple[list[EndOutcome], list[ChargeOutcome]]:
    """Ends first, so that what they give back can be spent by the charges behind them."""
    changes = _Changes()
    ended = _end(db, ends, changes, now) if ends else []
    charged = _charge(db, charges, changes, now) if charges else []
    changes.write(db, now)
    return ended, charged


def _write(db: apsw.Connection, statement: _Statement, rows: Sequence[tuple[object, ...]]) -> int:
    """How many rows of the database it changed."""
    changed = begin = 0
    while left := len(rows) - begin:
        size = min(_ROWS_MAX, 1 << left.bit_length() - 1)
        taken = rows[begin : begin + size]
        db.execute(_sql(statement, size), list(chain.from_iterable(taken)))
        changed += db.changes()
        begin += size
    return changed


def _array(values: Collection[bytes]) -> object:
    """A tuple of what knows its length is made in its size; one of a generator is cut down to it, and CPython
    keeps up to two thousand such cuttings of each size for later."""
    return apsw.carray(tuple(values))


@lru_cache
def _sql(statement: _Statement, rows: int) -> str:
    if rows == 1 and statement.one:
        return statement.one
    return statement.head + ", ".join([statement.row] * rows) + statement.tail


# ---- ends

# The calls of these ids that are open, each by its place among them. One row holds them all: for each row
# that SQLite gives, the interpreter is let go and taken again.
_OPEN_CALLS = """
SELECT json_group_array(json_array(o.rowid - 1, c.account_id, c.key_id, c.units))
FROM carray(?1) AS o CROSS JOIN calls AS c ON c.id = o.value
WHERE c.state = 0
"""
_open_calls = msgspec.json.Decoder(list[tuple[int, int, int, int]])
_MOVE = "UPDATE calls SET state = ?2, ended_at = ?3 WHERE id IN carray(?1) AND state = 0"
_MOVE_ONE = "UPDATE calls SET state = ?2, ended_at = ?3 WHERE id = ?1 AND state = 0"
_STATES = "SELECT id, state FROM calls WHERE id IN carray(?1)"
_FAIL_TASKS = """
UPDATE tasks SET status = 3, ended_at = ?2, reason = e.reason
FROM (SELECT unhex(value->>0) AS id, value->>1 AS reason FROM json_each(?1)) AS e
WHERE tasks.call_id = e.id AND tasks.status IN (0, 1)
"""
_COMPLETE_TASK = """
UPDATE tasks SET status = 2, ended_at = ?5, audio = ?2, audio_bytes = ?3, audio_sha256 = ?4
WHERE call_id = ?1 AND status = 1
"""
_STORE_ANSWER = "UPDATE reservations SET answer = ?2 WHERE call_id = ?1"
_DROP_RESERVATIONS = "DELETE FROM reservations WHERE call_id IN carray(?1)"


def _end(db: apsw.Connection, ends: Sequence[End], changes: _Changes, now: int) -> list[EndOutcome]:
    first: dict[bytes, End] = {}  # two ends of one call in one batch: the first to arrive wins
    for end in ends:
        first.setdefault(end.call_id, end)
    wanted = list(first.values())
    moved: list[End] = []
    ((found,),) = db.execute(_OPEN_CALLS, (_array(first),))
    for place, account_id, key_id, units in _open_calls.decode(found):
        end = wanted[place]
        moved.append(end)
        if end.state == CallState.KEPT:
            changes.count(key_id, 1, units)
        else:
            changes.enter(end.call_id, EntryKind.REFUND, account_id, units)
            changes.count(key_id, 0, 0)
    _move(db, moved, now)
    _end_what_hangs_on_them(db, moved, now)
    states = {end.call_id: int(end.state) for end in moved}
    missing = [call_id for call_id in first if call_id not in states]
    if missing:
        states.update(db.execute(_STATES, (_array(missing),)))
    return [EndOutcome.DONE if states.get(end.call_id) == end.state else EndOutcome.LOST for end in ends]


def _move(db: apsw.Connection, ends: Sequence[End], now: int) -> None:
    for state in (CallState.KEPT, CallState.REFUNDED):
        call_ids = [end.call_id for end in ends if end.state == state]
        if call_ids:
            alone = len(call_ids) == 1
            moved = call_ids[0] if alone else _array(call_ids)
            db.execute(_MOVE_ONE if alone else _MOVE, (moved, int(state), now))
            if db.changes() != len(call_ids):
                raise AssertionError("a call would have ended twice")


def _end_what_hangs_on_them(db: apsw.Connection, ends: Sequence[End], now: int) -> None:
    """Tasks and reservations of the calls that these ends moved."""
    refunds = [end for end in ends if end.state == CallState.REFUNDED]
    if refunds:
        reasons = [(end.call_id.hex(), end.reason) for end in refunds]
        db.execute(_FAIL_TASKS, (_json.encode(reasons).decode(), now))
        db.execute(_DROP_RESERVATIONS, (_array([end.call_id for end in refunds]),))
    for end in ends:
        if end.state != CallState.KEPT:
            continue
        if end.audio:
            audio = end.audio
            db.execute(_COMPLETE_TASK, (end.call_id, audio.name, audio.size_bytes, audio.sha256, now))
        if end.answer is not None:
            db.execute(_STORE_ANSWER, (end.call_id, end.answer))


# ---- charges

# The site's version; which calls are there already, committed by an earlier batch that couldn't say so;
# for each charge whose key there is, its place in the batch, and the key with its account.
_STANDING = """
SELECT (SELECT version FROM site),
       (SELECT json_group_array(hex(c.id)) FROM carray(?2) AS o CROSS JOIN calls AS c ON c.id = o.value),
       json_group_array(json_array(
           o.rowid - 1, k.id, a.id, a.balance, k.scopes,
           k.revoked_at = 0 AND (k.expires_at = 0 OR k.expires_at > ?3) AND a.disabled_at = 0))
FROM carray(?1) AS o
CROSS JOIN keys AS k ON k.hash = o.value
JOIN accounts AS a ON a.id = k.account_id
"""
_standing_keys = msgspec.json.Decoder(list[tuple[int, int, int, int, int, int]])
_call_ids = msgspec.json.Decoder(list[str])
_TASK = "SELECT coalesce(max(id), 0) FROM tasks WHERE call_id = ?1"
_RESERVED = """
SELECT fingerprint, answer FROM reservations WHERE account_id = ?1 AND key = ?2 AND created_at > ?3
"""
_FORGET = "DELETE FROM reservations WHERE account_id = ?1 AND key = ?2"
_RESERVE = """
INSERT INTO reservations (account_id, key, fingerprint, call_id, created_at, answer, draft)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
"""
_OPEN = _Statement(
    "INSERT INTO calls (id, account_id, key_id, pays, units, state, created_at, deadline) VALUES ",
    "(?, ?, ?, ?, ?, 0, ?, ?)",
)
_ORDER = """
INSERT INTO tasks (account_id, call_id, status, voice_id, speed, text, chars, created_at, deadline)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
"""


def _charge(
    db: apsw.Connection, charges: Sequence[Charge], changes: _Changes, now: int
) -> list[ChargeOutcome]:
    """In order of arrival; who doesn't fit fails alone."""
    opened: list[tuple[bytes, int, int, int, int, int, int]] = []
    outcomes: list[ChargeOutcome] = []
    for charge, key in zip(charges, _standing(db, charges, changes, now), strict=True):
        if key and key.done:
            ((task_id,),) = db.execute(_TASK, (charge.call_id,)).fetchall()
            outcomes.append(Charged(key.account.account_id, cast(int, task_id)))
            continue
        refusal = _refusal(db, charge, key, now)
        if refusal or key is None:
            outcomes.append(refusal or Refused(Refusal.KEY))
            continue
        outcomes.append(_open(db, charge, key, changes, now))
        row = (charge.call_id, key.account.account_id, key.key_id, charge.pays, charge.units)
        opened.append((*row, now, now + charge.deadline_ms))
    _write(db, _OPEN, opened)
    return outcomes


def _standing(
    db: apsw.Connection, charges: Sequence[Charge], changes: _Changes, now: int
) -> list[_Key | None]:
    """The key of each charge; charges of one account share its balance."""
    found: list[_Key | None] = [None] * len(charges)
    accounts: dict[int, _Account] = {}
    hashes = _array([charge.key_hash for charge in charges])
    call_ids = _array([charge.call_id for charge in charges])
    ((version, there, keys),) = db.execute(_STANDING, (hashes, call_ids, now))
    done = {bytes.fromhex(call_id) for call_id in _call_ids.decode(there)}
    for place, key_id, account_id, balance, scopes, usable in _standing_keys.decode(keys):
        account = accounts.get(account_id)
        if account is None:
            account = accounts[account_id] = _Account(account_id, balance + changes.balances[account_id])
        before = charges[place].call_id in done
        found[place] = _Key(key_id, account, scopes, bool(usable), before, version)
    return found


def _refusal(db: apsw.Connection, charge: Charge, key: _Key | None, now: int) -> Refused | Replayed | None:
    """The first reason not to charge, in the order in which a caller is told of them."""
    if key is None or not key.usable or not key.scopes & charge.scope:
        return Refused(Refusal.KEY)
    if charge.reservation:
        oldest = now - RESERVATION_LIFE_MS
        reserved = (key.account.account_id, charge.reservation.key, oldest)
        for fingerprint, answer in db.execute(_RESERVED, reserved).fetchall():
            if fingerprint != charge.reservation.fingerprint:
                return Refused(Refusal.REUSED)
            return Refused(Refusal.PENDING) if answer is None else Replayed(str(answer))
    if charge.config_version != key.version:
        return Refused(Refusal.STALE)
    if not key.scopes & charge.pays:
        return Refused(Refusal.RATE)
    if key.account.balance < charge.units:
        return Refused(Refusal.UNITS, key.account.balance)
    return None


def _open(db: apsw.Connection, charge: Charge, key: _Key, changes: _Changes, now: int) -> Charged:
    account = key.account
    account.balance -= charge.units
    changes.enter(charge.call_id, EntryKind.CHARGE, account.account_id, -charge.units)
    task_id = _order(db, charge, account.account_id, now) if charge.task else 0
    if charge.reservation:
        draft = charge.draft.replace(TASK_MARK, str(task_id)) if charge.draft else None
        answer = None if draft is None or AUDIO_MARK in draft else draft
        db.execute(_FORGET, (account.account_id, charge.reservation.key))
        reserved = (
            charge.reservation.key,
            charge.reservation.fingerprint,
            charge.call_id,
            now,
            answer,
            draft,
        )
        db.execute(_RESERVE, (account.account_id, *reserved))
    return Charged(account.account_id, task_id)


def _order(db: apsw.Connection, charge: Charge, account_id: int, now: int) -> int:
    """The id of the task that was ordered with this charge."""
    task = cast(NewTask, charge.task)
    deadline = now + charge.deadline_ms if task.status == TaskStatus.QUEUED else 0
    row = (int(task.status), task.voice_id, task.speed, task.text, len(task.text), now, deadline)
    db.execute(_ORDER, (account_id, charge.call_id, *row))
    return db.last_insert_rowid()
