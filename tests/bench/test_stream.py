"""The load of streams, and the floor that it is compared with."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bench import contenders as who
from bench.contenders import Setup, bare_floor
from bench.load import CHAT_PATH, Target, Work
from bench.stream import StreamLoad
from bench.stream_load import Job, Outcome

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
