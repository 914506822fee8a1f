"""The batch of charges and ends on SQLite: decided in Python, written in few statements.

Runs inside the writer's transaction, so nothing changes between what it reads and what it writes. Its twin
for PostgreSQL is the function `commit_batch` in the migrations; the tests hold both to the same meaning.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import cast

import apsw
import msgspec

from myna.store.batch import (
    CallState,
    Charge,
    Charged,
    ChargeOutcome,
    End,
    EndOutcome,
    EntryKind,
    Refusal,
    Refused,
    Replayed,
    TaskStatus,
)
from myna.store.limits import RESERVATION_LIFE_MS

_json = msgspec.json.Encoder()


class _Key(msgspec.Struct):
    """What the batch knows of a key and its account; `balance` is shared through `_Account`."""

    key_id: int
    account: "_Account"
    scopes: int
    usable: bool


class _Account(msgspec.Struct):
    account_id: int
    balance: int


class _Changes:
    """The net change of each row that many calls share, written once at the end."""

    def __init__(self) -> None:
        self.balances: defaultdict[int, int] = defaultdict(int)
        self.keys: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        self.entries: list[tuple[str, int, int, int]] = []

    def enter(self, call_id: bytes, kind: EntryKind, account_id: int, units: int) -> None:
        self.entries.append((call_id.hex(), kind, account_id, units))
        self.balances[account_id] += units

    def count(self, key_id: int, calls: int, ok_calls: int, cost: int) -> None:
        counters = self.keys[key_id]
        counters[0] += calls
        counters[1] += ok_calls
        counters[2] += cost

    def write(self, db: apsw.Connection, now: int) -> None:
        if self.entries:
            db.execute(_ENTER, (_text(self.entries), now))
        moved = [(account, units) for account, units in self.balances.items() if units]
        if moved:
            db.execute(_MOVE_BALANCES, (_text(moved),))
            if db.changes() != len(moved):
                raise AssertionError("a balance would have fallen below zero")
        if self.keys:
            db.execute(_COUNT, (_text([(key, *counters) for key, counters in self.keys.items()]),))


def run(
    db: apsw.Connection, ends: Sequence[End], charges: Sequence[Charge], now: int
) -> tuple[list[EndOutcome], list[ChargeOutcome]]:
    """Ends first, so that what they give back can be spent by the charges behind them."""
    changes = _Changes()
    ended = _end(db, ends, changes, now) if ends else []
    charged = _charge(db, charges, changes, now) if charges else []
    changes.write(db, now)
    return ended, charged


def _text(rows: object) -> str:
    return _json.encode(rows).decode()


# ---- ends

_END = """
UPDATE calls SET state = e.state, ended_at = ?2
FROM (SELECT unhex(value->>0) AS id, value->>1 AS state FROM json_each(?1)) AS e
WHERE calls.id = e.id AND calls.state = 0
RETURNING calls.id, calls.account_id, calls.key_id, calls.units, calls.state
"""
_STATES = "SELECT id, state FROM calls WHERE id IN (SELECT unhex(value) FROM json_each(?1))"
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
_DROP_RESERVATIONS = (
    "DELETE FROM reservations WHERE call_id IN (SELECT unhex(value) FROM json_each(?1)) AND answer IS NULL"
)


def _end(db: apsw.Connection, ends: Sequence[End], changes: _Changes, now: int) -> list[EndOutcome]:
    first: dict[bytes, End] = {}  # two ends of one call in one batch: the first to arrive wins
    for end in ends:
        first.setdefault(end.call_id, end)
    wanted = _text([(end.call_id.hex(), end.state) for end in first.values()])
    states: dict[bytes, int] = {}
    for call_id, account_id, key_id, units, state in db.execute(_END, (wanted, now)):
        states[call_id] = state
        if state == CallState.KEPT:
            changes.count(key_id, 0, 1, 0)
        else:
            changes.enter(call_id, EntryKind.REFUND, account_id, units)
            changes.count(key_id, 0, 0, -units)
    _end_what_hangs_on_them(db, [end for end in first.values() if end.call_id in states], now)
    missing = [call_id.hex() for call_id in first if call_id not in states]
    if missing:
        states.update(db.execute(_STATES, (_text(missing),)))
    return [EndOutcome.DONE if states.get(end.call_id) == end.state else EndOutcome.LOST for end in ends]


def _end_what_hangs_on_them(db: apsw.Connection, ends: Sequence[End], now: int) -> None:
    """Tasks and reservations of the calls that these ends moved."""
    refunds = [(end.call_id.hex(), end.reason) for end in ends if end.state == CallState.REFUNDED]
    if refunds:
        db.execute(_FAIL_TASKS, (_text(refunds), now))
        db.execute(_DROP_RESERVATIONS, (_text([call_id for call_id, _ in refunds]),))
    for end in ends:
        if end.state != CallState.KEPT:
            continue
        if end.audio:
            audio = end.audio
            db.execute(_COMPLETE_TASK, (end.call_id, audio.name, audio.size_bytes, audio.sha256, now))
        if end.answer is not None:
            db.execute(_STORE_ANSWER, (end.call_id, end.answer))


# ---- charges

_VERSION = "SELECT version FROM site"
_DONE = """
SELECT c.id, c.account_id, coalesce(t.id, 0)
FROM json_each(?1) AS h CROSS JOIN calls AS c ON c.id = unhex(h.value)
LEFT JOIN tasks AS t ON t.call_id = c.id
"""
_KEYS = """
SELECT k.hash, k.id, k.scopes, k.revoked_at = 0 AND (k.expires_at = 0 OR k.expires_at > ?2)
       AND a.disabled_at = 0, a.id, a.balance
FROM json_each(?1) AS h CROSS JOIN keys AS k ON k.hash = unhex(h.value)
JOIN accounts AS a ON a.id = k.account_id
"""
_RESERVED = """
SELECT fingerprint, answer FROM reservations WHERE account_id = ?1 AND key = ?2 AND created_at > ?3
"""
_FORGET = "DELETE FROM reservations WHERE account_id = ?1 AND key = ?2"
_RESERVE = (
    "INSERT INTO reservations (account_id, key, fingerprint, call_id, created_at) VALUES (?1, ?2, ?3, ?4, ?5)"
)
_OPEN = """
INSERT INTO calls (id, account_id, key_id, pays, units, state, created_at, deadline)
SELECT unhex(value->>0), value->>1, value->>2, value->>3, value->>4, 0, ?2, ?2 + (value->>5)
FROM json_each(?1)
"""
_ORDER = """
INSERT INTO tasks (account_id, call_id, status, voice_id, speed, text, chars, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8) RETURNING id
"""
_ENTER = """
INSERT INTO ledger (call_id, kind, account_id, units, created_at)
SELECT unhex(value->>0), value->>1, value->>2, value->>3, ?2 FROM json_each(?1)
"""
_MOVE_BALANCES = """
UPDATE accounts SET balance = balance + e.units
FROM (SELECT value->>0 AS id, value->>1 AS units FROM json_each(?1)) AS e
WHERE accounts.id = e.id AND balance + e.units >= 0
"""
_COUNT = """
UPDATE keys SET calls = keys.calls + e.calls, ok_calls = ok_calls + e.ok, cost = keys.cost + e.cost
FROM (SELECT value->>0 AS id, value->>1 AS calls, value->>2 AS ok, value->>3 AS cost FROM json_each(?1)) AS e
WHERE keys.id = e.id
"""


def _charge(
    db: apsw.Connection, charges: Sequence[Charge], changes: _Changes, now: int
) -> list[ChargeOutcome]:
    """In order of arrival; who doesn't fit fails alone."""
    ((version,),) = db.execute(_VERSION)
    done = _done(db, charges)
    keys = _keys(db, charges, changes, now)
    opened: list[tuple[str, int, int, int, int, int]] = []
    outcomes: list[ChargeOutcome] = []
    for charge in charges:
        if charge.call_id in done:
            outcomes.append(done[charge.call_id])
            continue
        key = keys.get(charge.key_hash)
        refusal = _refusal(db, charge, key, int(version), now)
        if refusal or key is None:
            outcomes.append(refusal or Refused(Refusal.KEY))
            continue
        outcomes.append(_open(db, charge, key, changes, now))
        row = (charge.call_id.hex(), key.account.account_id, key.key_id, charge.pays, charge.units)
        opened.append((*row, charge.deadline_ms))
    if opened:
        db.execute(_OPEN, (_text(opened), now))
    return outcomes


def _done(db: apsw.Connection, charges: Sequence[Charge]) -> dict[bytes, Charged]:
    """Charges that a batch before this one committed without being able to say so."""
    ids = _text([charge.call_id.hex() for charge in charges])
    rows = db.execute(_DONE, (ids,))
    return {call_id: Charged(account_id, task_id) for call_id, account_id, task_id in rows}


def _keys(db: apsw.Connection, charges: Sequence[Charge], changes: _Changes, now: int) -> dict[bytes, _Key]:
    hashes = _text([key_hash.hex() for key_hash in {charge.key_hash for charge in charges}])
    accounts: dict[int, _Account] = {}
    keys: dict[bytes, _Key] = {}
    for key_hash, key_id, scopes, usable, account_id, balance in db.execute(_KEYS, (hashes, now)):
        account = accounts.get(account_id)
        if account is None:
            account = accounts[account_id] = _Account(account_id, balance + changes.balances[account_id])
        keys[key_hash] = _Key(key_id, account, scopes, bool(usable))
    return keys


def _refusal(
    db: apsw.Connection, charge: Charge, key: _Key | None, version: int, now: int
) -> Refused | Replayed | None:
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
    if charge.config_version != version:
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
    changes.count(key.key_id, 1, 0, charge.units)
    if charge.reservation:
        db.execute(_FORGET, (account.account_id, charge.reservation.key))
        reserved = (charge.reservation.key, charge.reservation.fingerprint, charge.call_id, now)
        db.execute(_RESERVE, (account.account_id, *reserved))
    task_id = 0
    if charge.task:
        task, status = charge.task, TaskStatus(charge.task.status)
        row = (status, task.voice_id, task.speed, task.text, len(task.text), now)
        ((number,),) = db.execute(_ORDER, (account.account_id, charge.call_id, *row)).fetchall()
        task_id = cast(int, number)
    return Charged(account.account_id, task_id)
