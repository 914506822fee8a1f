"""Accounts take turns at the pool; progress and the setup reach whom they are meant for."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from myna.engines.process import Pool
from myna.engines.process_child import Job
from myna.engines.spoken import EngineDown, EngineTimedOut
from tests.engines.conftest import runs, until
from tests.engines.process_child import Deed, Mood, Word
from tests.engines.test_process import _busy, anyio_backend, path

__all__ = ["anyio_backend", "path"]

pytestmark = pytest.mark.anyio
_CHILD = "tests.engines.process_child"


@pytest.fixture
async def pool() -> AsyncIterator[Pool[Word]]:
    """One process, and room for many."""
    pool = Pool(_CHILD, Word, processes=1, queue_max=400, job_deadline_s=30)
    await pool.start()
    yield pool
    await pool.close()


def _pool(mood: str, start_deadline_s: float = 20) -> Pool[Word]:
    return Pool(
        _CHILD,
        Word,
        processes=1,
        queue_max=2,
        job_deadline_s=5,
        setup=Mood(mood),
        start_deadline_s=start_deadline_s,
    )


async def _in_order(pool: Pool[Word], turns: list[str]) -> list[str]:
    """In which order jobs of these turns end, all of which came while the child was busy with one of "a"."""
    running = asyncio.create_task(pool.run(Deed("hang"), 30, turn="a"))
    await until(lambda: not pool._idle and not pool._waiting)
    ended: list[str] = []

    async def one(number: int, turn: str) -> None:
        ended.append((await pool.run(Deed("echo", f"{turn}{number}"), 30, turn=turn)).word)

    jobs = [asyncio.create_task(one(number, turn)) for number, turn in enumerate(turns)]
    await until(lambda: len(pool._waiting) == len(turns))
    running.cancel()
    await asyncio.gather(*jobs)
    return ended


async def test_an_accounts_first_job_goes_before_200_of_another(pool: Pool[Word]) -> None:
    ended = await _in_order(pool, ["a"] * 200 + ["b"])
    assert ended == ["b200", *(f"a{number}" for number in range(200))]


async def test_accounts_take_turns_and_each_is_served_in_order_of_arrival(pool: Pool[Word]) -> None:
    ended = await _in_order(pool, ["a", "a", "a", "b", "b", "c", "b"])
    assert ended == ["b3", "c5", "a0", "b4", "a1", "b6", "a2"]


async def test_a_cancelled_job_leaves_its_turn_and_the_rest_go_on(pool: Pool[Word]) -> None:
    running = await _busy(pool)
    first = asyncio.create_task(pool.run(Deed("echo", "first"), 30, turn="b"))
    second = asyncio.create_task(pool.run(Deed("echo", "second"), 30, turn="b"))
    await until(lambda: len(pool._waiting) == 2)
    first.cancel()
    await until(lambda: len(pool._waiting) == 1)
    running.cancel()
    assert await second == Word("second")


async def test_a_job_whose_child_died_too_late_for_another_is_not_queued_again(pool: Pool[Word]) -> None:
    late = Job(1, b"", -1, "a", None)
    pool._settle(late, None)
    assert late.answer.done() and not pool._waiting
    with pytest.raises(EngineTimedOut):
        await late.answer


async def test_progress_reaches_its_own_caller_before_the_answer(pool: Pool[Word]) -> None:
    mine: list[float] = []
    others: list[float] = []
    one, two, three = await asyncio.gather(
        pool.run(Deed("steps", "one"), 10, progress=mine.append),
        pool.run(Deed("echo", "two"), 10, progress=others.append),
        pool.run(Deed("steps", "three"), 10),
    )
    assert (one, two, three) == (Word("one"), Word("two"), Word("three"))
    assert mine == [0.25, 0.5, 0.75, 1.0]
    assert others == []


async def test_a_caller_that_breaks_on_progress_ends_its_own_job_alone(pool: Pool[Word]) -> None:
    def broken(_fraction: float) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await pool.run(Deed("steps"), 10, progress=broken)
    assert await pool.run(Deed("echo", "again"), 20) == Word("again")


async def test_a_child_gets_its_setup_and_so_does_the_one_in_its_place() -> None:
    pool = _pool("cheerful")
    await pool.start()
    assert await pool.run(Deed("echo"), 10) == Word("cheerful")
    before = pool.pids()
    await pool._standing[0].kill()
    await until(lambda: pool.pids() != before)
    assert await pool.run(Deed("echo"), 10) == Word("cheerful")
    await pool.close()


async def test_a_child_that_cannot_get_ready_says_why() -> None:
    with pytest.raises(EngineDown, match=r"^This child has what it needs, but no wish\.$"):
        await _pool("refuse").start()


async def test_a_child_that_breaks_while_it_gets_ready_names_no_secret() -> None:
    with pytest.raises(EngineDown, match=r"^The engine's process ended before it was ready"):
        await _pool("break").start()


async def test_a_child_that_takes_too_long_to_get_ready_is_ended() -> None:
    pool = _pool("sleep", start_deadline_s=0.5)
    with pytest.raises(EngineDown, match="in time"):
        await pool.start()
    assert not pool.pids()


async def test_a_start_that_is_broken_off_leaves_no_child_behind_that_was_ready(tmp_path: Path) -> None:
    place = tmp_path / "place"
    pool = Pool(_CHILD, Word, processes=2, queue_max=2, job_deadline_s=5, setup=Mood(str(place)))
    starting = asyncio.create_task(pool.start())
    await until((place / "pid").exists)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not runs(int((place / "pid").read_text()))
    await pool.close()
