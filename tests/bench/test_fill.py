"""What the benchmark fills, times and writes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import contenders as who
from bench import fill, load
from bench.contenders import Setup, bare_floor
from bench.fill import Size
from bench.load import CHAT_PATH, Target, Work
from bench.stream import StreamLoad
from bench.stream_load import Job, Outcome
from myna.accounts import keys
from myna.accounts.keys import Scope, UnverifiedCaller
from myna.billing import audit
from myna.settings import Settings
from myna.store.database import connect
from myna.store.files.named_files import AudioStore
from myna.store.files.storage import Folder
from myna.store.queries import accounts as accounts_store
from tests.rig.processes import proc_file
from tests.rig.waiting import wait_until

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
        report = await audit.run(db, AudioStore(Folder(tmp_path)), hash_audio=True)
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


DEADLINE_S = 60.0


def test_nothing_outlives_a_benchmark_that_is_killed(tmp_path: Path) -> None:
    starter = (
        "import sys; from pathlib import Path; from bench import processes;"
        "block = processes.running(['sleep', '100'], {0}, Path(sys.argv[1]), {});"
        "print(block.__enter__().pid, flush=True); sys.stdin.read()"
    )
    benchmark = subprocess.Popen(
        [sys.executable, "-c", starter, str(tmp_path / "log")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    with benchmark:
        assert benchmark.stdout is not None
        pid = int(benchmark.stdout.readline())
        wait_until(lambda: proc_file(pid, "comm") == "sleep\n", DEADLINE_S, "it sleeps")
        os.kill(benchmark.pid, signal.SIGKILL)
        wait_until(lambda: proc_file(pid, "comm") != "sleep\n", DEADLINE_S, "it has ended")


SHORT_S = 0.5


@pytest.fixture(scope="module")
def driver() -> Iterator[StreamLoad]:
    with StreamLoad.running() as found:
        yield found


@contextmanager
def floor(folder: Path, upstream_port: int) -> Iterator[Target]:
    setup = Setup(folder, f"http://127.0.0.1:{upstream_port}", None)
    with bare_floor(setup, Work()) as target:
        yield target


def closed(driver: StreamLoad, port: int, streams: int = 4, chunks: int = 3) -> Outcome:
    """Streams whose chunks are sent one after the other."""
    job = Job(port=port, path=CHAT_PATH, streams=streams, chunks=chunks, seconds=SHORT_S)
    return driver.run(job, None).outcome


def test_the_floor_passes_streams_and_whole_answers_on(driver: StreamLoad, tmp_path: Path) -> None:
    with floor(tmp_path, driver.port) as target:
        outcome = closed(driver, target.port)
        assert (outcome.broken, outcome.streams > 4) == (0, True)
        assert who.UPSTREAM_SAYS in who.load.ask(target)
