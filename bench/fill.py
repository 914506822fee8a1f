"""Fills a database quickly with accounts, keys, calls, ledger entries and records, the books whole.

Rows go in past the batch, in bulk and without fsync, but in the real schema: `myna audit` finds nothing.
Key number n has the plain key `load.KEY_FORMAT % n` and belongs to account (n - 1) % accounts + 1. Half of
all calls are those of key 1, so that one account has records enough to page through; each call is a speech
job whose audio was cleaned away, one in a hundred failed and was refunded.
"""

import hashlib
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import asyncpg

from bench.load import KEY_FORMAT
from myna.accounts.keys import PREFIX, Scope, hash_of
from myna.accounts.sign_in import passwords
from myna.billing import rollup
from myna.lib.ids import new_id
from myna.lib.times import hour_of
from myna.settings import Settings
from myna.store.batch import CallState, EntryKind, TaskStatus
from myna.store.database import connect
from myna.store.migrate import migrate
from myna.store.sqlite import SqliteConnection, clock_ms

UNITS = 10**12
CHUNK = 50_000
OUTBOX_CALLS = 500
"""The calls of one row of the outbox."""
FAILS_EVERY = 100
READER = 1
"""The account and the key that have half of all calls."""
TEXT = "今天天气很好，我们一起去公园散步，好吗？"

_MAKE_OPERATOR = "UPDATE accounts SET operator = 1 WHERE id = $1"
_AUDIO_BYTES = 12_000
_CALL_LIFE_MS = 130_000
_SCOPES = int(Scope.CHAT | Scope.TTS | Scope.RECORDS)

_COLUMNS = {
    "accounts": "id, name, email, operator, balance, created_at",
    "keys": "id, account_id, name, hash, masked, scopes, created_at, expires_at",
    "key_usage": "key_id, calls, ok_calls, cost",
    "calls": "id, account_id, key_id, pays, units, state, created_at, deadline, ended_at",
    "ledger": "call_id, kind, account_id, units, memo, created_at",
    "outbox": "id, at, size, entries, ended",
    "tasks": (
        "id, account_id, call_id, status, voice_id, speed, text, chars, audio, audio_bytes, audio_sha256,"
        " audio_removed_at, reason, created_at, ended_at"
    ),
}

Row = tuple[object, ...]
Insert = Callable[[str, Sequence[Row]], Awaitable[None]]


class Size(NamedTuple):
    """How much of everything; `rows` calls, each with its ledger entries and its record. With a `password`
    READER is an operator who can sign in with it."""

    accounts: int = 64
    keys: int = 1000
    rows: int = 0
    password: str = ""


class Rows:
    """The rows of a database, and the sums of accounts and keys that must match them."""

    def __init__(self, size: Size) -> None:
        self.size = size
        self._calls: Counter[int] = Counter()
        self._kept: Counter[int] = Counter()
        self._charged: Counter[int] = Counter()

    def chunks(self) -> Iterator[dict[str, list[Row]]]:
        """Rows by table, calls before what refers to them; accounts and keys with their sums at the end."""
        for numbers in _parts(range(self.size.rows), OUTBOX_CALLS):
            yield self._calls_of(numbers)
        yield from self._accounts_and_keys()

    def account_of(self, key: int) -> int:
        return (key - 1) % self.size.accounts + 1

    def _calls_of(self, numbers: range) -> dict[str, list[Row]]:
        calls: list[Row] = []
        ledger: list[Row] = []
        tasks: list[Row] = []
        entries: list[Row] = []
        ends: list[Row] = []
        now = clock_ms()
        for number in numbers:
            key = READER if number % 2 == 0 else number // 2 % self.size.keys + 1
            account, failed = self.account_of(key), number % FAILS_EVERY == FAILS_EVERY - 1
            call_id = new_id()
            state = CallState.REFUNDED if failed else CallState.KEPT
            self._calls[key] += 1
            self._kept[key] += not failed
            self._charged[account] += not failed
            row = (call_id, account, key, int(Scope.TTS), 1, int(state))
            calls.append((*row, now, now + _CALL_LIFE_MS, now))
            for kind in (EntryKind.CHARGE, EntryKind.REFUND) if failed else (EntryKind.CHARGE,):
                units = -1 if kind is EntryKind.CHARGE else 1
                ledger.append((call_id, int(kind), account, units, "", now))
                entries.append((call_id.hex(), int(kind), account, key, units))
            ends.append((account, key, int(Scope.TTS), int(state), 1, 0, ""))
            tasks.append(_task(number + 1, account, call_id, failed, now))
        outbox = _outbox(entries, [hour_of(now, 0), *zip(*ends, strict=True)], len(entries) + len(ends), now)
        return {"calls": calls, "ledger": ledger, "tasks": tasks, "outbox": [outbox]}

    def _accounts_and_keys(self) -> Iterator[dict[str, list[Row]]]:
        now = clock_ms()
        for numbers in _parts(range(1, self.size.accounts + 1)):
            accounts: list[Row] = [
                (number, f"bench-{number}", "", 0, UNITS - self._charged[number], now) for number in numbers
            ]
            grant, granted = int(EntryKind.GRANT), [(new_id(), number) for number in numbers]
            grants: list[Row] = [(one, grant, number, UNITS, "bench", now) for one, number in granted]
            entries: list[Row] = [(one.hex(), grant, number, 0, UNITS) for one, number in granted]
            outbox = _outbox(entries, [], len(entries), now)
            yield {"accounts": accounts, "ledger": grants, "outbox": [outbox]}
        for numbers in _parts(range(1, self.size.keys + 1)):
            yield {
                "keys": [self._key(number, now) for number in numbers],
                "key_usage": [self._usage(number) for number in numbers if self._calls[number]],
            }

    def _key(self, number: int, now: int) -> Row:
        plain = KEY_FORMAT % number
        masked = plain[: len(PREFIX) + 6] + "***"
        owner = (number, self.account_of(number), "bench", hash_of(plain), masked, _SCOPES)
        return (*owner, now, 0)

    def _usage(self, number: int) -> Row:
        return number, self._calls[number], self._kept[number], self._kept[number]


def _task(number: int, account: int, call_id: bytes, failed: bool, now: int) -> Row:
    job = (number, account, call_id)
    said = ("zh-female-1", 1.0, TEXT, len(TEXT))
    if failed:
        return (*job, int(TaskStatus.FAILED), *said, "", 0, b"", 0, "bench", now, now)
    sha256 = hashlib.sha256(call_id).digest()
    audio = (call_id.hex() + ".mp3", _AUDIO_BYTES, sha256, now)
    return (*job, int(TaskStatus.COMPLETED), *said, *audio, "", now, now)


def _outbox(entries: list[Row], ended: list[object], size: int, now: int) -> Row:
    """As a batch writes it: `size` is how many entries and ended calls it has."""
    return new_id(), now, size, json.dumps(entries), json.dumps(ended)


def _parts(numbers: range, count: int = CHUNK) -> Iterator[range]:
    for first in range(0, len(numbers), count):
        yield numbers[first : first + count]


async def fill(database_url: str, data: Path, size: Size) -> None:
    """Makes the schema and fills it: SQLite in the folder `data` where `database_url` is empty."""
    db = await connect(Settings(data=str(data), database_url=database_url))
    try:
        await migrate(db)
    finally:
        await db.close()
    opened = _postgresql(database_url) if database_url else _sqlite(data)
    async with opened as insert:
        for tables in Rows(size).chunks():
            for table, rows in tables.items():
                await insert(table, rows)
    db = await connect(Settings(data=str(data), database_url=database_url))
    try:
        await rollup.roll(db, "UTC")
        if size.password:
            await db.transaction(lambda connection: connection.fetch(_MAKE_OPERATOR, READER))
            hashed = await passwords.hash_of(size.password)
            await db.transaction(lambda connection: passwords.replace(connection, READER, hashed))
    finally:
        await db.close()


@asynccontextmanager
async def _sqlite(data: Path) -> AsyncIterator[Insert]:
    raw = SqliteConnection(data / "myna.sqlite", clock_ms, read_only=False).raw
    raw.pragma("synchronous", "OFF")

    async def insert(table: str, rows: Sequence[Row]) -> None:
        columns = _COLUMNS[table]
        placeholders = ", ".join("?" * (columns.count(",") + 1))
        with raw:
            raw.executemany(f"INSERT INTO {table} ({columns}) VALUES ({placeholders})", rows)

    yield insert
    raw.pragma("synchronous", "FULL")
    raw.wal_checkpoint(mode=3)
    raw.close()


@asynccontextmanager
async def _postgresql(url: str) -> AsyncIterator[Insert]:
    raw = await asyncpg.connect(url)

    async def insert(table: str, rows: Sequence[Row]) -> None:
        await raw.copy_records_to_table(table, records=rows, columns=_COLUMNS[table].split(", "))

    try:
        yield insert
        for table in ("accounts", "keys", "tasks"):
            await raw.execute(
                f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) + 1 FROM {table}))"
            )
        await raw.execute("VACUUM ANALYZE")
        await _read_in(raw)
    finally:
        await raw.close()


async def _read_in(raw: asyncpg.Connection) -> None:
    """Keys and the index by which a call finds them, as on a site that has run for a while: COPY and VACUUM
    leave little of a large table among the server's pages."""
    await raw.execute("SET enable_seqscan = off")
    await raw.fetchval("SELECT count(name) FROM (SELECT name FROM keys ORDER BY hash OFFSET 0) AS found")
