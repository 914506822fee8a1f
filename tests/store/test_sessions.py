"""The settings of Myna's sessions at PostgreSQL, also through a pooler."""

import asyncio
import struct
from collections.abc import AsyncIterator

import pytest

from myna.store.postgresql import Postgresql, PostgresqlConnection
from myna.store.postgresql_batch import BatchWriter, LockPolicy
from myna.store.schema import SchemaWatch
from tests.rig.waiting import until

_SSL_REQUEST = 80877103
_TRACKED = {"user", "database", "application_name", "client_encoding"}
"""The startup parameters that PgBouncer accepts; it disconnects on any other."""


class StartupServer:
    """Accepts connections, reads their startup message (PostgreSQL: "Message Formats"), then closes them."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.url = ""

    async def __aenter__(self) -> "StartupServer":
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"postgresql://myna@127.0.0.1:{port}/myna"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        (code, said) = await _message(reader)
        if code == _SSL_REQUEST:
            writer.write(b"N")
            (code, said) = await _message(reader)
        self.asked |= {name.decode() for name in said.split(b"\0")[:-2:2]}
        writer.close()


async def _message(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    size, code = struct.unpack(">II", await reader.readexactly(8))
    return code, await reader.readexactly(size - 8)


@pytest.fixture
async def db(postgres_url: str) -> AsyncIterator[Postgresql]:
    opened = await Postgresql.open(postgres_url)
    yield opened
    await opened.close()


async def test_connections_send_only_parameters_that_poolers_accept(db: Postgresql) -> None:
    async with StartupServer() as server:
        with pytest.raises(db.unavailable):
            await Postgresql.open(server.url)
        assert server.asked == _TRACKED
        server.asked.clear()
        with pytest.raises(db.unavailable):
            await BatchWriter(server.url, "a writer", LockPolicy.NONE, SchemaWatch("postgresql")).connection()
        assert server.asked == _TRACKED


async def test_a_cancelled_transaction_leaves_nothing_in_its_session(db: Postgresql) -> None:
    sleeps = asyncio.Event()

    async def sleep(raw: PostgresqlConnection) -> None:
        await raw.fetch(raw.queue_lock)
        sleeps.set()
        await raw.fetch("SELECT pg_sleep(60)")

    sleeping = asyncio.create_task(db.transaction(sleep))
    await sleeps.wait()
    await asyncio.sleep(0.1)
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    for _ in range(3):
        assert [row[0] for row in await db.fetch("SHOW jit")] == ["off"]

    async def no_lock() -> bool:
        return not await db.fetch("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = 77121111")

    await until(no_lock, "the lock is free")


async def test_a_session_keeps_its_settings(db: Postgresql, writer: BatchWriter) -> None:
    for _ in range(3):
        assert [row[0] for row in await db.fetch("SHOW jit")] == ["off"]
        rows = await db.transaction(lambda raw: raw.fetch("SHOW idle_in_transaction_session_timeout"))
        assert [row[0] for row in rows] == ["10s"]
    for name, value in (("jit", "off"), ("lock_timeout", "100ms"), ("plan_cache_mode", "force_generic_plan")):
        assert await (await writer.connection()).fetchval(f"SHOW {name}") == value
