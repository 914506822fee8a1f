"""The load of streams, the floor that it is compared with, and what becomes of the figures."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import contenders as who
from bench import goals, page, reports
from bench.contenders import Setup, bare_floor
from bench.goals import Goal
from bench.load import CHAT_PATH, Target, Work
from bench.stream import StreamLoad
from bench.stream_load import Job, Outcome
from tests.bench import measured
from tests.bench.test_page import report, save, written

__all__ = ["written"]
SHORT_S = 0.5


@pytest.fixture(scope="module")
def driver() -> Iterator[StreamLoad]:
    with StreamLoad.running() as found:
        yield found


@contextmanager
def floor(folder: Path, upstream_port: int) -> Iterator[Target]:
    setup = Setup(folder, f"http://127.0.0.1:{upstream_port}", None)
    with bare_floor(setup, Work(), "bench.stream_floor") as target:
        yield target


def closed(driver: StreamLoad, port: int, streams: int = 4, chunks: int = 3) -> Outcome:
    """Streams whose chunks are sent one after the other."""
    job = Job(port=port, path=CHAT_PATH, streams=streams, chunks=chunks, seconds=SHORT_S)
    return driver.run(job, None).outcome


def test_the_load_alone_ends_every_stream_and_measures_its_delay(driver: StreamLoad) -> None:
    outcome = closed(driver, driver.port)
    assert outcome.broken == 0
    assert outcome.streams > 4
    assert outcome.chunks_s > outcome.streams
    assert 0 < outcome.delay_p50_ms <= outcome.delay_p99_ms < 1000
    assert outcome.first_ms >= outcome.delay_p50_ms


def test_the_floor_passes_streams_and_whole_answers_on(driver: StreamLoad, tmp_path: Path) -> None:
    with floor(tmp_path, driver.port) as target:
        outcome = closed(driver, target.port)
        assert (outcome.broken, outcome.streams > 4) == (0, True)
        assert who.UPSTREAM_SAYS in who.load.ask(target)


def test_a_rate_is_kept_over_all_open_streams(driver: StreamLoad, tmp_path: Path) -> None:
    with floor(tmp_path, driver.port) as target:
        job = Job(port=target.port, path=CHAT_PATH, streams=40, rate=400, seconds=1.0)
        ran = driver.run(job, target)
    assert (ran.outcome.broken, ran.outcome.streams) == (0, 40)
    assert 200 < ran.outcome.chunks_s <= 400
    assert ran.cpu_s_per_1000 > 0


def test_a_stream_without_a_good_end_is_broken(driver: StreamLoad, tmp_path: Path) -> None:
    with floor(tmp_path, 1) as target:  # nothing listens on this port
        outcome = closed(driver, target.port, streams=3)
    assert (outcome.broken, outcome.streams, outcome.chunks_s) == (3, 0, 0.0)


def judged(part: str, **parts: object) -> Goal:
    found = [goal for goal in goals.on_streams(measured.streams() | parts) if part in goal.what]
    assert len(found) == 1, [goal.what for goal in found]
    return found[0]


def test_streams_are_judged_by_the_floor_the_peers_and_whole_calls() -> None:
    assert [goal.met for goal in goals.on_streams(measured.streams())] == [
        True, True, True, True, False, True, True, True,
    ]  # fmt: skip
    assert judged("against the floor").figure == "0.9"
    assert judged("against Portkey").figure == "6x"
    assert judged("against LiteLLM").figure == "22.5x"
    assert judged("whole calls").figure == "0.96"


def test_the_first_chunk_is_judged_by_what_is_added_to_the_load_alone() -> None:
    goal = judged("two bare commits")
    assert (goal.goal, goal.figure, goal.met) == ("at most 2.50 ms", "2.50 ms", True)
    slower = measured.streams()["medians"] | {who.SQLITE: measured.stream_figures(2.7, 9000)}
    assert judged("two bare commits", medians=slower).met is False


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert all(goal.met is None for goal in goals.on_streams({}))
    too_slow = measured.streams()["medians"] | {
        who.SQLITE: measured.stream_figures(2.6, 4000, many_open=False)
    }
    assert judged("memory", medians=too_slow).met is None
    assert judged("p99", medians=too_slow).met is None


def test_the_page_and_the_report_have_the_streams(written: Path, tmp_path: Path) -> None:
    page.write(written, tmp_path)
    assert "## Streams" not in written.read_text("utf-8")
    save(tmp_path, "stream", measured.streams())
    page.write(written, tmp_path)
    text = written.read_text("utf-8")
    assert "| Myna, SQLite | 2.6 | 9,000 | 0.050 | 10.0 | 30 |" in text
    assert "| Portkey gateway | 30.0 | 1,500 | 0.050 | — | — |" in text
    assert "- chunks/s against LiteLLM: 22.5x (goal: at least 30x)." in text
    words = report(tmp_path, f"{reports.stem('stream', measured.streams())}.md")
    assert "2,000 open streams with 5,000 chunks/s in all" in words
    assert "`nginx` is missing: it isn't installed." in words
    assert "| myna-sqlite | 2.60 | 9,000 | 50 | 1.00 | 10.00 | 30 | 0 of 1,000 |" in words
