"""`python -m bench.report_cost DATABASE [TURNS]`: what the reports cost a call, on `sqlite` or `postgresql`.

CPU microseconds of a call, in batches of 32 charges and 32 ends by random keys: what a batch takes without
its writes for the reports, with them, and what the job takes that folds them. The three take turns, and the
least of the turns is printed, since other load on the machine only adds time. PostgreSQL's CPU time is
included. The shares are of a chat call without sockets: a layer of `python -m bench parts` and the batch. The
shares of a request are smaller.
"""

import random
import re
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import uvloop

from bench import contenders, fill, parts
from bench.commits import charge_of
from bench.fill import Size
from bench.processes import Program
from myna.billing import rollup
from myna.settings import Settings
from myna.store import schema
from myna.store.batch import CallState, Charge, End
from myna.store.database import Database, connect
from myna.store.sqlite_changes import Changes

TURNS, BATCHES, MANY = 80, 32, 32
SIZES = (Size(), Size(accounts=1000))
_REPORTS = (
    r"v_ends := json_build_array\([^;]*;",
    r"INSERT INTO outbox[^;]*;",
)
"""The statements of `commit_batch` that write for the reports."""


class Cost(NamedTuple):
    """CPU microseconds of a call."""

    bare: float
    batch: float
    job: float


class Side:
    """A database that batches are committed to."""

    def __init__(self, db: Database, version: int) -> None:
        self.db = db
        self._version = version
        self._open: list[Charge] = []

    async def batches(self) -> None:
        for _ in range(BATCHES):
            keys = (random.randint(1, Size().keys) for _ in range(MANY))
            charges = [charge_of(key, self._version) for key in keys]
            await self.db.commit_batch([End(one.call_id, CallState.KEPT) for one in self._open], charges)
            self._open = charges

    async def roll(self) -> None:
        await rollup.roll(self.db, "UTC")

    async def close(self) -> None:
        await self.db.close()


async def measure(folder: Path, server: contenders.Server | None, size: Size, turns: int) -> Cost:
    """The least of each in `turns` turns."""
    bare, whole = [await _side(folder / name, server, size) for name in ("bare", "whole")]
    if server:
        await bare.db.transaction(lambda connection: connection.run_script(batch_without_reports()))
    program = server.program if server else None
    least = Cost(*[float("inf")] * 3)
    for _ in range(turns):
        with _nothing_written_on_sqlite():
            micros = await _micros(bare.batches, program)
        found = Cost(micros, await _micros(whole.batches, program), await _micros(whole.roll, program))
        least = Cost(*map(min, least, found))
    await bare.close()
    await whole.close()
    return least


async def _side(folder: Path, server: contenders.Server | None, size: Size) -> Side:
    url = server.postgres.fresh_database() if server else ""
    await fill.fill(url, folder, size)
    db = await connect(Settings(data=str(folder), database_url=url or ""))
    ((version,),) = await db.transaction(lambda connection: connection.fetch("SELECT version FROM site"))
    return Side(db, int(version))


def batch_without_reports() -> str:
    """The routines of PostgreSQL, `commit_batch` without what it writes for the reports."""
    text = schema.routines("postgresql")
    for statement in _REPORTS:
        text, found = re.subn(statement, "NULL;", text)
        if found != 1:
            raise AssertionError(f"{found} statements are like {statement}")
    return text


@contextmanager
def _nothing_written_on_sqlite() -> Iterator[None]:
    write = Changes.write_outbox
    Changes.write_outbox = lambda *_: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Changes.write_outbox = write  # type: ignore[method-assign]


async def _micros(work: Callable[[], Awaitable[None]], server: Program | None) -> float:
    """CPU time of this process and of the database server's processes. A process that ends is left out."""
    program = server or Program(0)
    before, began = program.cpu_nanos(), time.process_time_ns()
    await work()
    mine = time.process_time_ns() - began
    nanos = mine + sum(now - before.get(pid, 0) for pid, now in program.cpu_nanos().items())
    return nanos / BATCHES / MANY / 1000


def line(size: Size, cost: Cost, rest: float) -> str:
    """The figures of a size; `rest` is what the other layers of a call take, in microseconds."""
    call = rest + cost.bare
    batch, job = (cost.batch - cost.bare) / call * 100, cost.job / call * 100
    return (
        f"{size.accounts:5} accounts: batch {cost.bare:.1f} us, with reports {cost.batch:.1f},"
        f" job {cost.job:.1f}; of a call of {call:.0f} us {batch:.1f} % and {job:.1f} %"
    )


def main(database: str, turns: int) -> None:
    rest = parts.measure().micros[parts.WITHOUT_STORE]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=parts.IN_MEMORY)))
        server = stack.enter_context(contenders.database()) if database == "postgresql" else None
        for size in SIZES:
            cost = uvloop.run(measure(folder / str(size.accounts), server, size, turns))
            print(line(size, cost, rest), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else TURNS)
