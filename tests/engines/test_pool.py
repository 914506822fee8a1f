"""The pool with real processes, on asyncio and uvloop: every job ends with its own result or error."""

import asyncio
import os
import signal
import time
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from myna.engines.interface import (
    EngineBusy,
    EngineCrashed,
    EngineFailed,
    EngineTimedOut,
    EngineUnavailable,
    NothingSpoken,
)
from myna.engines.pool.child_handle import Child
from myna.engines.pool.pool import Pool
from tests.engines.conftest import busy, child_pool, started
from tests.engines.process_child import Command, Word
from tests.rig.processes import runs, state
from tests.rig.waiting import until


@pytest.fixture(scope="module", params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


@pytest.fixture
async def pool() -> AsyncIterator[Pool[Word]]:
    """One process; two jobs may wait."""
    async with started(child_pool(queue_max=2, job_deadline_s=600)) as pool:
        yield pool


async def test_a_job_gets_its_result(pool: Pool[Word]) -> None:
    assert await pool.run(Command("echo", "好"), 60) == Word("好")
    assert pool.up()


async def test_concurrent_jobs_get_their_own_results() -> None:
    async with started(child_pool(processes=2, queue_max=300)) as pool:
        words = [f"word {number}" for number in range(300)]

        answers = await asyncio.gather(*(pool.run(Command("echo", word), 60) for word in words))

        assert [answer.word for answer in answers] == words


async def test_a_full_queue_refuses_and_an_idle_child_does_not_count(pool: Pool[Word]) -> None:
    jobs = [asyncio.create_task(pool.run(Command("echo", str(number)), 10)) for number in range(4)]

    results = await asyncio.gather(*jobs, return_exceptions=True)

    assert [type(result) for result in results] == [Word, Word, Word, EngineBusy]


async def test_a_child_that_dies_fails_its_job_and_the_next_works(pool: Pool[Word]) -> None:
    with pytest.raises(EngineCrashed):
        await pool.run(Command("die"), 60)
    assert await pool.run(Command("echo", "again"), 60) == Word("again")


async def test_another_child_does_the_job_of_one_that_died_but_no_third(tmp_path: Path) -> None:
    async with started(child_pool(retries=True)) as pool:
        again = str(tmp_path / "died")
        assert await pool.run(Command("die_once", again), 60) == Word(again)
        with pytest.raises(EngineCrashed):
            await pool.run(Command("die"), 60)


async def test_a_job_that_hangs_is_ended_at_its_deadline(pool: Pool[Word]) -> None:
    [pid] = pool.pids()
    began = time.monotonic()

    with pytest.raises(EngineTimedOut):
        await pool.run(Command("hang"), 0.5)

    assert time.monotonic() - began > 0.4
    assert not runs(pid)
    assert await pool.run(Command("echo", "again"), 60) == Word("again")


async def _unkillable(pool: Pool[Word], monkeypatch: pytest.MonkeyPatch) -> tuple[int, Callable[[], None]]:
    """The pool's only child, which now survives its `kill`, and a function that kills it."""
    [pid] = pool.pids()
    kill = Process.kill

    def really_kill() -> None:
        monkeypatch.setattr(Process, "kill", kill)
        os.kill(pid, signal.SIGKILL)

    monkeypatch.setattr("myna.engines.pool.child_handle.KILL_WAIT_S", 0.2)
    monkeypatch.setattr(Process, "kill", lambda _: None)
    os.kill(pid, signal.SIGSTOP)  # else it would end with its stdin
    await until(lambda: state(pid) == "T")
    return pid, really_kill


async def test_a_child_that_does_not_end_fails_its_jobs_and_is_not_replaced(
    pool: Pool[Word], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process in uninterruptible I/O does not end; its replacement would block on the same disk."""
    pid, kill = await _unkillable(pool, monkeypatch)

    hanging = asyncio.create_task(pool.run(Command("hang"), 0.3))
    await asyncio.sleep(0)
    waiting = asyncio.create_task(pool.run(Command("echo", "waiting"), 60))
    with pytest.raises(EngineTimedOut):
        await hanging
    with pytest.raises(EngineUnavailable):
        await waiting

    await asyncio.sleep(1)
    assert runs(pid) and not pool.up() and pool.pids() == []
    assert caplog.text.count(f"process {pid} was killed and has not ended") == 1
    with pytest.raises(EngineUnavailable):
        await pool.run(Command("echo", "mine"), 60)
    kill()
    await until(pool.up)
    assert not runs(pid)
    assert await pool.run(Command("echo", "mine"), 60) == Word("mine")


async def test_a_pool_that_is_closed_as_soon_as_it_started_leaves_no_child() -> None:
    async with started(child_pool(processes=2, queue_max=2, job_deadline_s=5)) as pool:
        pids = pool.pids()
    assert not any(map(runs, pids))


async def test_cancelling_a_job_ends_its_process_first(pool: Pool[Word]) -> None:
    job = await busy(pool)
    [pid] = pool.pids()

    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job

    assert not runs(pid)
    assert await pool.run(Command("echo", "mine"), 60) == Word("mine")


async def test_a_job_whose_deadline_passes_in_the_queue_is_not_started(pool: Pool[Word]) -> None:
    running = await busy(pool)
    before = pool.pids()
    with pytest.raises(EngineTimedOut):
        await pool.run(Command("die"), 0.2)
    assert pool.pids() == before and not running.done()
    running.cancel()


async def test_a_job_that_waited_for_most_of_its_time_is_not_started(
    pool: Pool[Word], monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await busy(pool)
    monkeypatch.setattr("myna.engines.pool.child_handle.QUEUE_SHARE_MAX", 0.0)
    waiting = asyncio.create_task(pool.run(Command("echo"), 60))
    await asyncio.sleep(0)  # it is queued
    running.cancel()
    with pytest.raises(EngineTimedOut):
        await waiting


async def test_a_child_ignores_sigint_and_sigterm(pool: Pool[Word]) -> None:
    """Ctrl-C and service managers signal all processes of a group; running jobs must finish."""
    before = pool.pids()
    os.kill(before[0], signal.SIGINT)
    os.kill(before[0], signal.SIGTERM)
    assert await pool.run(Command("echo", "still here"), 60) == Word("still here")
    assert pool.pids() == before


async def test_output_of_a_library_does_not_corrupt_the_replies(pool: Pool[Word]) -> None:
    assert await pool.run(Command("chatter", "one"), 60) == Word("one")
    assert await pool.run(Command("echo", "two"), 60) == Word("two")


async def test_an_error_keeps_its_type_and_names_no_path(pool: Pool[Word]) -> None:
    with pytest.raises(NothingSpoken, match=r"^quiet$"):
        await pool.run(Command("silent", "quiet"), 60)
    with pytest.raises(EngineFailed, match=r"^No space left on device$"):
        await pool.run(Command("disk"), 60)
    with pytest.raises(EngineFailed, match=r"^KeyError$"):
        await pool.run(Command("fault", "a secret"), 60)
    assert await pool.run(Command("echo", "again"), 60) == Word("again")


async def test_closing_fails_running_and_waiting_jobs(pool: Pool[Word]) -> None:
    running = await busy(pool)
    [pid] = pool.pids()
    waiting = asyncio.create_task(pool.run(Command("echo"), 30))
    await asyncio.sleep(0)  # it is queued

    await pool.close()

    results = await asyncio.gather(running, waiting, return_exceptions=True)
    assert [type(result) for result in results] == [EngineUnavailable, EngineUnavailable]
    assert not runs(pid) and not pool.up()
    with pytest.raises(EngineUnavailable):
        await pool.run(Command("echo"), 1)


async def test_a_program_that_does_not_start_is_reported_and_leaves_no_process() -> None:
    pool = child_pool("there_is_no_such_program", processes=2, queue_max=2, job_deadline_s=5)
    with pytest.raises(EngineUnavailable):
        await pool.start()
    assert not pool.up() and not pool.pids()


async def test_a_pool_is_down_while_no_child_can_be_started(
    pool: Pool[Word], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", "/nowhere")  # no Python starts with that
    os.kill(pool.pids()[0], signal.SIGKILL)
    with pytest.raises(EngineUnavailable):
        await pool.run(Command("echo"), 60)
    assert not pool.up()

    monkeypatch.delenv("PYTHONHOME")
    await until(pool.up)
    assert await pool.run(Command("echo", "again"), 60) == Word("again")


async def test_a_child_killed_while_idle_fails_no_job_and_is_replaced_without_one(pool: Pool[Word]) -> None:
    os.kill(pool.pids()[0], signal.SIGKILL)
    assert await pool.run(Command("echo", "again"), 60) == Word("again")
    [before] = pool.pids()
    os.kill(before, signal.SIGKILL)
    await until(lambda: pool.pids() != [before])
    assert pool.up()


async def test_a_job_is_ended_at_the_deadline_of_the_pool() -> None:
    async with started(child_pool(queue_max=2, job_deadline_s=0.5)) as pool:
        with pytest.raises(EngineTimedOut):
            await pool.run(Command("hang"), 60)


async def test_a_job_cancelled_twice_still_waits_for_its_process(
    pool: Pool[Word], monkeypatch: pytest.MonkeyPatch
) -> None:
    job, kill, resumed = await busy(pool), Child.kill, asyncio.Event()
    [pid] = pool.pids()

    async def slow(child: Child) -> None:
        await resumed.wait()
        await kill(child)

    monkeypatch.setattr("myna.engines.pool.child_handle.Child.kill", slow)
    for _ in range(2):
        job.cancel()
        await asyncio.sleep(0.05)
    assert not job.done()
    resumed.set()
    with pytest.raises(asyncio.CancelledError):
        await job

    assert not runs(pid)


async def test_cancelling_a_waiting_job_leaves_the_child_running(pool: Pool[Word]) -> None:
    running = await busy(pool)
    before = pool.pids()
    waiting = asyncio.create_task(pool.run(Command("die"), 30))
    await asyncio.sleep(0)  # it is queued

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert pool.pids() == before and not running.done()
    running.cancel()


@pytest.mark.parametrize(
    ("given", "seen"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3"), ({"OMP_NUM_THREADS": "3"}, "")]
)
async def test_a_child_has_one_blas_thread_unless_the_operator_sets_another_number(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], seen: str
) -> None:
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, number in given.items():
        monkeypatch.setenv(name, number)
    async with started(child_pool(queue_max=2, job_deadline_s=5)) as pool:
        assert await pool.run(Command("environ", "OPENBLAS_NUM_THREADS"), 60) == Word(seen)
