"""What the benchmark fills, times and writes."""

import shutil
from pathlib import Path

import apsw
import pytest

from bench import fill, grow, load, page
from bench.commits import CommitTimes
from bench.connections import ARMS, compare
from bench.fill import Size
from bench.results import RESULTS
from myna import audit, keys
from myna.keys import Scope, UnverifiedCaller
from myna.settings import Settings
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


async def test_filled_books_pass_the_audit_have_the_keys_of_the_load_and_go_on(
    url: str, tmp_path: Path
) -> None:
    await fill.fill(url, tmp_path, SMALL)
    db = await connect(Settings(data=str(tmp_path), database_url=url or ""))
    try:
        report = await audit.run(db, AudioStore(tmp_path / "audio"), hash_audio=True)
        assert report.breaches == []
        ((calls,),) = await db.fetch("SELECT count(*) FROM calls")
        ((refunds,),) = await db.fetch("SELECT count(*) FROM ledger WHERE kind = 1")
        assert (calls, refunds) == (SMALL.rows, SMALL.rows // fill.FAILS_EVERY)
        for number in range(1, SMALL.keys + 1):
            key_hash = keys.hash_of(load.KEY_FORMAT % number)
            all_scopes = Scope.CHAT | Scope.TTS | Scope.RECORDS
            found = await keys.verify(db, UnverifiedCaller(key_hash, all_scopes))
            assert found.key.account_id == fill.Rows(SMALL).account_of(number)
        added = await db.transaction(lambda open_: accounts_store.insert(open_, "new", "", False))
        assert added is not None
        assert added > SMALL.accounts
    finally:
        await db.close()


@pytest.mark.parametrize("far", [3, 1000])
async def test_the_far_page_is_full_and_as_far_as_the_records_allow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, far: int
) -> None:
    monkeypatch.setattr(grow, "FAR_PAGE", far)
    await fill.fill("", tmp_path, SMALL)
    (path,) = [path for name, path in grow.paths(SMALL.rows) if name == grow.FAR_RECORDS]
    before = int(path.rpartition("=")[2])
    db = await connect(Settings(data=str(tmp_path)))
    try:
        found = await tasks.page(db, fill.READER, before, grow.PAGE)
        assert len(found) == grow.PAGE
        ((newer,),) = await db.fetch("SELECT count(*) FROM tasks WHERE account_id = 1 AND id >= $1", before)
        assert newer >= min(SMALL.rows // 2 - 2 * grow.PAGE, grow.PAGE * (far - 1))
    finally:
        await db.close()


def test_a_timed_pair_of_commits_is_a_call_that_is_charged_and_kept(tmp_path: Path) -> None:
    times = CommitTimes(tmp_path / "commits")
    took = times.round(0.2)
    times.close()
    assert took.ms > 0 < took.pair_ms
    assert took.commits_s > 0
    bare, filled = (
        apsw.Connection(str(tmp_path / "commits" / f"{name}.sqlite")) for name in ("bare", "myna")
    )
    assert bare.execute("SELECT count(*) > 1 FROM bare").get
    calls, kept, units = filled.execute("SELECT count(*), sum(state = 1), sum(units) FROM calls").get
    assert calls == kept == units > 1
    assert filled.execute("SELECT sum(ok_calls) FROM key_usage").get == calls
    bare.close()
    filled.close()


def test_every_server_of_the_comparison_of_connections_answers() -> None:
    found = compare(connections=2, requests=200, rounds=1)
    assert list(found) == list(ARMS)
    assert all(rate > 0 for _, rate, _ in found.values())


def test_the_committed_page_has_the_figures_of_the_results(tmp_path: Path) -> None:
    folder, copy = tmp_path / "results", tmp_path / page.PAGE.name
    shutil.copytree(RESULTS, folder)
    shutil.copy(page.PAGE, copy)
    page.write(copy, folder)
    assert copy.read_bytes() == page.PAGE.read_bytes()
