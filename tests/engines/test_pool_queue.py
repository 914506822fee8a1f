"""The queue of a pool: fair over its keys; and children die with their parent."""

import asyncio
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from myna.engines.interface import CallerDisconnected, Client, EngineUnavailable
from myna.engines.pool.admission import LONG_S
from myna.engines.pool.pool import Pool
from myna.lib.shares import FairQueue
from tests.engines.conftest import busy, child_pool, started
from tests.engines.process_child import Command, StartMode, Word
from tests.rig.processes import runs
from tests.rig.waiting import until


@pytest.fixture
async def pool() -> AsyncIterator[Pool[Word]]:
    """One process and a long queue."""
    async with started(child_pool(queue_max=400)) as pool:
        yield pool


async def test_accounts_are_served_round_robin_and_each_in_order_of_arrival(pool: Pool[Word]) -> None:
    """All are queued while the child runs a job of "a"."""
    running = await busy(pool, queue_key="a")
    ended: list[str] = []

    async def one(number: int, key: str) -> None:
        ended.append((await pool.run(Command("echo", f"{key}{number}"), 60, Client(key))).word)

    jobs = [asyncio.create_task(one(number, key)) for number, key in enumerate("aaabbcb")]
    await asyncio.sleep(0)  # each task queues its job in its first step
    running.cancel()
    await asyncio.gather(*jobs)
    assert ended == ["b3", "c5", "a0", "b4", "a1", "b6", "a2"]


async def test_progress_reaches_its_own_caller_before_the_result(pool: Pool[Word]) -> None:
    mine: list[float] = []
    others: list[float] = []
    one, two, three = await asyncio.gather(
        pool.run(Command("steps", "one"), 60, Client(progress=mine.append)),
        pool.run(Command("echo", "two"), 60, Client(progress=others.append)),
        pool.run(Command("steps", "three"), 60),
    )
    assert (one, two, three) == (Word("one"), Word("two"), Word("three"))
    assert mine == [0.25, 0.5, 0.75, 1.0]
    assert others == []


async def test_an_exception_in_progress_fails_only_its_own_job(pool: Pool[Word]) -> None:
    def broken(_fraction: float) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await pool.run(Command("steps"), 60, Client(progress=broken))
    assert await pool.run(Command("echo", "again"), 60) == Word("again")


@pytest.mark.parametrize(
    ("mode", "reason"),
    [
        ("refuse", r"^This child refuses to start\.$"),
        ("break", r"^The engine's process ended before it was ready; its stderr says why\.$"),
        ("sleep", "in time"),
    ],
)
async def test_a_child_that_does_not_start_is_ended_and_names_no_secret(mode: str, reason: str) -> None:
    start_deadline_s = 0.5 if mode == "sleep" else 60
    pool = child_pool(queue_max=2, setup=StartMode(mode), start_deadline_s=start_deadline_s)
    with pytest.raises(EngineUnavailable, match=reason):
        await pool.start()
    assert not pool.pids()


async def test_a_cancelled_start_leaves_no_child(tmp_path: Path) -> None:
    place = tmp_path / "place"
    pool = child_pool(processes=2, queue_max=2, setup=StartMode(str(place)))
    starting = asyncio.create_task(pool.start())
    await until(lambda: (place / "pid").exists() and bool((place / "pid").read_text()))
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert not runs(int((place / "pid").read_text()))
    await pool.close()


async def test_long_jobs_leave_a_process_for_short_ones() -> None:
    async with started(child_pool(processes=2)) as pool:
        first, second = (
            asyncio.create_task(pool.run(Command(*command), 60, Client(command[0], LONG_S + 1)))
            for command in (("hang", ""), ("echo", "long"))
        )
        await asyncio.sleep(0)
        for _ in range(2):
            assert await pool.run(Command("echo", "short"), 60, Client("c")) == Word("short")
        assert not second.done()
        first.cancel()
        assert await second == Word("long")


async def test_on_one_process_long_and_short_jobs_alternate(pool: Pool[Word]) -> None:
    running = await busy(pool)
    ended: list[str] = []

    async def one(word: str, sound_s: float) -> None:
        ended.append((await pool.run(Command("echo", word), 60, Client(word, sound_s))).word)

    jobs = [asyncio.create_task(one(f"long {number}", LONG_S + 1)) for number in range(3)]
    jobs += [asyncio.create_task(one(f"short {number}", LONG_S)) for number in range(3)]
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(*jobs)
    assert ended == ["long 0", "short 0", "long 1", "short 1", "long 2", "short 2"]


@pytest.mark.parametrize("sound_s", [LONG_S, LONG_S + 1])
async def test_a_waiting_job_is_dropped_when_its_client_disconnects(pool: Pool[Word], sound_s: float) -> None:
    running = await busy(pool)
    disconnected = asyncio.Event()
    client = Client("b", sound_s, disconnected.wait)
    job = asyncio.create_task(pool.run(Command("die"), 60, client))
    await asyncio.sleep(0)
    disconnected.set()
    with pytest.raises(CallerDisconnected):
        await job
    running.cancel()


async def test_a_started_job_continues_when_its_client_disconnects(pool: Pool[Word]) -> None:
    running = await busy(pool)
    started = asyncio.Event()
    client = Client("b", disconnected=started.wait, progress=lambda _: started.set())
    job = asyncio.create_task(pool.run(Command("steps", "started"), 60, client))
    await asyncio.sleep(0)
    running.cancel()
    assert await job == Word("started")


def _filled(*items: str) -> FairQueue[str]:
    """The items, each under its first letter as the key."""
    queue: FairQueue[str] = FairQueue()
    for item in items:
        queue.put(item[0], item)
    return queue


def _served(queue: FairQueue[str]) -> str:
    """Takes the next item and records it as served."""
    item = queue.take()
    queue.served(item[0])
    return item


def test_a_requeued_item_is_next() -> None:
    queue = _filled("a1", "b1", "a2")
    assert _served(queue) == "a1"
    queue.requeue("a", "a1")
    assert [queue.take() for _ in range(3)] == ["a1", "a2", "b1"]
    with pytest.raises(IndexError):
        queue.take()


def test_an_item_taken_but_not_served_does_not_count_for_its_key() -> None:
    queue = _filled("a1", "a2", "b1")
    assert queue.take() == "a1"
    assert [_served(queue), _served(queue)] == ["a2", "b1"]


@pytest.mark.parametrize("callers", [8, 64])
@pytest.mark.parametrize("accounts", [64, 10_000])
def test_a_returning_key_does_not_wait_for_all_new_keys(callers: int, accounts: int) -> None:
    """A constant number of callers, each with a random account. A queue that served the key that was served
    longest ago would exceed these bounds."""
    queue: FairQueue[tuple[int, int]] = FairQueue()
    chance = random.Random(1)
    waits: list[int] = []
    for now in range(callers + 20_000):
        if now >= callers:
            account, came = queue.take()
            queue.served(account)
            waits.append(now - came)
        account = chance.randrange(accounts)
        queue.put(account, (account, now))
    waits.sort()
    assert waits[len(waits) * 99 // 100] <= 4 * callers
    assert waits[-1] <= 8 * callers


_ROOT = str(Path(__file__).parents[2])
_PARENT = """
import asyncio
from tests.engines.conftest import child_pool
from tests.engines.process_child import Command

async def main():
    pool = child_pool(processes=2, queue_max=2, job_deadline_s=600)
    await pool.start()
    job = asyncio.create_task(pool.run(Command("hang"), 600))
    while len(pool._idle) != 1:
        await asyncio.sleep(0.01)
    print(*pool.pids(), flush=True)
    await job

asyncio.run(main())
"""


@contextmanager
def _parent() -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(
        [sys.executable, "-c", _PARENT], stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": _ROOT}
    ) as parent:
        try:
            yield parent
        finally:
            parent.kill()


async def test_a_busy_and_an_idle_child_die_with_their_parent() -> None:
    with _parent() as parent:
        assert parent.stdout is not None
        line = await asyncio.to_thread(parent.stdout.readline)
        children = [int(pid) for pid in line.split()]
        assert len(children) == 2 and all(runs(pid) for pid in children)

        parent.kill()

        await until(lambda: not any(runs(pid) for pid in children))
