"""Every rule of the audit, broken by hand, is found; an account of ordinary use breaks none."""

import hashlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from myna import audit
from myna.store.audio import AudioStore
from myna.store.audit import SHOWN_MAX, SWEEP_GRACE_MS
from myna.store.batch import Audio
from myna.store.migrate import migrate
from tests.store.books import AUDIO, Books, keep_of, refund_of, speech

pytestmark = pytest.mark.anyio


@pytest.fixture
async def broken(database_url: str, tmp_path: Path) -> AsyncIterator[Books]:
    """Books that a test damages."""
    damaged = Books(database_url, tmp_path)
    damaged.db = await damaged.open_again()
    await audit_ready(damaged)
    yield damaged
    await damaged.db.close()


async def audit_ready(books: Books) -> None:
    """Schema, and one call of each fate: open, kept, refunded, and with tasks."""
    await migrate(books.db)
    holder = await books.holder(units=100)
    for task in (None, speech()):
        await books.opened(holder, task=task)
        await books.end(
            keep_of(await books.opened(holder, units=2, task=task), None, AUDIO if task else None)
        )
        await books.end(refund_of(await books.opened(holder, units=3, task=task)))
    assert await books.audit() == []


BREAKS = {
    "UPDATE accounts SET balance = balance + 1": "an account's balance is the sum",
    "INSERT INTO ledger (call_id, kind, account_id, units, created_at) VALUES ($1, 2, 1, 1, 1)":
        "an account's balance is the sum",
    "INSERT INTO ledger (call_id, kind, account_id, units, created_at) VALUES ($1, 2, 99, 1, 1)":
        "a ledger entry belongs to an account",
    "UPDATE calls SET units = units + 1 WHERE state = 1": "a call has exactly one charge",
    "UPDATE calls SET account_id = 99 WHERE state = 1": "a call has exactly one charge",
    "DELETE FROM calls WHERE state = 1": "a charge and a refund belong to a call",
    "UPDATE calls SET state = 2 WHERE state = 1": "a refunded call has exactly one refund",
    "UPDATE calls SET state = 1 WHERE state = 2": "an open or kept call has no refund",
    "UPDATE calls SET state = 0 WHERE state = 2": "an open or kept call has no refund",
    f"UPDATE calls SET deadline = now_ms() - {SWEEP_GRACE_MS + 1000} WHERE state = 0":
        "no call is open past its deadline",
    "UPDATE tasks SET status = 3 WHERE status = 1": "a task's call is open while it runs",
    "DELETE FROM calls WHERE state = 0 AND id IN (SELECT call_id FROM tasks)":
        "a task's call is open while it runs",
    "UPDATE tasks SET audio = '' WHERE status = 2": "a completed task names its audio",
    "UPDATE tasks SET audio = 'x' WHERE status = 3": "a completed task names its audio",
    "UPDATE keys SET calls = calls + 1": "a key counts its calls",
    "UPDATE keys SET ok_calls = ok_calls + 1": "a key counts its calls",
    "UPDATE keys SET cost = cost - 1": "a key counts its calls",
}  # fmt: skip


@pytest.mark.parametrize("statement", BREAKS)
async def test_the_audit_finds_what_must_not_be(broken: Books, statement: str) -> None:
    await broken.sql(statement, *([b"n" * 16] if "$1" in statement else []))
    rules = [breach.rule for breach in await broken.audit()]
    assert any(rule.startswith(BREAKS[statement]) for rule in rules), rules


async def test_a_breach_counts_all_rows_and_shows_the_first(broken: Books) -> None:
    for _ in range(SHOWN_MAX + 5):
        await broken.holder(units=1)
    await broken.sql("UPDATE accounts SET balance = 2 WHERE balance = 1")
    (breach,) = await broken.audit()
    assert breach.count == SHOWN_MAX + 5
    assert len(breach.examples) == SHOWN_MAX
    assert breach.examples[0].endswith(" 2 1")


async def test_missing_short_and_altered_audio_is_found(books: Books, tmp_path: Path) -> None:
    store = AudioStore(tmp_path / "audio")
    holder = await books.holder()
    paths = []
    for _ in range(4):
        name, path = store.new(".mp3")
        path.write_bytes(b"sound")
        audio = Audio(name, 5, hashlib.sha256(b"sound").digest())
        await books.end(keep_of(await books.opened(holder, task=speech()), None, audio))
        paths.append(path)
    assert await audit.run(books.db, store, hash_audio=True) == []

    paths[0].unlink()
    paths[1].write_bytes(b"soun")
    paths[2].write_bytes(b"noise")

    (quick,) = await audit.run(books.db, store, hash_audio=False)
    (whole,) = await audit.run(books.db, store, hash_audio=True)
    assert (quick.rule, quick.count, whole.count) == (audit.AUDIO_RULE, 2, 3)
    await books.sql("UPDATE tasks SET audio_removed_at = 1")
    assert await audit.run(books.db, store, hash_audio=True) == []
