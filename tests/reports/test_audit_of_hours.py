"""An audit reads the days that are written in place of their hours; a full one reads all hours."""

import pytest

from myna import audit, rollup
from myna.audit import HOURS_DAYS
from myna.store.files.audio import AudioStore
from myna.store.queries.audit_reports import DAYS_RULE, HOURS_RULE, SITE_RULE
from tests.store.books import Books, keep_of, refund_of

pytestmark = pytest.mark.anyio

FIRST_HOUR = "UPDATE usage_hours SET calls = calls + 1 WHERE hour = (SELECT min(hour) FROM usage_hours)"
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
    report = await audit.run(books.db, AudioStore(books.folder / "audio"), full=full)
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
