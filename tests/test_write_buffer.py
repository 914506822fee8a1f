"""Writes of one event loop iteration are sent together and in order; none is lost or delayed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from myna.aio.write_buffer import LARGE_BYTES, FlushQueue, WriteBuffer

pytestmark = pytest.mark.anyio

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


async def test_each_iteration_flushes() -> None:
    async with connections(1) as [(transport, reader)]:
        buffer = WriteBuffer(transport, FlushQueue())
        buffer.write(b"one ")
        await received(reader, 4)
        buffer.write(b"two")
        assert await received(reader, 7) == b"one two"


async def test_a_large_write_is_sent_at_once_and_in_order() -> None:
    async with connections(1) as [(transport, reader)]:
        buffer = WriteBuffer(transport, FlushQueue())
        buffer.write(b"little ")
        buffer.write(bytes(LARGE_BYTES))
        assert not buffer.unsent
        buffer.write(b" more")
        assert await received(reader, LARGE_BYTES + 12) == b"little " + bytes(LARGE_BYTES) + b" more"


@pytest.mark.parametrize("end", ["close", "flush_and_abort"])
async def test_buffered_data_is_sent_before_the_end(end: str) -> None:
    async with connections(1) as [(transport, reader)]:
        buffer = WriteBuffer(transport, FlushQueue())
        buffer.write(b"the last words")
        getattr(buffer, end)()
        assert buffer.is_closing()
        assert await received(reader, 14) == b"the last words"
        async with asyncio.timeout(SOON_S):
            await reader.ended.wait()


async def test_an_aborted_connection_does_not_delay_others() -> None:
    async with connections(2) as [(aborted, silent), (there, reader)]:
        queue = FlushQueue()
        first, second = WriteBuffer(aborted, queue), WriteBuffer(there, queue)
        first.write(b"never")
        second.write(b"heard")
        aborted.abort()
        assert await received(reader, 5) == b"heard"
        assert silent.pieces == []


async def test_a_written_buffer_may_change_afterwards() -> None:
    async with connections(1) as [(transport, reader)]:
        buffer = bytearray(b"as it was")
        WriteBuffer(transport, FlushQueue()).write(buffer)
        buffer[:] = b"different"
        assert await received(reader, 9) == b"as it was"


async def test_abort_discards_buffered_data() -> None:
    async with connections(1) as [(transport, reader)]:
        buffer = WriteBuffer(transport, FlushQueue())
        buffer.write(b"never")
        buffer.abort()
        async with asyncio.timeout(SOON_S):
            await reader.ended.wait()
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
