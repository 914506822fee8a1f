"""One call writes directly to its rows in SQLite: a temporary table, which SQLite builds for a check against
a list of values, costs more than the row."""

from pathlib import Path
from typing import Any

import pytest

from myna.store import sqlite_batch
from myna.store.batch import Charge, End
from myna.store.sqlite import SqliteConnection, clock_ms
from tests.store.books import AUDIO, Books, books_of, charge_of, keep_of, speech

pytestmark = pytest.mark.anyio


def _own_tables(books: Books, ends: list[End], charges: list[Charge]) -> list[str]:
    """The statements of this batch that build such a table; the batch is committed."""
    raw = SqliteConnection(books.folder / "myna.sqlite", clock_ms, read_only=False).raw
    ran: list[tuple[str, Any]] = []
    raw.exec_trace = lambda _, sql, values: ran.append((sql, values)) is None
    raw.execute("BEGIN IMMEDIATE")
    sqlite_batch.run(raw, ends, charges, clock_ms())
    raw.execute("COMMIT")
    raw.exec_trace = None
    assert len(ran) > 3
    found = [
        sql
        for sql, values in ran
        if any(step[1] == "OpenEphemeral" for step in raw.execute(f"EXPLAIN {sql}", values))
    ]
    raw.close()
    return found


@pytest.mark.parametrize("spoken", [False, True])
async def test_a_batch_of_one_call_needs_no_temporary_table(tmp_path: Path, spoken: bool) -> None:
    async with books_of("", tmp_path) as books:
        call = charge_of(await books.customer(), task=speech() if spoken else None)
        assert _own_tables(books, [], [call]) == []
        assert _own_tables(books, [keep_of(call, None, AUDIO if spoken else None)], []) == []
        assert await books.state(call.call_id) == 1
