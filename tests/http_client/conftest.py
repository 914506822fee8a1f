"""A test of the client runs on the event loop of a service, and one marked so with `on_both_loops` on that of
a compute node too; servers and clients are closed after it."""

from collections.abc import AsyncIterator, Callable

import pytest

from myna.http.client import HttpClient
from tests.http_client.faulty_server import Behaviour, FaultyServer

UVLOOP = ("asyncio", {"use_uvloop": True})
ASYNCIO = ("asyncio", {"use_uvloop": False})
on_both_loops = pytest.mark.parametrize("anyio_backend", [UVLOOP, ASYNCIO], ids=["uvloop", "asyncio"])

Serve = Callable[[Behaviour], "FaultyServer"]


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    return UVLOOP


@pytest.fixture(autouse=True)
def idle_connections_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is used again however long the machine takes for a test."""
    monkeypatch.setattr("myna.http.client.client.IDLE_MAX_S", 600.0)


@pytest.fixture
async def outbound() -> AsyncIterator[HttpClient]:
    """A client that reuses a connection at once; `test_answers.py` tests why it otherwise waits."""
    client = HttpClient(connections_max=3, reuse_after_s=0)
    yield client
    await client.close()


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """`serve(behaviour)` returns a listening server."""
    servers: list[FaultyServer] = []

    def start(behaviour: Behaviour) -> FaultyServer:
        servers.append(FaultyServer(behaviour))
        return servers[-1]

    yield start
    for server in servers:
        await server.close()
