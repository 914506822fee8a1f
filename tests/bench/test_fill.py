"""A database filled by the benchmark passes the audit and accepts the keys of the load."""

from pathlib import Path

import pytest

from bench import fill, grow, load
from bench.fill import Size
from myna import audit, keys
from myna.keys import Scope, UnverifiedCaller
from myna.store.database import connect
from myna.store.files.audio import AudioStore
from myna.store.queries import accounts as accounts_store
from myna.store.queries import tasks

pytestmark = pytest.mark.anyio

SMALL = Size(accounts=3, keys=7, rows=1000)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    """The URL of the database to fill; empty for SQLite."""
    return "" if request.param == "sqlite" else str(request.getfixturevalue("postgres_url"))


async def test_the_filled_books_pass_the_audit(url: str, tmp_path: Path) -> None:
    await fill.fill(url, tmp_path, SMALL)
    db = await connect(url or "sqlite:", tmp_path)
    try:
        report = await audit.run(db, AudioStore(tmp_path / "audio"), hash_audio=True)
        assert report.breaches == []
        ((calls,),) = await db.fetch("SELECT count(*) FROM calls")
        ((refunds,),) = await db.fetch("SELECT count(*) FROM ledger WHERE kind = 1")
        assert (calls, refunds) == (SMALL.rows, SMALL.rows // fill.FAILS_EVERY)
    finally:
        await db.close()


async def test_the_audit_finds_a_missing_unit_in_filled_books(tmp_path: Path) -> None:
    await fill.fill("", tmp_path, SMALL)
    db = await connect("sqlite:", tmp_path)
    try:
        await db.transaction(
            lambda open_: open_.fetch("UPDATE accounts SET balance = balance - 1 WHERE id = 2")
        )
        (breach,) = (await audit.run(db, AudioStore(tmp_path / "audio"))).breaches
        assert "balance" in breach.rule
    finally:
        await db.close()


async def test_every_key_of_the_load_has_all_scopes(url: str, tmp_path: Path) -> None:
    await fill.fill(url, tmp_path, SMALL)
    db = await connect(url or "sqlite:", tmp_path)
    try:
        for number in range(1, SMALL.keys + 1):
            key_hash = keys.hash_of(load.KEY_FORMAT % number)
            all_scopes = Scope.CHAT | Scope.TTS | Scope.RECORDS
            found = await keys.verify(db, UnverifiedCaller(key_hash, all_scopes))
            assert found.key.account_id == fill.Rows(SMALL).account_of(number)
    finally:
        await db.close()


async def test_new_rows_get_ids_after_the_filled_ones(url: str, tmp_path: Path) -> None:
    await fill.fill(url, tmp_path, SMALL)
    db = await connect(url or "sqlite:", tmp_path)
    try:
        added = await db.transaction(lambda open_: accounts_store.insert(open_, "new", "", False))
        assert added is not None
        assert added > SMALL.accounts
    finally:
        await db.close()


@pytest.mark.parametrize("rows", [1000, 210_000])
async def test_the_far_page_is_full_and_as_far_as_the_records_allow(tmp_path: Path, rows: int) -> None:
    await fill.fill("", tmp_path, Size(rows=rows))
    (path,) = [path for name, path in grow.paths(rows) if name == grow.FAR_RECORDS]
    before = int(path.rpartition("=")[2])
    db = await connect("sqlite:", tmp_path)
    try:
        page = await tasks.page(db, fill.READER, before, grow.PAGE)
        assert len(page) == grow.PAGE
        ((newer,),) = await db.fetch("SELECT count(*) FROM tasks WHERE account_id = 1 AND id >= $1", before)
        assert newer >= min(rows // 2 - 2 * grow.PAGE, grow.PAGE * (grow.FAR_PAGE - 1))
    finally:
        await db.close()
