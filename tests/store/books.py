"""The books under test: a real database with accounts and keys, and a clock that a test moves."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from myna.accounts import accounts, keys
from myna.accounts.keys import Scope
from myna.actions.accounts import AddAccount, DisableAccount
from myna.actions.keys import IssueKey, RevokeKey
from myna.lib.ids import new_id
from myna.store.batch import (
    Audio,
    CallState,
    Charge,
    Charged,
    ChargeOutcome,
    ChargeRefused,
    End,
    EndOutcome,
    IdempotencyKey,
    NewTask,
    RefusalReason,
    TaskStatus,
)
from myna.store.database import Database, Queries, Transaction
from myna.store.migrate import migrate
from myna.store.postgresql import Postgresql
from myna.store.queries import audit, audit_reports
from myna.store.queries import keys as key_store
from myna.store.rows import ID_MAX
from myna.store.sqlite import Sqlite, clock_ms
from tests.rig.actors import perform

EVERY_SCOPE = Scope.CHAT | Scope.TTS | Scope.RECORDS
FIRST_VERSION = 1
"""The site's configuration version in a new database."""
AUDIO = Audio("0123456789abcdef0123456789abcdef.mp3", 5, b"s" * 32)
DIFFERENT_AUDIO = Audio("fedcba9876543210fedcba9876543210.mp3", 6, b"t" * 32)
KEY_REFUSED = ChargeRefused(RefusalReason.KEY)


class Customer(msgspec.Struct, frozen=True):
    """An account with one API key."""

    account_id: int
    name: str
    key_id: int
    key_hash: bytes


class Books:
    """One database. `open_again` opens it as a second process does."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self._moved_ms = self._stopped_ms = self._tick_ms = 0
        self.db: Database

    async def open_again(self, *, serving: bool = True) -> Database:
        """Opens the database as another process does; with `serving=False`, as the command line does."""
        if self.url:
            return await Postgresql.open(self.url)
        return await Sqlite.open(self.folder / "myna.sqlite", serving=serving, clock=self._now_ms)

    @contextlib.asynccontextmanager
    async def second_process(self) -> AsyncIterator[Database]:
        """The database as another serving process has it. One process serves from SQLite: this one's then."""
        if not self.url:
            yield self.db
            return
        db = await self.open_again()
        try:
            yield db
        finally:
            await db.close()

    async def move_clock(self, ms: int) -> None:
        """Advances `now_ms()` by `ms`."""
        self._moved_ms += ms
        await self._set_clock()

    async def stop_clock(self) -> None:
        """Stops `now_ms()`; only `move_clock` advances it."""
        self._stopped_ms = clock_ms()
        self._tick_ms = 0
        await self._set_clock()

    async def tick_clock(self) -> None:
        """Advances `now_ms()` by one millisecond at each call and otherwise stops it, until `stop_clock`.

        Reading advances a sequence, which a read-only database can't do."""
        if self.url:
            await self.sql("CREATE SEQUENCE IF NOT EXISTS ticks")
        await self.stop_clock()
        self._tick_ms = 1
        await self._set_clock()

    def _now_ms(self) -> int:
        self._moved_ms += self._tick_ms
        return (self._stopped_ms or clock_ms()) + self._moved_ms

    async def _set_clock(self) -> None:
        if self.url:
            now = self._stopped_ms or "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
            now = f"{now} + nextval('ticks')" if self._tick_ms else now
            await self.sql(
                "CREATE OR REPLACE FUNCTION now_ms() RETURNS bigint LANGUAGE plpgsql VOLATILE AS $x$ BEGIN"
                f" RETURN {now} + {self._moved_ms}; END $x$"
            )

    async def customer(self, units: int = 10, scopes: Scope = EVERY_SCOPE, life_ms: int = 0) -> Customer:
        account = await perform(self.db, AddAccount(name=f"customer-{new_id().hex()}", units=units))
        return await self._with_key(account.id, account.name, "a key", scopes, life_ms)

    async def second_key(self, customer: Customer, scopes: Scope = EVERY_SCOPE) -> Customer:
        """The same account with another key."""
        return await self._with_key(customer.account_id, customer.name, "another key", scopes, 0)

    async def _with_key(
        self, account_id: int, account: str, name: str, scopes: Scope, life_ms: int
    ) -> Customer:
        expires_in = f"{-(-life_ms // 1000)}s" if life_ms else ""
        action = IssueKey(account=account, name=name, scope=tuple(scopes.names), expires_in=expires_in)
        issued = await perform(self.db, action)
        return Customer(account_id, account, issued.id, keys.hash_of(issued.key))

    async def charge(self, *charges: Charge) -> list[ChargeOutcome]:
        """Commits these charges in one batch."""
        return (await self.db.commit_batch([], charges))[1]

    async def charged_by_two(self, charges: Sequence[Charge]) -> list[ChargeOutcome]:
        """The outcomes of these charges, of which another process commits the second half concurrently."""
        second, middle = await self.open_again(), len(charges) // 2
        for _ in range(20):  # a batch leaves out what the other one has locked
            results = await asyncio.gather(
                self.db.commit_batch([], charges[:middle]),
                second.commit_batch([], charges[middle:], contended=True),
            )
            found = [outcome for _, charged in results for outcome in charged]
            if ChargeRefused(RefusalReason.BUSY) not in found:
                break
        await second.close()
        return found

    async def end(self, *ends: End) -> list[EndOutcome]:
        """Commits these ends in one batch."""
        return (await self.db.commit_batch(ends, []))[0]

    async def opened(self, customer: Customer, **changes: Any) -> Charge:
        """Commits a charge and returns it."""
        new = charge_of(customer, **changes)
        (outcome,) = await self.charge(new)
        assert isinstance(outcome, Charged), outcome
        return new

    async def balance(self, customer: Customer) -> int:
        return (await accounts.find(self.db, customer.name)).balance

    async def counters(self, customer: Customer) -> tuple[int, int, int]:
        """Calls, delivered calls and cost of the customer's key."""
        return structs.astuple(await key_store.usage(self.db, customer.key_id))  # type: ignore[return-value]

    async def entries(self, call_id: bytes) -> list[tuple[int, int]]:
        """Kind and units of the call's ledger entries."""
        return await self.sql("SELECT kind, units FROM ledger WHERE call_id = $1 ORDER BY kind", call_id)

    async def state(self, call_id: bytes) -> CallState | None:
        rows = await self.sql("SELECT state FROM calls WHERE id = $1", call_id)
        return CallState(rows[0][0]) if rows else None

    async def task(self, call_id: bytes) -> tuple[Any, ...]:
        """Status, audio, its size, its SHA-256 and the reason of the call's task."""
        (row,) = await self.sql(
            "SELECT status, audio, audio_bytes, audio_sha256, reason FROM tasks WHERE call_id = $1", call_id
        )
        return row

    async def answer(self, call_id: bytes) -> list[tuple[Any, ...]]:
        """The stored answer of the call's idempotency_key, if it has one."""
        return await self.sql("SELECT answer FROM reservations WHERE call_id = $1", call_id)

    async def sql(self, text: str, *args: object) -> list[tuple[Any, ...]]:
        async def work(connection: Transaction) -> list[tuple[Any, ...]]:
            return [tuple(row) for row in await connection.fetch(text, *args)]

        return await self.db.transaction(work)

    async def audit(self) -> list[audit.Breach]:
        """Every rule, from the first entry on, in one snapshot and without a checkpoint."""

        return await self.db.snapshot(broken_rules)


@contextlib.asynccontextmanager
async def books_of(url: str, folder: Path, *, damaged: bool = False) -> AsyncIterator[Books]:
    """New books; `url` is a PostgreSQL database, empty for SQLite. At the end an audit must find nothing, if
    they weren't damaged on purpose."""
    books = Books(url, folder)
    if not url:
        file = folder / "myna.sqlite"
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(0o600)
        file.write_bytes(_empty_sqlite())
    books.db = await books.open_again()
    try:
        await migrate(books.db)
        yield books
        assert damaged or await books.audit() == []
    finally:
        await books.db.close()


@cache
def _empty_sqlite() -> bytes:
    """A database file with the schema in it, whose copy takes a fifth of the time of the migrations."""
    with ThreadPoolExecutor(1) as pool:  # the caller's thread has a running event loop
        return pool.submit(asyncio.run, _migrated()).result()


async def _migrated() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "myna.sqlite"
        db = await Sqlite.open(file, serving=True)
        await migrate(db)
        await db.close()
        assert [found.name for found in file.parent.glob("myna.sqlite*")] == [file.name]
        return file.read_bytes()


async def broken_rules(db: Queries) -> list[audit.Breach]:
    """Every rule that is broken, as this transaction sees the books."""
    found = await audit.broken_in(db, audit.FIRST, audit.LAST) + await audit.broken_now(db)
    for rule in audit.SUM_RULES:
        found += audit.breach_of(rule, await audit.wrong_sums(db, 0, ID_MAX, rule=rule, full=True))
    return found + await broken_reports(db, {breach.rule for breach in found})


async def broken_reports(db: Queries, broken: set[str]) -> list[audit.Breach]:
    """The rules on the tables of the reports that are broken, besides these."""
    everyone = (db, 0, ID_MAX)
    wrong = {
        audit_reports.ENTRIES_RULE: await audit_reports.missing_entries(db, audit.FIRST, audit.LAST),
        audit_reports.SUMS_RULE: await audit_reports.wrong_sums(*everyone),
        audit_reports.RUNNING_RULE: await audit_reports.wrong_running_sums(*everyone),
        audit_reports.HOURS_RULE: await audit_reports.wrong_hours(*everyone, full=True),
        audit_reports.DAYS_RULE: await audit_reports.wrong_days(*everyone, full=True),
        audit_reports.SITE_RULE: await audit_reports.wrong_site_hours(db, full=True),
    }
    if audit.BALANCE_RULE in broken:
        del wrong[audit_reports.SUMS_RULE]
    if audit.USAGE_RULE in broken:
        del wrong[audit_reports.HOURS_RULE]
    return [breach for rule, lines in wrong.items() for breach in audit.breach_of(rule, lines)]


async def revoke(db: Database, customer: Customer) -> None:
    await perform(db, RevokeKey(key=str(customer.key_id)))


async def disable(db: Database, customer: Customer) -> None:
    await perform(db, DisableAccount(name=customer.name, force=True))


def charged_of(customer: Customer, balance: int, task_id: int = 0) -> Charged:
    """The outcome of a charge after which the account has this `balance`."""
    return Charged(account_id=customer.account_id, key_id=customer.key_id, balance=balance, task_id=task_id)


def charge_of(customer: Customer, **changes: Any) -> Charge:
    """A chat call of one unit with a deadline of a minute; `changes` are fields of `Charge`."""
    plain = Charge(
        call_id=new_id(),
        key_hash=customer.key_hash,
        scope=int(Scope.CHAT),
        pays=int(Scope.CHAT),
        units=1,
        deadline_ms=60_000,
        config_version=FIRST_VERSION,
    )
    return msgspec.structs.replace(plain, **changes)


def keep_of(call: Charge, answer: str | None = None, audio: Audio | None = None) -> End:
    return End(call_id=call.call_id, state=CallState.KEPT, answer=answer, audio=audio)


def refund_of(call: Charge, reason: str = "") -> End:
    return End(call.call_id, CallState.REFUNDED, reason=reason)


def idempotency_key_of(key: str = "an order", body: str = "a body") -> IdempotencyKey:
    return IdempotencyKey(key, body.encode().ljust(32, b"."))


def speech(status: TaskStatus = TaskStatus.PROCESSING, text: str = "你好 👋") -> NewTask:
    return NewTask(text=text, voice_id="a voice", speed=1.5, status=status)


BREAK_REFUNDS = {
    "sqlite": "CREATE TRIGGER no_refund BEFORE INSERT ON ledger WHEN new.kind = 1"
    " BEGIN SELECT RAISE(ABORT, 'refunds are out of order'); END",
    "postgresql": "CREATE FUNCTION no_refund() RETURNS trigger LANGUAGE plpgsql AS $$"
    " BEGIN RAISE EXCEPTION 'refunds are out of order'; END $$;"
    " CREATE TRIGGER no_refund BEFORE INSERT ON ledger FOR EACH ROW WHEN (new.kind = 1)"
    " EXECUTE FUNCTION no_refund()",
}


@contextlib.asynccontextmanager
async def broken_refunds(books: Books) -> AsyncIterator[None]:
    """Inside, the database refuses every refund."""
    await books.db.transaction(lambda connection: connection.run_script(BREAK_REFUNDS[books.db.dialect]))
    try:
        yield
    finally:
        await books.sql("DROP TRIGGER no_refund" + (" ON ledger" if books.url else ""))
        if books.url:
            await books.sql("DROP FUNCTION no_refund")
