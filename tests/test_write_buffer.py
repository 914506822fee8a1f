"""What keeps the event loop free: the write buffer and threads for disks."""

import asyncio
import gc
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from myna.lib.aio import FlushQueue, WriteBuffer
from myna.lib.files import DiskThreads, wait_shielded
from tests.rig.disks import StalledDisk
from tests.rig.waiting import until

SOON_S = 60.0


class Reader(asyncio.Protocol):
    """The other end of a connection: the pieces it received, and whether the connection ended."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


@asynccontextmanager
async def connections(count: int) -> AsyncIterator[list[tuple[asyncio.Transport, Reader]]]:
    """The writing ends of real connections, each with its reader."""
    loop = asyncio.get_running_loop()
    readers: list[Reader] = []

    def reader() -> Reader:
        readers.append(Reader())
        return readers[-1]

    server = await loop.create_server(reader, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    made = []
    for number in range(count):
        transport, _ = await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
        while len(readers) <= number:  # noqa: ASYNC110 - the event loop fills it
            await asyncio.sleep(0)
        made.append((transport, readers[number]))
    yield made
    for transport, _ in made:
        transport.abort()
    server.close()
    await server.wait_closed()


async def received(reader: Reader, size: int) -> bytes:
    async with asyncio.timeout(SOON_S):
        while sum(map(len, reader.pieces)) < size:  # noqa: ASYNC110 - the event loop fills it
            await asyncio.sleep(0)
    return b"".join(reader.pieces)


async def test_the_writes_of_one_iteration_are_sent_as_one() -> None:
    async with connections(2) as [(first, reader), (second, other)]:
        queue = FlushQueue()
        buffers = WriteBuffer(first, queue), WriteBuffer(second, queue)
        for piece in (b"head ", b"body ", b"end"):
            for buffer in buffers:
                buffer.write(piece)
        assert buffers[0].unsent
        assert first.get_write_buffer_size() == 0
        assert buffers[0].get_write_buffer_size() == 13
        assert await received(reader, 13) == await received(other, 13) == b"head body end"
        assert len(reader.pieces) == len(other.pieces) == 1
        assert not buffers[0].unsent


@pytest.mark.parametrize("end", ["close", "flush_and_abort"])
async def test_buffered_data_is_sent_before_the_end(end: str) -> None:
    async with connections(1) as [(transport, reader)]:
        buffer = WriteBuffer(transport, FlushQueue())
        buffer.write(b"the last words")
        getattr(buffer, end)()
        assert buffer.is_closing()
        assert await received(reader, 14) == b"the last words"
        await asyncio.wait_for(reader.ended.wait(), SOON_S)


async def test_abort_discards_buffered_data() -> None:
    async with connections(1) as [(transport, reader)]:
        buffer = WriteBuffer(transport, FlushQueue())
        buffer.write(b"never")
        buffer.abort()
        await asyncio.wait_for(reader.ended.wait(), SOON_S)
        assert reader.pieces == []


async def test_a_closing_connection_leaves_its_data_unsent() -> None:
    async with connections(1) as [(transport, _)]:
        buffer = WriteBuffer(transport, FlushQueue())
        buffer.write(b"never")
        transport.abort()
        buffer.flush()
        assert buffer.unsent


async def test_a_write_buffer_that_fails_is_reported_and_the_others_are_flushed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop, reported = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: reported.append(context["exception"]))
    fault = RuntimeError("broken")

    def fails() -> None:
        raise fault

    async with connections(2) as [(broken, silent), (there, reader)]:
        queue = FlushQueue()
        first, second = WriteBuffer(broken, queue), WriteBuffer(there, queue)
        first.write(b"never")
        second.write(b"heard")
        monkeypatch.setattr(first, "flush", fails)
        assert await received(reader, 5) == b"heard"
        monkeypatch.undo()
        assert broken.is_closing()
    assert reported == [fault]
    assert silent.pieces == []


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


def test_a_process_ends_while_the_disk_is_stalled() -> None:
    program = """
import asyncio, threading, time
from myna.lib.files import DiskThreads

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
