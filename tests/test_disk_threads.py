"""Threads of the disk's own: they hold up nobody else, whatever the disk does, and not the process's end."""

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from functools import partial

import pytest

from myna.disk_threads import DiskThreads, settled
from myna.logs import request_id
from tests.engines.conftest import until
from tests.rig.disks import StillDisk

pytestmark = pytest.mark.anyio


@pytest.fixture
def disk() -> Iterator[StillDisk]:
    still = StillDisk()
    yield still
    still.goes_on()


async def test_work_has_its_outcome_or_its_error() -> None:
    threads = DiskThreads(1)
    assert await threads.do(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.do(lambda: 1 // 0)
    assert await threads.do(lambda: "still there") == "still there"


async def test_as_much_is_done_at_a_time_as_there_are_threads(disk: StillDisk) -> None:
    threads = DiskThreads(2)
    all_three = [threads.do(partial(disk.take, name)) for name in ("a", "b", "c")]
    await until(lambda: len(disk.asked) == 2)
    await asyncio.sleep(0.05)
    assert disk.asked == ["a", "b"]
    disk.goes_on()
    assert await asyncio.gather(*all_three) == ["a", "b", "c"]


async def test_work_that_nobody_waits_for_any_more_is_not_begun(disk: StillDisk) -> None:
    threads = DiskThreads(1)
    first, second = threads.do(lambda: disk.take("first")), threads.do(lambda: disk.take("second"))
    second.cancel()
    await asyncio.sleep(0)
    disk.goes_on()
    assert await first == "first"
    assert await threads.do(lambda: "third") == "third"
    assert disk.asked == ["first"]


async def test_what_waits_is_counted(disk: StillDisk) -> None:
    threads = DiskThreads(1)
    all_three = [threads.do(partial(disk.take, name)) for name in ("a", "b", "c")]
    await until(lambda: len(disk.asked) == 1)
    assert threads.waiting == 2
    disk.goes_on()
    await asyncio.gather(*all_three)
    assert threads.waiting == 0


async def test_work_knows_whose_it_is() -> None:
    token = request_id.set("abc")
    assert await DiskThreads(1).do(request_id.get) == "abc"
    request_id.reset(token)


async def test_nothing_is_kept_of_work_that_is_over() -> None:
    class Large:
        pass

    threads = DiskThreads(1)
    result = weakref.ref(await threads.do(Large))
    await until(lambda: result() is None)


async def test_who_is_cancelled_again_and_again_waits_all_the_same(disk: StillDisk) -> None:
    done = DiskThreads(1).do(lambda: disk.take("it"))
    waiting = asyncio.create_task(settled(done, 30))
    for _ in range(3):
        await asyncio.sleep(0.02)
        waiting.cancel()
    await asyncio.sleep(0.02)
    assert not waiting.done()
    disk.goes_on()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert done.result() == "it"


async def test_nobody_waits_longer_than_that_and_the_work_goes_on(disk: StillDisk) -> None:
    done = DiskThreads(1).do(lambda: disk.take("it"))
    began_s = time.monotonic()
    await settled(done, 0.1)
    assert 0.1 <= time.monotonic() - began_s < 5
    assert not done.done()
    disk.goes_on()
    assert await done == "it"


async def test_whoever_settles_meets_no_error_and_hides_none_from_its_owner() -> None:
    failing = DiskThreads(1).do(lambda: 1 // 0)
    await settled(failing)
    assert isinstance(failing.exception(), ZeroDivisionError)
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    await settled(DiskThreads(1).do(lambda: 1 // 0))
    gc.collect()
    await asyncio.sleep(0)
    assert complaints == []


def test_the_end_of_the_event_loop_cancels_no_work(disk: StillDisk) -> None:
    """`asyncio.run` cancels the tasks that are left, and waits for what they still do."""
    seen: list[str] = []

    async def clears_up() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await settled(DiskThreads(1).do(lambda: seen.append(disk.take("cleared"))), 30)
            seen.append("over")

    async def main() -> None:
        left_over.append(asyncio.create_task(clears_up()))
        await asyncio.sleep(0)
        threading.Timer(0.1, disk.goes_on).start()

    left_over: list[asyncio.Task[None]] = []
    asyncio.run(main())
    assert seen == ["cleared", "over"]


async def test_the_threads_begin_with_the_work_and_end_with_their_owner() -> None:
    before = set(threading.enumerate())
    threads = DiskThreads(3)
    assert set(threading.enumerate()) == before
    assert await asyncio.gather(*(threads.do(lambda: 1) for _ in range(9))) == [1] * 9
    own = set(threading.enumerate()) - before
    assert len(own) == 3
    del threads
    for thread in own:
        thread.join(10)
    assert not any(thread.is_alive() for thread in own)


def test_a_process_ends_while_the_disk_stands_still() -> None:
    program = """
import asyncio, time
from myna.disk_threads import DiskThreads

async def main():
    threads = DiskThreads(1)
    work = threads.do(lambda: print("begun", flush=True) or time.sleep(600))
    await asyncio.wait([work], timeout=0.2)

asyncio.run(main())
print("over", flush=True)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=30, check=False)
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, [b"begun", b"over"], b"")
