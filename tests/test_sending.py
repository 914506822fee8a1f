"""Writes of one turn of the event loop leave together, in their order, and none is lost or held for long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from myna.sending import LARGE_BYTES, Outlet, Turn

pytestmark = pytest.mark.anyio

SOON_S = 10.0


class Reader(asyncio.Protocol):
    """What the other end of a connection hears, piece by piece, and whether it ended."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


@asynccontextmanager
async def connections(count: int) -> AsyncIterator[list[tuple[asyncio.Transport, Reader]]]:
    """The writing ends of real connections, and who reads at the other end of each."""
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


async def heard(reader: Reader, size: int) -> bytes:
    async with asyncio.timeout(SOON_S):
        while sum(map(len, reader.pieces)) < size:  # noqa: ASYNC110 - the event loop fills it
            await asyncio.sleep(0)
    return b"".join(reader.pieces)


async def test_what_one_turn_writes_is_one_piece() -> None:
    async with connections(2) as [(first, reader), (second, other)]:
        turn = Turn()
        outlets = Outlet(first, turn), Outlet(second, turn)
        for piece in (b"head ", b"body ", b"end"):
            for outlet in outlets:
                outlet.write(piece)
        assert outlets[0].unsent
        assert first.get_write_buffer_size() == 0
        assert outlets[0].get_write_buffer_size() == 13
        assert await heard(reader, 13) == await heard(other, 13) == b"head body end"
        assert len(reader.pieces) == len(other.pieces) == 1
        assert not outlets[0].unsent


async def test_each_turn_sends_its_own() -> None:
    async with connections(1) as [(transport, reader)]:
        outlet = Outlet(transport, Turn())
        outlet.write(b"one ")
        await heard(reader, 4)
        outlet.write(b"two")
        assert await heard(reader, 7) == b"one two"


async def test_much_leaves_at_once_and_behind_what_was_held() -> None:
    async with connections(1) as [(transport, reader)]:
        outlet = Outlet(transport, Turn())
        outlet.write(b"little ")
        outlet.write(bytes(LARGE_BYTES))
        assert not outlet.unsent
        outlet.write(b" more")
        assert await heard(reader, LARGE_BYTES + 12) == b"little " + bytes(LARGE_BYTES) + b" more"


@pytest.mark.parametrize("end", ["close", "abort"])
async def test_what_was_written_before_the_end_leaves_before_it(end: str) -> None:
    async with connections(1) as [(transport, reader)]:
        outlet = Outlet(transport, Turn())
        outlet.write(b"the last words")
        getattr(outlet, end)()
        assert outlet.is_closing()
        assert await heard(reader, 14) == b"the last words"
        async with asyncio.timeout(SOON_S):
            await reader.ended.wait()


async def test_a_connection_that_is_gone_holds_up_nobody_else() -> None:
    async with connections(2) as [(gone, silent), (there, reader)]:
        turn = Turn()
        first, second = Outlet(gone, turn), Outlet(there, turn)
        first.write(b"never")
        second.write(b"heard")
        gone.abort()
        assert await heard(reader, 5) == b"heard"
        assert silent.pieces == []


async def test_what_is_written_may_change_afterwards() -> None:
    async with connections(1) as [(transport, reader)]:
        buffer = bytearray(b"as it was")
        Outlet(transport, Turn()).write(buffer)
        buffer[:] = b"different"
        assert await heard(reader, 9) == b"as it was"


async def test_what_is_dropped_never_leaves() -> None:
    async with connections(1) as [(transport, reader)]:
        outlet = Outlet(transport, Turn())
        outlet.write(b"never")
        outlet.drop()
        async with asyncio.timeout(SOON_S):
            await reader.ended.wait()
        assert reader.pieces == []


async def test_what_a_closing_connection_held_stays_unsent() -> None:
    async with connections(1) as [(transport, _)]:
        outlet = Outlet(transport, Turn())
        outlet.write(b"never")
        transport.abort()
        outlet.flush()
        assert outlet.unsent


async def test_an_outlet_that_fails_is_reported_and_the_others_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, reported = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, told: reported.append(told["exception"]))
    fault = RuntimeError("of its own")

    def fails() -> None:
        raise fault

    async with connections(2) as [(broken, silent), (there, reader)]:
        turn = Turn()
        first, second = Outlet(broken, turn), Outlet(there, turn)
        first.write(b"never")
        second.write(b"heard")
        monkeypatch.setattr(first, "flush", fails)
        assert await heard(reader, 5) == b"heard"
        monkeypatch.undo()
        assert broken.is_closing()
    assert reported == [fault]
    assert silent.pieces == []
