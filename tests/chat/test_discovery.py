"""Chat servers on this machine are found by their list of models, and anything else is left out."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import pytest

from myna.chat.discovery import KNOWN, MODELS_MAX, FoundServer, KnownServer, find_servers
from myna.http_client import HttpClient
from tests.rig.waiting import free_port

pytestmark = pytest.mark.anyio

OTHER_PORT = 1


@contextlib.asynccontextmanager
async def server(body: bytes, status: str = "200 OK") -> AsyncIterator[KnownServer]:
    """A server that answers every request with this body."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"GET /v1/models ")
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        )
        writer.write(body)
        writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with listening:
        port = listening.sockets[0].getsockname()[1]
        yield KnownServer("ollama", "Ollama", f"http://127.0.0.1:{port}/v1")


async def found(*known: KnownServer, own_port: int = OTHER_PORT) -> list[FoundServer]:
    client = HttpClient(connections_max=4)
    try:
        return await find_servers(client, own_port, known)
    finally:
        await client.close()


async def test_a_server_is_found_with_its_models() -> None:
    listed = {"object": "list", "data": [{"id": "llama3.2"}, {"id": "qwen3", "object": "model"}]}
    async with server(json.dumps(listed).encode()) as known:
        assert await found(known) == [FoundServer(known, ["llama3.2", "qwen3"])]


@pytest.mark.parametrize("body", [b'{"object":"list","data":null}', b'{"data":[]}'])
async def test_a_server_without_models_is_found(body: bytes) -> None:
    async with server(body) as known:
        assert await found(known) == [FoundServer(known, [])]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"<html>some other program</html>", "200 OK"),
        (b'["a list"]', "200 OK"),
        (b'{"data":[{"id":7}]}', "200 OK"),
        (b'{"data":[{"id":"m"}]}', "401 Unauthorized"),
    ],
)
async def test_another_program_is_left_out(body: bytes, status: str) -> None:
    async with server(body, status) as known:
        assert await found(known) == []


async def test_a_port_without_a_server_and_the_own_port_are_left_out() -> None:
    no_server = KnownServer("vllm", "vLLM", f"http://127.0.0.1:{free_port()}/v1")
    async with server(b'{"data":[{"id":"m"}]}') as known:
        port = int(known.url.split(":")[2].removesuffix("/v1"))
        assert await found(no_server, known, own_port=port) == []


async def test_names_and_numbers_of_models_are_bounded() -> None:
    models = [{"id": "x" * 201}, {"id": "a\nb"}, *({"id": f"m{number}"} for number in range(MODELS_MAX + 1))]
    async with server(json.dumps({"data": models}).encode()) as known:
        (one,) = await found(known)
        assert one.models == [f"m{number}" for number in range(MODELS_MAX)]


def test_only_loopback_is_searched() -> None:
    assert {server.url.split(":")[1] for server in KNOWN} == {"//127.0.0.1"}
