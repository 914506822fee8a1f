"""The job that folds the outbox: each row once, in any order, and the books from before it.

An audit reads the days that are written in place of their hours; a full one reads all hours.
"""

from typing import Any

import pytest

from myna.billing import audit, rollup
from myna.store.batch import Charge
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import Folder
from myna.store.queries.audit_reports import DAYS_RULE, HOURS_DAYS, HOURS_RULE, SITE_RULE
from tests.store.books import Books, Customer, keep_of, refund_of

HOUR_MS = 3_600_000
ENTRIES = """SELECT kind, units, number, balance, charged, refunded FROM entries WHERE account_id = $1
ORDER BY at, call_id, kind"""
USAGE = "SELECT sum(calls), sum(ok_calls), sum(units), sum(ms) FROM "


async def calls(books: Books, customer: Customer, *, kept: int, refunded: int) -> list[Charge]:
    """Calls that ended, two units each, in one batch for all charges and one for all ends."""
    made = [await books.opened(customer, units=2) for _ in range(kept + refunded)]
    await books.end(*map(keep_of, made[:kept]), *map(refund_of, made[kept:]))
    return made


async def sums(books: Books, table: str) -> tuple[Any, ...]:
    return tuple(int(value or 0) for value in (await books.sql(USAGE + table))[0])


async def test_a_roll_folds_the_outbox_once(books: Books) -> None:
    customer = await books.customer(units=100)
    await calls(books, customer, kept=2, refunded=1)

    await rollup.roll(books.db, "UTC")
    folded = await books.sql(ENTRIES, customer.account_id)
    await rollup.roll(books.db, "UTC")

    assert await books.sql("SELECT * FROM outbox") == []
    assert await books.sql(ENTRIES, customer.account_id) == folded
    assert sorted(row[:2] for row in folded) == [(0, -2), (0, -2), (0, -2), (1, 2), (2, 100)]
    assert [row[2] for row in folded] == [1, 2, 3, 4, 5]
    assert folded[-1][3:] == (96, 6, 2)
    hours = await books.sql("SELECT sum(calls), sum(ok_calls), sum(units) FROM site_hours")
    assert [tuple(map(int, row)) for row in hours] == [(3, 2, 4)]


async def test_steps_of_one_row_make_the_same(books: Books, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollup, "STEP_ROWS", 1)
    customer, other = await books.customer(units=100), await books.customer(units=50)
    for one in (customer, other, customer):
        await calls(books, one, kept=3, refunded=2)

    await rollup.roll(books.db, "UTC")

    assert await books.sql("SELECT * FROM outbox") == []
    for one in (customer, other):
        last = (await books.sql(ENTRIES, one.account_id))[-1]
        assert last[3] == await books.balance(one)


async def test_an_entry_with_an_earlier_time_moves_the_sums_after_it(books: Books) -> None:
    await books.stop_clock()
    customer = await books.customer(units=100)
    await books.move_clock(1000)
    await calls(books, customer, kept=1, refunded=1)
    await rollup.roll(books.db, "UTC")
    await books.move_clock(-500)
    await calls(books, customer, kept=1, refunded=0)

    await rollup.roll(books.db, "UTC")

    found = await books.sql(ENTRIES, customer.account_id)
    balance = 0
    for number, row in enumerate(found, 1):
        balance += row[1]
        assert row[2:4] == (number, balance)
    assert len(found) == 5


async def test_a_day_is_written_once_it_is_over_and_again_after_a_late_call(books: Books) -> None:
    customer = await books.customer(units=100)
    late = await books.opened(customer, deadline_ms=10 * 24 * HOUR_MS)
    await calls(books, customer, kept=2, refunded=1)
    await rollup.roll(books.db, "UTC")
    assert await sums(books, "usage_days") == (0, 0, 0, 0)

    await books.move_clock(24 * HOUR_MS)
    await rollup.roll(books.db, "UTC")
    assert (await sums(books, "usage_days"))[:3] == (3, 2, 4)

    await books.move_clock(-24 * HOUR_MS)
    await books.end(keep_of(late))
    await books.move_clock(24 * HOUR_MS)
    await rollup.roll(books.db, "UTC")
    assert await sums(books, "usage_days") == await sums(books, "usage_hours")
    assert await books.sql("SELECT * FROM stale_days") == []


async def test_another_zone_rebuilds_the_days_and_moves_the_hours(books: Books) -> None:
    customer = await books.customer(units=100)
    for _ in range(3):
        await calls(books, customer, kept=1, refunded=0)
        await books.move_clock(11 * HOUR_MS)
    await books.move_clock(48 * HOUR_MS)
    await rollup.roll(books.db, "UTC")
    before = await sums(books, "usage_days")

    await rollup.roll(books.db, "Asia/Kathmandu")
    await calls(books, customer, kept=1, refunded=0)
    await rollup.roll(books.db, "Asia/Kathmandu")

    assert await books.sql("SELECT zone FROM rollup_state") == [("Asia/Kathmandu",)]
    assert await sums(books, "usage_days") == before
    ((hour,),) = await books.sql("SELECT max(hour) FROM usage_hours")
    assert hour % HOUR_MS == 15 * 60_000  # 5:45 hours east of Greenwich


async def test_one_process_folds_at_a_time(postgres_books: Books) -> None:
    books = postgres_books
    customer = await books.customer(units=100)
    await calls(books, customer, kept=1, refunded=0)

    async def hold(db: Any) -> None:
        await db.fetch("SELECT 1 FROM rollup_state FOR UPDATE")
        await rollup.roll(books.db, "UTC")

    await books.db.transaction(hold)
    assert len(await books.sql("SELECT 1 FROM outbox")) == 3
    await rollup.roll(books.db, "UTC")
    assert await books.sql("SELECT 1 FROM outbox") == []


DAY_MS = 24 * 3_600_000


@pytest.fixture
async def used(damaged_books: Books) -> Books:
    """Books with calls on an old day and on a recent one, all folded and the days written."""
    books = damaged_books
    customer = await books.customer(units=100)
    for days in (HOURS_DAYS + 5, 2):
        made = [await books.opened(customer, units=2) for _ in range(3)]
        await books.end(*map(keep_of, made[:2]), refund_of(made[2]))
        await books.move_clock(days * DAY_MS)
    await rollup.roll(books.db, "UTC")
    assert await found(books) == await found(books, full=True) == set()
    return books


async def found(books: Books, *, full: bool = False) -> set[str]:
    report = await audit.run(books.db, AudioStore(Folder(books.folder)), full=full)
    return {breach.rule for breach in report.breaches}


@pytest.mark.parametrize("which", ["min", "max"])
async def test_a_wrong_day_is_found_by_each_audit(used: Books, which: str) -> None:
    await used.sql(
        f"UPDATE usage_days SET calls = calls + 1 WHERE day = (SELECT {which}(day) FROM usage_days)"
    )
    assert HOURS_RULE in await found(used)


async def test_a_wrong_recent_hour_is_found_by_each_audit(used: Books) -> None:
    await used.sql("UPDATE usage_hours SET ms = ms + 1 WHERE hour = (SELECT max(hour) FROM usage_hours)")
    assert await found(used) == {DAYS_RULE}


async def test_a_wrong_old_hour_is_found_by_a_full_audit_alone(used: Books) -> None:
    await used.sql(
        "UPDATE usage_hours SET calls = calls + 1 WHERE hour = (SELECT min(hour) FROM usage_hours)"
    )
    assert await found(used) == set()
    assert await found(used, full=True) == {HOURS_RULE, DAYS_RULE, SITE_RULE}


async def test_all_hours_are_read_while_the_days_are_rebuilt(used: Books) -> None:
    await used.sql("UPDATE rollup_state SET rebuilt_until = 0")
    await used.sql("DELETE FROM usage_days")
    assert await found(used) == set()
    await used.sql(
        "UPDATE usage_hours SET calls = calls + 1 WHERE hour = (SELECT min(hour) FROM usage_hours)"
    )
    assert await found(used) == {HOURS_RULE}
