"""An audit continues where the last one ended and loses no breach; a full one trusts no checkpoint."""

import asyncio
import contextlib

import asyncpg
import pytest

from myna.actions.accounts import GrantUnits
from myna.billing import audit, rollup
from myna.billing.audit import AUDIO_RULE, Report
from myna.lib.ids import first_of, millis_of, new_id
from myna.store import postgresql
from myna.store.batch import Audio, CallState, Charge, Charged, ChargeRefused, End, RefusalReason
from myna.store.database import Database, Transaction
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import Folder
from myna.store.postgresql import Postgresql
from myna.store.queries import audit_state
from myna.store.queries.audit import CHECKPOINT_RULE, FIRST, Counts
from myna.store.sqlite import clock_ms
from tests.ledger.ledger_service import ledger_service_on
from tests.rig.actors import perform
from tests.store.books import FIRST_VERSION, Books, Customer, charge_of, keep_of, refund_of, speech
from tests.store.postgres_proxy import proxy_to

YEAR_MS = 365 * 86_400_000
PAUSE_S = 0.005  # between the calls of a lane, so that an audit may catch up with them


def audio_of(books: Books) -> AudioStore:
    return AudioStore(Folder(books.folder))


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three calls to a step, two accounts or keys to a page."""
    monkeypatch.setattr(audit, "STEP_ENTRIES", 6)
    monkeypatch.setattr(audit, "HOLDERS_PAGE", 2)


async def audited(books: Books, *, full: bool = False) -> Report:
    """An audit of all calls so far: the fence is the first id of a millisecond, and within one millisecond
    ids have no order."""
    await next_millisecond()
    return await audit.run(books.db, audio_of(books), full=full)


def rules(report: Report) -> list[str]:
    return [breach.rule for breach in report.breaches]


async def calls(books: Books, customer: Customer, count: int) -> list[Charge]:
    """`count` calls that ended, every third refunded. Each has its own millisecond, so ids ascend."""
    made = []
    for _ in range(count):
        await next_millisecond()
        made.append(await books.opened(customer, config_version=await version(books)))
    for number, call in enumerate(made):
        await books.end(refund_of(call) if number % 3 == 2 else keep_of(call))
    return made


async def next_millisecond() -> None:
    now = clock_ms()
    while clock_ms() == now:  # noqa: ASYNC110 - a clock has no event
        await asyncio.sleep(0)


async def version(books: Books) -> int:
    ((found,),) = await books.sql("SELECT version FROM site")
    return int(found)


async def test_an_audit_reads_what_is_new_since_the_last_one(books: Books) -> None:
    customer = await books.customer(units=100)
    await calls(books, customer, 10)
    first = await audited(books)
    assert (first.breaches, first.accounts, first.keys) == ([], 1, 1)
    assert (first.checked, first.before) == (Counts(10, 14, 0, 0), Counts())

    await calls(books, customer, 2)
    second = await audited(books)
    assert second.breaches == []
    assert (second.checked, second.before) == (Counts(2, 2, 0, 0), Counts(10, 14, 0, 0))
    assert abs(second.since_ms - clock_ms()) < 60_000

    full = await audited(books, full=True)
    assert (full.breaches, full.checked, full.before) == ([], Counts(12, 16, 0, 0), Counts())


async def test_calls_older_than_the_oldest_open_call_are_below_the_checkpoint(books: Books) -> None:
    customer = await books.customer(units=100)
    await calls(books, customer, 4)
    await next_millisecond()  # within one, ids are in no order
    open_call = await books.opened(customer)
    await next_millisecond()
    await calls(books, customer, 4)
    await audited(books)
    assert (await audited(books)).checked.calls == 5
    await books.end(keep_of(open_call))
    assert (await audited(books)).checked.calls == 5
    assert (await audited(books)).checked.calls == 0


async def test_a_breach_is_found_by_every_audit_until_it_is_repaired(books: Books) -> None:
    customer, other = await books.customer(units=100), await books.customer(units=100)
    await calls(books, customer, 4)
    broken = (await calls(books, other, 4))[0]
    await calls(books, customer, 8)
    await books.sql("UPDATE calls SET units = 7 WHERE id = $1", broken.call_id)
    for _ in range(3):
        found = await audited(books)
        assert len(found.breaches) == 2
        assert rules(found)[0].startswith("a call has exactly one charge")
        assert rules(found)[1].startswith("a key counts its calls")
        assert found.checked.calls >= 9
        await calls(books, other, 1)
    assert not rules(await audited(books, full=True))[2:]
    await books.sql("UPDATE calls SET units = 1 WHERE id = $1", broken.call_id)
    assert (await audited(books)).breaches == []
    assert (await audited(books)).checked.calls == 0


async def test_balances_and_counters_of_any_age_are_checked(books: Books) -> None:
    customers = [await books.customer(units=100) for _ in range(5)]
    for customer in customers:
        await calls(books, customer, 2)
    await audited(books)
    for customer in (customers[0], customers[4]):
        await books.sql("UPDATE accounts SET balance = balance - 1 WHERE id = $1", customer.account_id)
        await books.sql("UPDATE key_usage SET cost = cost + 1 WHERE key_id = $1", customer.key_id)
    found = await audited(books)
    assert [breach.count for breach in found.breaches] == [2, 2]
    await books.sql("UPDATE accounts SET balance = 98")
    await books.sql("UPDATE key_usage SET cost = 2")
    assert (await audited(books)).breaches == []


async def test_a_change_below_the_checkpoint_is_found_by_a_full_audit_and_later_ones(books: Books) -> None:
    customer = await books.customer(units=100)
    first = (await calls(books, customer, 9))[0]
    await audited(books)
    await books.sql("UPDATE calls SET units = 2 WHERE id = $1", first.call_id)
    assert (await audited(books)).breaches == []
    full = await audited(books, full=True)
    assert CHECKPOINT_RULE in rules(full)
    assert any(rule.startswith("a call has exactly one charge") for rule in rules(full))
    for _ in range(2):
        assert any(rule.startswith("a call has") for rule in rules(await audited(books)))
    await books.sql("UPDATE calls SET units = 1 WHERE id = $1", first.call_id)


@pytest.mark.parametrize("change", ["audit_accounts SET units", "audit_keys SET cost"])
async def test_a_checkpoint_that_differs_is_found_and_deleted(books: Books, change: str) -> None:
    await calls(books, await books.customer(units=100), 9)
    await audited(books)
    column = change.split()[-1]
    await books.sql(f"UPDATE {change} = {column} + 1")
    assert (await audited(books)).breaches != []
    assert rules(await audited(books, full=True)) == [CHECKPOINT_RULE]
    assert (await audited(books)).breaches == []


async def test_audio_is_checked_once_and_by_every_full_audit(books: Books) -> None:
    customer = await books.customer()
    call = await books.opened(customer, task=speech())
    name, path = audio_of(books).new()
    await asyncio.to_thread(path.parent.mkdir, parents=True, exist_ok=True)
    await asyncio.to_thread(path.write_bytes, b"sound")
    await books.end(keep_of(call, None, Audio(name, 5, b"s" * 32)))
    assert (await audited(books)).checked.files == 1
    await asyncio.to_thread(path.unlink)
    assert (await audited(books)).breaches == []
    assert rules(await audited(books, full=True)) == [AUDIO_RULE]
    assert rules(await audited(books)) == [AUDIO_RULE]
    await books.sql("UPDATE tasks SET audio_removed_at = 1")


async def test_a_charge_decided_under_an_older_fence_is_decided_again_above_it(books: Books) -> None:
    customer = await books.customer(units=100)
    async with ledger_service_on(books.db) as service:
        await service.admit(customer)
        await audited(books)
        (outcome,) = await books.charge(charge_of(customer, config_version=FIRST_VERSION))
        assert outcome == ChargeRefused(RefusalReason.STALE)
        await _fence_in(books, YEAR_MS)  # as if this process's clock were a year late
        call = await service.admit(customer)
        ((fence,),) = await books.sql("SELECT closed_before FROM site")
        assert call.id >= bytes(fence) > first_of(clock_ms())
        for (call_id,) in await books.sql("SELECT id FROM calls WHERE state = 0"):
            await books.end(keep_of(charge_of(customer, call_id=bytes(call_id))))


async def test_a_grant_is_never_below_the_fence(books: Books) -> None:
    customer = await books.customer(units=100)
    await _fence_in(books, YEAR_MS)
    await perform(books.db, GrantUnits(name=customer.name, units=5))
    ((newest,),) = await books.sql("SELECT call_id FROM ledger WHERE kind = 2 AND units = 5")
    assert millis_of(bytes(newest)) > clock_ms() + YEAR_MS // 2


async def _fence_in(books: Books, ms: int) -> None:
    await books.sql("UPDATE site SET closed_before = $1, version = version + 1", first_of(clock_ms() + ms))


async def test_a_range_with_an_open_transaction_is_not_closed(
    postgres_books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    books = postgres_books
    customer, other = await books.customer(units=100), await books.customer(units=100)
    await calls(books, customer, 3)
    granted, committing = asyncio.Event(), asyncio.Event()
    entry_id = first_of(clock_ms() - 5000)

    async def late(connection: Transaction) -> None:
        await connection.fetch("UPDATE accounts SET balance = balance + 1 WHERE id = $1", other.account_id)
        granted.set()
        await committing.wait()
        await connection.fetch(
            "INSERT INTO ledger (call_id, kind, account_id, units, created_at) VALUES ($1, 2, $2, 1, 1)",
            entry_id, other.account_id,
        )  # fmt: skip
        await connection.fetch(
            "INSERT INTO outbox (id, at, size, entries, ended) VALUES ($1, 1, 1, $2, '[]')",
            entry_id, f'[["{entry_id.hex()}", 2, {other.account_id}, 0, 1]]',
        )  # fmt: skip

    writing = asyncio.create_task(books.db.transaction(late))
    await granted.wait()
    with monkeypatch.context() as patched:
        patched.setattr(postgresql, "WRITERS_WAIT_S", 0.2)
        assert (await audited(books)).breaches == []
    assert (await audit_state.state(books.db)).closed_until == FIRST
    committing.set()
    await writing
    assert (await audited(books)).breaches == []
    assert (await audit_state.state(books.db)).counts.entries == 7


async def test_concurrent_audits_under_load_find_no_breach(
    books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "STEP_ENTRIES", 60)
    second = await books.open_again(serving=False)
    over = asyncio.Event()

    async def audits(db: Database, *, full: bool) -> list[Report]:
        found = []
        for _ in range(3):
            with contextlib.suppress(RuntimeError):  # the others were always ahead
                found.append(await audit.run(db, audio_of(books), full=full))
        return found

    customers = [await books.customer(units=10_000) for _ in range(2)]
    traffic = [
        asyncio.create_task(_calls_until(over, db, books, customer))
        for db, customer in zip((books.db, second), customers, strict=True)
    ]
    folding = asyncio.create_task(_roll_until(over, second))
    reports = await asyncio.gather(
        audits(books.db, full=False), audits(second, full=False), audits(second, full=True)
    )
    over.set()
    await folding
    assert all(await asyncio.gather(*traffic))
    assert [report.breaches for some in reports for report in some if report.breaches] == []
    assert sum(len(some) for some in reports) > 3
    assert (await audited(books, full=True)).breaches == []
    await second.close()


async def _roll_until(over: asyncio.Event, db: Database) -> None:
    """Folds the outbox until the event."""
    while not over.is_set():
        await rollup.roll(db, "UTC")
        await asyncio.sleep(0.05)


async def _calls_until(over: asyncio.Event, db: Database, books: Books, customer: Customer) -> int:
    """Makes calls on this connection until the event; returns how many ended."""
    done = 0
    while not over.is_set():
        charge = charge_of(customer, config_version=await version(books))
        (outcome,) = (await db.commit_batch([], [charge]))[1]
        if isinstance(outcome, Charged):
            await asyncio.sleep(PAUSE_S)
            await db.commit_batch([refund_of(charge) if done % 4 == 3 else keep_of(charge)], [])
            done += 1
    return done


async def test_a_fence_in_the_future_closes_calls_that_ended_since(books: Books) -> None:
    """The clock was set back: new ids are above that fence, and some are from before."""
    customer = await books.customer(units=100)
    await _fence_in(books, YEAR_MS)
    fence = await audit_state.fence(books.db)
    ahead = first_of(millis_of(fence) + 3_600_000)
    for call_id in (new_id(fence), new_id(fence), ahead):
        call = await books.opened(customer, call_id=call_id, config_version=await version(books))
        await books.end(keep_of(call))
    first = await audited(books)
    assert (first.breaches, first.checked.calls) == ([], 3)
    assert (await audited(books)).checked.calls == 0
    async with ledger_service_on(books.db) as service:
        admitted = await service.admit(customer)
        assert admitted.id > ahead
        await service.ledger.refund(End(admitted.id, CallState.REFUNDED))
    assert (await audited(books)).checked.calls == 1
    assert (await audited(books)).checked.calls == 0


async def test_an_audit_on_a_dead_connection_ends_and_another_process_does_it(
    postgres_books: Books, monkeypatch: pytest.MonkeyPatch
) -> None:
    await calls(postgres_books, await postgres_books.customer(units=100), 9)
    async with proxy_to(postgres_books.url) as proxy:
        db = await Postgresql.open(proxy.url)
        with monkeypatch.context() as brief:
            brief.setattr(audit, "STEP_TIMEOUT_S", 0.5)
            brief.setattr(postgresql, "CANCEL_TIMEOUT_S", 0.2)
            brief.setattr(postgresql, "CLOSE_TIMEOUT_S", 0.2)
            proxy.silence_after(b"LEFT JOIN accounts a ON a.id = l.account_id")
            async with asyncio.timeout(60):
                with pytest.raises(db.unavailable):
                    await audit.run(db, audio_of(postgres_books))
            await db.close()
    report = await audited(postgres_books)
    assert (report.breaches, report.checked.calls) == ([], 9)


async def test_only_one_of_several_processes_audits(books: Books) -> None:
    second = await books.open_again(serving=False)
    every_ms = 60_000

    async def claim(connection: Transaction) -> bool:
        return await audit_state.claim(connection, every_ms)

    claimed = await asyncio.gather(*[db.transaction(claim) for db in (books.db, second) for _ in range(4)])
    assert sorted(claimed) == [False] * 7 + [True]
    await books.move_clock(audit_state.LEASE_MS + 1)  # the process with the claim never ended its audit
    assert await books.db.transaction(claim)
    await books.db.transaction(lambda connection: audit_state.finish(connection, 0, "{}"))
    assert not await books.db.transaction(claim)
    await books.move_clock(every_ms)
    assert await books.db.transaction(claim)
    await second.close()


async def test_a_range_is_summed_up_once(books: Books) -> None:
    await calls(books, await books.customer(units=100), 3)
    end = await audit.close(books.db)
    counts = Counts(3, 5, 0, 0)

    async def advance(connection: Transaction) -> bool:
        return await audit_state.advance(connection, FIRST, end, counts)

    assert [await books.db.transaction(advance) for _ in range(2)] == [True, False]
    assert (await audit_state.state(books.db)).counts == counts
    assert (await audited(books)).breaches == []


async def test_writers_ended_waits_for_the_last_writer(postgres_books: Books) -> None:
    """Its number is above that of every transaction that has ended, also of the one that raised the fence."""
    async with contextlib.AsyncExitStack() as stack:
        writers = [await asyncpg.connect(postgres_books.url) for _ in range(2)]
        for writer in writers:
            stack.push_async_callback(writer.close)
        first, last = (writer.transaction() for writer in writers)
        await first.start()
        await writers[0].execute("UPDATE site SET version = version")
        await last.start()
        await writers[1].execute("UPDATE audit_state SET claimed_until = claimed_until")
        await first.commit()
        ended = asyncio.ensure_future(postgres_books.db.writers_ended())
        await asyncio.wait([ended], timeout=0.2)
        assert not ended.done()
        await last.commit()
        assert await ended


async def test_an_audit_is_due_if_the_last_one_is_in_the_future(books: Books) -> None:
    """The clock was ahead then."""
    await books.sql(
        "UPDATE audit_state SET audited_at = now_ms() + 9999999, claimed_until = now_ms() + 9999999"
    )
    assert await books.db.transaction(lambda db: audit_state.claim(db, 3_600_000))
    assert not await books.db.transaction(lambda db: audit_state.claim(db, 3_600_000))
