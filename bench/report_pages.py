"""`python -m bench.report_pages DATABASE [ROWS]`: fills `sqlite` or `postgresql` and times every report.

Half of all calls are those of one account, whose pages are read. Each read is timed some times; the first one
is among them. The median and the worst are printed in ms.
"""

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench import fill
from myna.billing import reports
from myna.billing.reports import LedgerFilter
from myna.lib.times import day_of
from myna.settings import Settings
from myna.store.batch import EntryKind
from myna.store.database import Database, connect
from myna.store.queries import reports as store
from myna.store.queries import rollup
from tests.rig import postgres

ROUNDS = 15
ROWS = 1_000_000
Read = Callable[[], Awaitable[object]]


async def reads(db: Database) -> dict[str, Read]:
    """Every read of an account that has half of all calls."""
    account, state = fill.READER, await rollup.state(db)
    now, today = state.now, day_of("UTC", state.now)
    page = await reports.ledger_page(db, account)

    def read(report: Callable[..., Awaitable[object]], *args: Any, **only: Any) -> Read:
        return lambda: db.read(lambda queries: report(queries, *args, **only))

    def ledger(kind: EntryKind | None = None) -> Read:
        return read(reports.ledger_page, account, LedgerFilter(kind=kind))

    return {
        "usage by hour, 31 days": read(reports.usage_by_hour, account, now - 31 * reports.DAY_MS, now),
        "usage by day, 2 years": read(reports.usage_by_day, account, today - 731, today),
        "sparklines": lambda: reports.sparklines(db.read, account, today),
        "last used": read(store.last_used, account),
        "ledger, first page": ledger(),
        "ledger, next page": read(reports.ledger_page, account, before=page.before),
        "ledger, refunds": ledger(EntryKind.REFUND),
        "ledger, grants": ledger(EntryKind.GRANT),
        "ledger, charges": ledger(EntryKind.CHARGE),
        "month": read(reports.month, account, *time.gmtime()[:2]),
        "balance": read(reports.balance_proof, account),
        "site by hour, 24 hours": read(store.site_hours, now - reports.DAY_MS, now),
    }


async def measure(url: str, data: Path, rows: int) -> None:
    began = time.monotonic()
    await fill.fill(url, data, fill.Size(rows=rows))
    print(f"{'PostgreSQL' if url else 'SQLite'}: {rows} calls, filled in {time.monotonic() - began:.0f} s")
    db = await connect(Settings(data=str(data), database_url=url or ""))
    try:
        for name, read in (await reads(db)).items():
            taken = [await _ms(read) for _ in range(ROUNDS)]
            print(f"  {name:24} {statistics.median(taken):7.1f} {max(taken):7.1f}")
    finally:
        await db.close()


async def _ms(read: Read) -> float:
    began = time.perf_counter()
    await read()
    return (time.perf_counter() - began) * 1000


def main(name: str, rows: int) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="myna-report-pages-")))
        url = ""
        if name == "postgresql":
            server = postgres.start("512MB")
            stack.callback(server.close)
            url = server.fresh_database()
        asyncio.run(measure(url, folder / "data", rows))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else ROWS)
