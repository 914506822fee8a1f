"""Checks every invariant of the books, and that the audio of completed tasks exists.

An audit checks what became final since the last one, in steps of one snapshot each, and adds ranges without a
breach to a checkpoint. Then it checks the open range, and every balance and counter against the sums of the
checkpoint and of the open range, in one snapshot. Its cost grows with the calls since the last audit and with
the accounts, not with the whole books. A full audit ignores the checkpoint and starts at the first entry.

The checkpoint never covers a range with a breach, so every audit reports it again.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
from msgspec import Struct

from myna.config import unreadable
from myna.lib.ids import millis_of
from myna.store.database import Database, Queries, Transaction
from myna.store.files.named_files import AudioStore
from myna.store.queries import audit as store
from myna.store.queries import audit_reports, audit_state
from myna.store.queries import config as config_store
from myna.store.queries.audit import FIRST, LAST, Breach, Counts, breach_of
from myna.store.rows import ID_MAX

STEP_ENTRIES = 5_000
"""Ledger entries of one step: a snapshot of some 50 ms."""
HOLDERS_PAGE = 100_000
STEP_TIMEOUT_S = 60.0
"""Timeout of a query on one step. It ends an audit on a dead connection, whose claim then expires."""
OPEN_TIMEOUT_S = 300.0
"""Timeout of a query on the open range or on all accounts, which may cover a day's calls."""
_FILES_PAGE = 1000
SETTINGS_RULE = "a stored site setting can be read by this build"
AUDIO_RULE = "a completed task's audio is in the store, whole"


class Report(Struct, frozen=True):
    """The result of an audit. It read `checked`; `before` was covered by the checkpoint at its start, which
    are the calls with ids below `since`."""

    breaches: list[Breach]
    full: bool
    accounts: int
    keys: int
    checked: Counts
    before: Counts
    since: bytes

    @property
    def since_ms(self) -> int:
        """`since` in Unix milliseconds; 0 if everything was checked."""
        return millis_of(self.since)

    @property
    def breach_count(self) -> int:
        return sum(breach.count for breach in self.breaches)


async def run(db: Database, audio: AudioStore, *, full: bool = False, hash_audio: bool = False) -> Report:
    """Audits and records the result. `full` ignores the checkpoint; `hash_audio` hashes the audio files
    too."""
    report = await _Audit(db, audio, full=full, hash_audio=hash_audio).run()
    counted = msgspec.json.encode(counted_of(report)).decode()
    await db.transaction(partial(audit_state.finish, breaches=report.breach_count, counted=counted))
    return report


def counted_of(report: Report) -> dict[str, int]:
    """How many rows an audit checked, by kind."""
    return {"accounts": report.accounts, "keys": report.keys, **msgspec.structs.asdict(report.checked)}


class _Audit:
    """One run. Calls below `_position` are checked."""

    def __init__(self, db: Database, audio: AudioStore, *, full: bool, hash_audio: bool) -> None:
        self._db = db
        self._audio = audio
        self._full = full
        self._hash_audio = hash_audio
        self._advancing = not full
        self._position = FIRST
        self._checked = Counts()
        self._breaches: list[Breach] = []

    async def run(self) -> Report:
        end = await close(self._db)
        begin = await audit_state.state(self._db)
        if not self._full:
            self._position = begin.closed_until
        await self._walk(end)
        await self._check(self._position, LAST)
        self._breaches += await self._db.snapshot(store.broken_now, query_max_s=OPEN_TIMEOUT_S)
        accounts, keys = [
            await self._pages(table, rule, partial(store.wrong_sums, rule=rule, full=self._full))
            for rule, (table, _) in store.SUM_RULES.items()
        ]
        await self._check_reports()
        if self._full:
            wrong = await self._db.snapshot(store.wrong_checkpoint, query_max_s=OPEN_TIMEOUT_S)
            self._breaches += breach_of(store.CHECKPOINT_RULE, wrong)
        if self._full and self._breaches:  # so that every later audit finds it too
            await self._db.transaction(audit_state.drop)
        unreadable_settings = unreadable(await config_store.load(self._db))
        self._breaches += breach_of(SETTINGS_RULE, list(map(str, unreadable_settings)))
        return Report(
            breaches=_merged(self._breaches),
            full=self._full,
            accounts=accounts,
            keys=keys,
            checked=self._checked,
            before=Counts() if self._full else begin.counts,
            since=FIRST if self._full else begin.closed_until,
        )

    async def _walk(self, end: bytes) -> None:
        """Checks the final ranges up to `end`, and advances the checkpoint until the first breach, or until a
        concurrent audit has moved it."""
        while self._position < end:
            start = self._position
            until = await audit_state.step_end(self._db, start, end, STEP_ENTRIES)
            whole, counts = await self._check(start, until)
            if self._advancing:
                advance = partial(audit_state.advance, start=start, end=until, counts=counts)
                self._advancing = whole and await self._db.transaction(advance)
            self._position = until

    async def _check(self, start: bytes, end: bytes) -> tuple[bool, Counts]:
        """Checks a range. Returns whether it has no breach, and its counts."""

        async def read(db: Queries) -> tuple[list[Breach], Counts]:
            missing = await audit_reports.missing_entries(db, start, end)
            found = await store.broken_in(db, start, end) + breach_of(audit_reports.ENTRIES_RULE, missing)
            return found, await store.count(db, start, end)

        query_max_s = OPEN_TIMEOUT_S if end == LAST else STEP_TIMEOUT_S
        breaches, counts = await self._db.snapshot(read, query_max_s=query_max_s)
        wrong, files = await self._check_files(start, end)
        breaches += breach_of(AUDIO_RULE, wrong)
        counts = msgspec.structs.replace(counts, files=files)
        self._checked = self._checked.plus(counts)
        self._breaches += breaches
        return not breaches, counts

    async def _pages(
        self, table: str, rule: str, wrong_in: Callable[[Queries, int, int], Awaitable[list[str]]]
    ) -> int:
        """Checks the balances or counters of all rows, one snapshot per page. Returns how many rows.
        `wrong_in` returns a line for each wrong row with an id above the first number, up to the second."""
        wrong: list[str] = []
        rows = after = 0

        async def read(db: Queries) -> tuple[int, int, list[str]]:
            last, found = await store.page_end(db, table, after, HOLDERS_PAGE)
            return last, found, await wrong_in(db, after, last)

        while after < ID_MAX:
            after, found, lines = await self._db.snapshot(read, query_max_s=OPEN_TIMEOUT_S)
            rows += found
            wrong += lines
        self._breaches += breach_of(rule, wrong)
        return rows

    async def _check_reports(self) -> None:
        """Checks the tables of the reports, against balances and counters only where these are right. A full
        audit also sums all entries."""
        broken = {breach.rule for breach in self._breaches}
        if store.BALANCE_RULE not in broken:
            await self._pages("accounts", audit_reports.SUMS_RULE, audit_reports.wrong_sums)
        if store.USAGE_RULE not in broken:
            await self._pages(
                "accounts", audit_reports.HOURS_RULE, partial(audit_reports.wrong_hours, full=self._full)
            )
        await self._pages(
            "accounts", audit_reports.DAYS_RULE, partial(audit_reports.wrong_days, full=self._full)
        )
        if self._full:
            await self._pages("accounts", audit_reports.RUNNING_RULE, audit_reports.wrong_running_sums)
        wrong = await self._db.snapshot(
            partial(audit_reports.wrong_site_hours, full=self._full), query_max_s=OPEN_TIMEOUT_S
        )
        self._breaches += breach_of(audit_reports.SITE_RULE, wrong)

    async def _check_files(self, start: bytes, end: bytes) -> tuple[list[str], int]:
        """Checks the audio of the tasks in this range. Returns a line per fault, and the number of files."""
        wrong: list[str] = []
        files = 0
        while page := await store.audio_page(self._db, start, end, _FILES_PAGE):
            look = partial(_fault, self._audio, hash_audio=self._hash_audio)
            faults = await asyncio.to_thread(self._audio.each, look, page)
            found = [
                (row[1], f"task {row[1]}: {row[2]} {fault}")
                for row, fault in zip(page, faults, strict=True)
                if fault
            ]
            if found:  # audio removed for its age during the check is no breach
                remaining = {row[1] for row in await store.audio_page(self._db, start, end, _FILES_PAGE)}
                wrong += [line for task_id, line in found if task_id in remaining]
            files += len(page)
            start = page[-1][0] + b"\0"
        return wrong, files


async def close(db: Database) -> bytes:
    """Raises the fence to now. Returns the id below which all is final; FIRST if a transaction that may
    still write below the fence takes too long."""

    async def step(connection: Transaction) -> bytes:
        await audit_state.raise_fence(connection, await audit_state.next_fence(connection))
        return await audit_state.fence(connection)

    fence = await db.transaction(step)
    if not await db.writers_ended():
        return FIRST
    return await audit_state.closable_until(db, fence)  # another audit may have raised it since


def _merged(breaches: list[Breach]) -> list[Breach]:
    """Merges breaches of the same rule."""
    found: dict[str, Breach] = {}
    for one in breaches:
        before = found.get(one.rule, Breach(one.rule, 0, []))
        examples = (before.examples + one.examples)[: store.SHOWN_MAX]
        found[one.rule] = Breach(one.rule, before.count + one.count, examples)
    return list(found.values())


def _fault(audio: AudioStore, row: store.AudioRow, *, hash_audio: bool) -> str:
    """What is wrong with the audio of a task; "" if nothing is."""
    _, _, name, size, sha256 = row
    try:
        stored = audio.stat(name)
        if stored is None:
            return "is missing"
        if stored.size_bytes != size:
            return "has another size"
        if hash_audio and hashlib.sha256(audio.read(name, 0, size)).digest() != sha256:
            return "has another SHA-256"
    except FileNotFoundError:
        return "is missing"
    return ""
