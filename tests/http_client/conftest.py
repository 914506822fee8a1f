"""Every test of the client runs on both event loops; servers and clients are closed after it."""

from collections.abc import AsyncIterator, Callable

import pytest

from myna.http_client import HttpClient
from tests.http_client.faulty_server import Behaviour, FaultyServer

LOOPS = [
    pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
    pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
]

Serve = Callable[[Behaviour], "FaultyServer"]


@pytest.fixture(params=LOOPS)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    backend: tuple[str, dict[str, bool]] = request.param
    return backend


@pytest.fixture(autouse=True)
def idle_connections_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection is used again however long the machine takes for a test."""
    monkeypatch.setattr("myna.http_client.idle.IDLE_MAX_S", 600.0)


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
