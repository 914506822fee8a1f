"""The batch of charges and ends on SQLite: decided in Python, written with few statements.

Runs inside the writer's transaction, so no other transaction changes what it has read. `commit_batch` in
`migrations/routines.postgresql.sql` is the same for PostgreSQL; the same tests run on both.
"""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import cast

import apsw
import msgspec

from myna.lib.times import hour_of
from myna.store import sqlite_changes
from myna.store.batch import (
    AUDIO_PLACEHOLDER,
    IDEMPOTENCY_KEY_LIFE_MS,
    TASK_PLACEHOLDER,
    CallState,
    Charge,
    Charged,
    ChargeOutcome,
    ChargeRefused,
    End,
    EndOutcome,
    EntryKind,
    NewTask,
    Rate,
    RefusalReason,
    Replayed,
    TaskStatus,
)
from myna.store.sqlite_changes import Changes, Counted, Limited, Statement, write
from myna.store.states import COMPLETED, FAILED, OPEN, PROCESSING, UNFINISHED

_json = msgspec.json.Encoder()


class _Key(msgspec.Struct):
    """A charge's key. `flags` are those of `_READ_KEYS`. `done` means that the charge was committed before;
    `version` is the configuration's."""

    key_id: int
    account: "_Account"
    scopes: int
    flags: int
    done: bool
    version: int


class _Account(msgspec.Struct):
    """Shared by all charges of the account in the batch."""

    account_id: int
    balance: int


def run(
    db: apsw.Connection, ends: Sequence[End], charges: Sequence[Charge], now: int
) -> tuple[list[EndOutcome], list[ChargeOutcome]]:
    """Runs the batch: ends first, so that the charges can use the refunded units."""
    changes = Changes(now)
    ended = _end(db, ends, changes, now) if ends else []
    charged = _charge(db, charges, changes, now) if charges else []
    changes.write(db)
    return ended, charged


def _array(values: Collection[bytes]) -> object:
    """A parameter for `carray`. Not from a generator: CPython shrinks such a tuple to its size, and caches up
    to two thousand shrunk tuples of each size."""
    return apsw.carray(tuple(values))


# ---- ends

# Those of these calls that are open, each with its index among them, in one row: SQLite releases and takes
# the interpreter lock for each row. Then the minutes at which an hour of the reports begins, in ms.
_OPEN_CALLS = f"""
SELECT json_group_array(json_array(
           o.rowid - 1, c.account_id, c.key_id, c.units, c.pays, c.created_at, c.cap_from,
           c.key_day, c.account_day)),
       (SELECT hour_offset_ms FROM site)
FROM carray(?1) AS o CROSS JOIN calls AS c ON c.id = o.value
WHERE c.{OPEN}
"""
_open_calls = msgspec.json.Decoder(list[tuple[int, int, int, int, int, int, int, int, int]])
_SET_END = "UPDATE calls SET state = ?2, ended_at = ?3, channel = ?4, reason = ?5, usage = ?6"
_END_CALLS = f"{_SET_END} WHERE id IN carray(?1) AND {OPEN}"
_END_CALL = f"{_SET_END} WHERE id = ?1 AND {OPEN}"
_STATES = "SELECT id, state FROM calls WHERE id IN carray(?1)"
_FAIL_TASKS = f"""
UPDATE tasks SET {FAILED}, ended_at = ?2, reason = e.reason
FROM (SELECT unhex(value->>0) AS id, value->>1 AS reason FROM json_each(?1)) AS e
WHERE tasks.call_id = e.id AND tasks.{UNFINISHED}
"""
_COMPLETE_TASK = f"""
UPDATE tasks SET {COMPLETED}, ended_at = ?5, audio = ?2, audio_bytes = ?3, audio_sha256 = ?4
WHERE call_id = ?1 AND {PROCESSING}
"""
_STORE_ANSWER = "UPDATE reservations SET answer = ?2, draft = NULL WHERE call_id = ?1"
_DELETE_KEYS = "DELETE FROM reservations WHERE call_id IN carray(?1)"


def _end(db: apsw.Connection, ends: Sequence[End], changes: Changes, now: int) -> list[EndOutcome]:
    first: dict[bytes, End] = {}  # two ends of one call in one batch: the first to arrive wins
    for end in ends:
        first.setdefault(end.call_id, end)
    wanted = list(first.values())
    moved: list[End] = []
    ((found, hour_offset),) = db.execute(_OPEN_CALLS, (_array(first),))
    changes.hour = hour_of(now, hour_offset)
    to_caps: defaultdict[tuple[int, int], int] = defaultdict(int)
    of_limits: defaultdict[Counted, list[int]] = defaultdict(lambda: [0, 0])
    for (
        index, account_id, key_id, units, pays, created_at, cap_from, key_day, account_day
    ) in _open_calls.decode(found):  # fmt: skip
        end = wanted[index]
        moved.append(end)
        ms = max(now - created_at, 0)
        changes.count(account_id, key_id, pays, end.state, units, ms, end.channel)
        if end.state == CallState.REFUNDED:
            changes.add_entry(end.call_id, EntryKind.REFUND, account_id, key_id, units)
            if cap_from:
                to_caps[key_id, cap_from] += units
        refunded = units if end.state == CallState.REFUNDED else 0
        if key_day or account_day:
            for counted in (account_id, key_id, key_day), (account_id, 0, account_day):
                if counted[2]:
                    of_limits[counted][0] += 1
                    of_limits[counted][1] += refunded
    sqlite_changes.give_back_to_caps(db, to_caps)
    sqlite_changes.end(db, of_limits)
    _end_calls(db, moved, now)
    _end_tasks_and_responses(db, moved, now)
    states = {end.call_id: int(end.state) for end in moved}
    missing = [call_id for call_id in first if call_id not in states]
    if missing:
        states.update(db.execute(_STATES, (_array(missing),)))
    return [EndOutcome.DONE if states.get(end.call_id) == end.state else EndOutcome.LOST for end in ends]


def _end_calls(db: apsw.Connection, ends: Sequence[End], now: int) -> None:
    groups: defaultdict[tuple[CallState, str, str, str], list[bytes]] = defaultdict(list)
    for end in ends:
        groups[end.state, end.channel, end.reason, end.usage].append(end.call_id)
    for (state, channel, reason, usage), call_ids in groups.items():
        single = len(call_ids) == 1
        ids = call_ids[0] if single else _array(call_ids)
        db.execute(_END_CALL if single else _END_CALLS, (ids, int(state), now, channel, reason, usage))
        if db.changes() != len(call_ids):
            raise AssertionError("a call would end twice")


def _end_tasks_and_responses(db: apsw.Connection, ends: Sequence[End], now: int) -> None:
    """Ends the tasks of these calls, and stores or deletes their idempotency keys' answers."""
    refunds = [end for end in ends if end.state == CallState.REFUNDED]
    if refunds:
        reasons = [(end.call_id.hex(), end.reason) for end in refunds]
        db.execute(_FAIL_TASKS, (_json.encode(reasons).decode(), now))
        db.execute(_DELETE_KEYS, (_array([end.call_id for end in refunds]),))
    for end in ends:
        if end.state != CallState.KEPT:
            continue
        if end.audio:
            audio = end.audio
            db.execute(_COMPLETE_TASK, (end.call_id, audio.name, audio.size_bytes, audio.sha256, now))
        if end.answer is not None:
            db.execute(_STORE_ANSWER, (end.call_id, end.answer))


# ---- charges

# The configuration's version; the calls that an earlier batch has committed, whose result was lost; for each
# charge with an existing key, its index in the batch, and the key with its account.
_READ_KEYS = """
SELECT (SELECT version FROM site),
       (SELECT json_group_array(hex(c.id)) FROM carray(?2) AS o CROSS JOIN calls AS c ON c.id = o.value),
       json_group_array(json_array(
           o.rowid - 1, k.id, a.id, a.balance, k.scopes,
           2 * k.routed + 4 * k.capped + 8 * k.limited + 16 * a.limited + (
           k.revoked_at = 0 AND (k.expires_at = 0 OR k.expires_at > ?3) AND a.disabled_at = 0)))
FROM carray(?1) AS o
CROSS JOIN keys AS k ON k.hash = o.value
JOIN accounts AS a ON a.id = k.account_id
"""
_keys_decoder = msgspec.json.Decoder(list[tuple[int, int, int, int, int, int]])
_USABLE, _ROUTED, _CAPPED, _KEY_LIMITED, _ACCOUNT_LIMITED = 1, 2, 4, 8, 16
_COUNTED = _CAPPED | _KEY_LIMITED | _ACCOUNT_LIMITED
_IS_ROUTE_OF_KEY = "SELECT 1 FROM key_routes WHERE key_id = ?1 AND route = ?2"
_call_ids = msgspec.json.Decoder(list[str])
_TASK_OF_CALL = "SELECT coalesce(max(id), 0) FROM tasks WHERE call_id = ?1"
_READ_STORED = """
SELECT fingerprint, answer FROM reservations WHERE account_id = ?1 AND key = ?2 AND created_at > ?3
"""
_DELETE_EXPIRED_KEY = "DELETE FROM reservations WHERE account_id = ?1 AND key = ?2"
_INSERT_KEY = """
INSERT INTO reservations (account_id, key, fingerprint, call_id, created_at, answer, draft)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
"""
_INSERT_CALLS = Statement(
    "INSERT INTO calls (id, account_id, key_id, pays, units, request_id, route, cap_from, key_day,"
    " account_day, state, created_at, deadline) VALUES ",
    f"(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, {CallState.OPEN}, ?, ?)",
)
_INSERT_TASK = """
INSERT INTO tasks (account_id, call_id, status, voice_id, speed, text, language, chars, created_at, deadline)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
"""


def _charge(
    db: apsw.Connection, charges: Sequence[Charge], changes: Changes, now: int
) -> list[ChargeOutcome]:
    """Decides each charge in order of arrival. A refused one does not affect the others."""
    opened: list[tuple[object, ...]] = []
    outcomes: list[ChargeOutcome] = []
    counts: _Counts | ChargeRefused
    limited = Limited(db, now)
    for charge, key in zip(charges, _read_keys(db, charges, changes, now), strict=True):
        if key and key.done:
            ((task_id,),) = db.execute(_TASK_OF_CALL, (charge.call_id,)).fetchall()
            outcomes.append(_charged(key, cast(int, task_id)))
            continue
        refusal = _refusal(db, charge, key, now)
        if refusal or key is None:
            outcomes.append(refusal or ChargeRefused(RefusalReason.KEY))
            continue
        counts = _NOWHERE
        if key.flags & _COUNTED or charge.default_limits:
            counts = _counts(db, charge, key, limited, now)
        if isinstance(counts, ChargeRefused):
            outcomes.append(counts)
            continue
        outcomes.append(_open(db, charge, key, counts.rate, changes, now))
        row = (
            charge.call_id,
            key.account.account_id,
            key.key_id,
            charge.pays,
            charge.units,
            charge.request_id,
            charge.route,
            counts.cap_from,
            counts.key_day,
            counts.account_day,
        )
        opened.append((*row, now, now + charge.deadline_ms))
    limited.write()
    write(db, _INSERT_CALLS, opened)
    return outcomes


class _Counts(msgspec.Struct, frozen=True):
    """Where a call counts: the columns of `calls`, and the limit of calls in a minute."""

    cap_from: int = 0
    key_day: int = 0
    account_day: int = 0
    rate: Rate | None = None


_NOWHERE = _Counts()


def _counts(
    db: apsw.Connection, charge: Charge, key: _Key, limited: Limited, now: int
) -> _Counts | ChargeRefused:
    """Counts a charge towards the cap and the limits of its key and account, unless one refuses it."""
    uses = limited.uses(
        charge,
        key.account.account_id,
        key.key_id,
        key=bool(key.flags & _KEY_LIMITED),
        account=bool(key.flags & _ACCOUNT_LIMITED),
    )
    if refusal := limited.refusal(uses, charge.units):
        return refusal
    cap_from = sqlite_changes.take_from_cap(db, key.key_id, charge.units, now) if key.flags & _CAPPED else 0
    if isinstance(cap_from, RefusalReason):
        return ChargeRefused(cap_from)
    rate = limited.count(uses, charge.units)
    days = {use.usage.key_id: use.usage.day_from for use in uses}
    return _Counts(cap_from, key_day=days.get(key.key_id, 0), account_day=days.get(0, 0), rate=rate)


def _read_keys(
    db: apsw.Connection, charges: Sequence[Charge], changes: Changes, now: int
) -> list[_Key | None]:
    """The key of each charge, None if unknown. Charges of one account share its `_Account`."""
    found: list[_Key | None] = [None] * len(charges)
    accounts: dict[int, _Account] = {}
    hashes = _array([charge.key_hash for charge in charges])
    call_ids = _array([charge.call_id for charge in charges])
    ((version, committed, keys),) = db.execute(_READ_KEYS, (hashes, call_ids, now))
    done = {bytes.fromhex(call_id) for call_id in _call_ids.decode(committed)}
    for index, key_id, account_id, balance, scopes, flags in _keys_decoder.decode(keys):
        account = accounts.get(account_id)
        if account is None:
            account = accounts[account_id] = _Account(account_id, balance + changes.balances[account_id])
        is_done = charges[index].call_id in done
        found[index] = _Key(
            key_id=key_id,
            account=account,
            scopes=scopes,
            flags=flags,
            done=is_done,
            version=version,
        )
    return found


def _refusal(
    db: apsw.Connection, charge: Charge, key: _Key | None, now: int
) -> ChargeRefused | Replayed | None:
    """The first reason not to charge, in the documented order; None to charge."""
    if key is None or not key.flags & _USABLE or not key.scopes & charge.scope:
        return ChargeRefused(RefusalReason.KEY)
    stale = charge.config_version != key.version
    if key.flags & _ROUTED and not db.execute(_IS_ROUTE_OF_KEY, (key.key_id, charge.route)).fetchall():
        return ChargeRefused(RefusalReason.STALE if stale else RefusalReason.ROUTE)
    if not key.scopes & charge.pays:  # a stored response needs the same scope as the call
        return ChargeRefused(RefusalReason.STALE if stale else RefusalReason.RATE)
    if charge.idempotency_key:
        oldest = now - IDEMPOTENCY_KEY_LIFE_MS
        wanted = (key.account.account_id, charge.idempotency_key.key, oldest)
        for fingerprint, answer in db.execute(_READ_STORED, wanted).fetchall():
            if fingerprint != charge.idempotency_key.fingerprint:
                return ChargeRefused(RefusalReason.REUSED)
            return ChargeRefused(RefusalReason.PENDING) if answer is None else Replayed(str(answer))
    if stale:
        return ChargeRefused(RefusalReason.STALE)
    if key.account.balance < charge.units:
        return ChargeRefused(RefusalReason.UNITS, key.account.balance)
    return None


def _open(
    db: apsw.Connection, charge: Charge, key: _Key, rate: Rate | None, changes: Changes, now: int
) -> Charged:
    account = key.account
    account.balance -= charge.units
    changes.add_entry(charge.call_id, EntryKind.CHARGE, account.account_id, key.key_id, -charge.units)
    task_id = _create_task(db, charge, account.account_id, now) if charge.task else 0
    if charge.idempotency_key:
        draft = charge.draft.replace(TASK_PLACEHOLDER, str(task_id)) if charge.draft else None
        answer = None if draft is None or AUDIO_PLACEHOLDER in draft else draft
        db.execute(_DELETE_EXPIRED_KEY, (account.account_id, charge.idempotency_key.key))
        stored = (
            charge.idempotency_key.key,
            charge.idempotency_key.fingerprint,
            charge.call_id,
            now,
            answer,
            draft,
        )
        db.execute(_INSERT_KEY, (account.account_id, *stored))
    return _charged(key, task_id, rate)


def _charged(key: _Key, task_id: int, rate: Rate | None = None) -> Charged:
    return Charged(
        account_id=key.account.account_id,
        key_id=key.key_id,
        balance=key.account.balance,
        task_id=task_id,
        rate=rate,
    )


def _create_task(db: apsw.Connection, charge: Charge, account_id: int, now: int) -> int:
    """Creates the charge's task and returns its id."""
    task = cast(NewTask, charge.task)
    deadline = now + charge.deadline_ms if task.status == TaskStatus.QUEUED else 0
    spoken = (int(task.status), task.voice_id, task.speed, task.text, task.language, len(task.text))
    db.execute(_INSERT_TASK, (account_id, charge.call_id, *spoken, now, deadline))
    return db.last_insert_rowid()
