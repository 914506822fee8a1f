"""Disk threads: a stalled disk delays neither other work nor the end of the process."""

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

from myna.files.disk_threads import DiskThreads, wait_shielded
from myna.telemetry.logs import request_id
from tests.engines.conftest import until
from tests.rig.disks import StalledDisk

pytestmark = pytest.mark.anyio


@pytest.fixture
def disk() -> Iterator[StalledDisk]:
    stalled = StalledDisk()
    yield stalled
    stalled.resume()


async def test_a_job_returns_its_result_or_raises_its_error() -> None:
    threads = DiskThreads(1)
    assert await threads.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    assert await threads.run(lambda: "still there") == "still there"


async def test_no_more_jobs_run_at_once_than_there_are_threads(disk: StalledDisk) -> None:
    threads = DiskThreads(2)
    jobs = [threads.run(partial(disk.block, name)) for name in ("a", "b", "c")]
    await until(lambda: len(disk.calls) == 2)
    await asyncio.sleep(0.05)
    assert set(disk.calls) == {"a", "b"}
    disk.resume()
    assert await asyncio.gather(*jobs) == ["a", "b", "c"]


async def test_a_cancelled_job_is_not_begun(disk: StalledDisk) -> None:
    threads = DiskThreads(1)
    first, second = threads.run(lambda: disk.block("first")), threads.run(lambda: disk.block("second"))
    second.cancel()
    await asyncio.sleep(0)
    disk.resume()
    assert await first == "first"
    assert await threads.run(lambda: "third") == "third"
    assert disk.calls == ["first"]


async def test_queued_jobs_are_counted(disk: StalledDisk) -> None:
    threads = DiskThreads(1)
    jobs = [threads.run(partial(disk.block, name)) for name in ("a", "b", "c")]
    await until(lambda: len(disk.calls) == 1)
    assert threads.queued == 2
    disk.resume()
    await asyncio.gather(*jobs)
    assert threads.queued == 0


async def test_a_job_runs_in_the_context_of_its_caller() -> None:
    token = request_id.set("abc")
    assert await DiskThreads(1).run(request_id.get) == "abc"
    request_id.reset(token)


async def test_the_result_of_a_finished_job_is_freed() -> None:
    class Large:
        pass

    threads = DiskThreads(1)
    result = weakref.ref(await threads.run(Large))
    await until(lambda: result() is None)


async def test_a_shielded_wait_continues_when_cancelled_repeatedly(disk: StalledDisk) -> None:
    future = DiskThreads(1).run(lambda: disk.block("it"))
    waiting = asyncio.create_task(wait_shielded(future, 30))
    for _ in range(3):
        await asyncio.sleep(0.02)
        waiting.cancel()
    await asyncio.sleep(0.02)
    assert not waiting.done()
    disk.resume()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert future.result() == "it"


async def test_a_shielded_wait_times_out_and_the_job_continues(disk: StalledDisk) -> None:
    future = DiskThreads(1).run(lambda: disk.block("it"))
    began_s = time.monotonic()
    await wait_shielded(future, 0.1)
    assert time.monotonic() - began_s >= 0.1
    assert not future.done()
    disk.resume()
    assert await future == "it"


async def test_a_shielded_wait_raises_no_error_and_leaves_it_to_the_owner() -> None:
    failing = DiskThreads(1).run(lambda: 1 // 0)
    await wait_shielded(failing)
    assert isinstance(failing.exception(), ZeroDivisionError)
    reports: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
    await wait_shielded(DiskThreads(1).run(lambda: 1 // 0))
    gc.collect()
    await asyncio.sleep(0)
    assert reports == []


def test_the_end_of_the_event_loop_cancels_no_disk_job(disk: StalledDisk) -> None:
    """`asyncio.run` cancels the remaining tasks and waits for their cleanup."""
    seen: list[str] = []

    async def cleans_up() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await wait_shielded(DiskThreads(1).run(lambda: seen.append(disk.block("cleared"))), 30)
            seen.append("over")

    async def main() -> None:
        left_over.append(asyncio.create_task(cleans_up()))
        await asyncio.sleep(0)
        threading.Timer(0.1, disk.resume).start()

    left_over: list[asyncio.Task[None]] = []
    asyncio.run(main())
    assert seen == ["cleared", "over"]


async def test_threads_start_on_demand_and_end_with_their_owner() -> None:
    before = set(threading.enumerate())
    threads = DiskThreads(3)
    assert set(threading.enumerate()) == before
    assert await asyncio.gather(*(threads.run(lambda: 1) for _ in range(9))) == [1] * 9
    own = set(threading.enumerate()) - before
    assert len(own) == 3
    del threads
    for thread in own:
        thread.join(10)
    assert not any(thread.is_alive() for thread in own)


def test_a_process_ends_while_the_disk_is_stalled() -> None:
    program = """
import asyncio, threading, time
from myna.files.disk_threads import DiskThreads

async def main():
    threads = DiskThreads(1)
    begun = threading.Event()
    threads.run(lambda: print("started", flush=True) or begun.set() or time.sleep(600))
    await asyncio.to_thread(begun.wait)

asyncio.run(main())
print("over", flush=True)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, [b"started", b"over"], b"")
