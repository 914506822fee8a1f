"""Timeouts and limits of a client connection."""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import pytest

from myna.http import connection
from myna.http.server_config import ADDRESS_MIN
from tests.http.local_server import LocalServer, RawConnection, local_server
from tests.rig.waiting import until

SHORT_S = 0.1
LONG_S = 600.0


@pytest.fixture(autouse=True)
def long_timeouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only tests of the timeout of heads have a short one."""
    monkeypatch.setattr(connection, "HEADERS_TIMEOUT_S", LONG_S)


@pytest.fixture
def short_timeouts(long_timeouts: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes the timeout of heads short from the call on."""
    return lambda: monkeypatch.setattr(connection, "HEADERS_TIMEOUT_S", SHORT_S)


@pytest.mark.parametrize(
    "first", [b"", b"GET /body HTTP/1.1\r\nX: ", b"\r\n\r\n"], ids=["nothing", "field", "blank"]
)
async def test_an_incomplete_head_ends_a_connection(first: bytes, short_timeouts: Callable[[], None]) -> None:
    short_timeouts()
    async with local_server() as local:
        client = await local.connect()
        client.send(first)
        assert await client.is_closed()


async def send_slowly(client: RawConnection) -> None:
    while not client.writer.is_closing():
        client.send(b"x")
        await asyncio.sleep(SHORT_S / 10)


async def test_the_rest_of_an_unread_body_has_a_timeout(short_timeouts: Callable[[], None]) -> None:
    async with local_server() as local:
        client = await local.connect()
        await until(lambda: local.connections == 1)
        short_timeouts()
        client.ask("/nowhere-to-post", "POST", b"Content-Length: 1000000\r\n")
        assert b"204" in await client.reader.readuntil(b"\r\n\r\n")
        drops = asyncio.create_task(send_slowly(client))
        assert await client.is_closed()
        drops.cancel()


async def test_the_timeout_of_heads_ends_no_call_in_progress(short_timeouts: Callable[[], None]) -> None:
    async with local_server() as local:
        client = await local.connect()
        client.ask("/blocked")
        await until(lambda: local.started == 1)
        short_timeouts()
        client.send(b"GET /blocked HT")
        sent = time.monotonic()
        await until(lambda: time.monotonic() > sent + 2 * SHORT_S)  # longer than the timeout of heads
        local.release.set()
        assert await client.answer() == (200, b"done")


async def test_a_client_that_reads_no_answer_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WRITE_STALL_MAX_S", SHORT_S)
    async with local_server() as local:
        client = await local.connect()
        client.ask("/large", lines=b"Connection: close\r\n")
        await until(lambda: local.logged != [])
        await until(lambda: local.connections == 0)


async def test_pipelined_requests_are_answered_up_to_their_limit() -> None:
    async with local_server() as local:
        client = await local.connect()
        client.send(b"GET /blocked HTTP/1.1\r\nHost: x\r\n\r\n" * 5000)
        local.release.set()
        answers = 0
        try:
            while (await client.answer())[0] == 200:
                answers += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the end of the connection
        assert 1 <= answers <= connection.PIPELINED_MAX + 1
        assert local.started == answers


async def test_a_connection_over_the_limit_is_refused_until_another_closes() -> None:
    async with local_server(connections_max=2) as local:
        clients = [await local.connect() for _ in range(2)]
        await until(lambda: local.connections == 2)
        extra = await local.connect()
        extra.ask("/body", "POST", b"Content-Length: 0\r\n")
        status, body = await extra.answer()
        assert status == 503
        assert b"service_unavailable" in body
        assert await extra.is_closed()
        await clients[0].disconnect()
        await until(lambda: local.connections == 1)
        await check_it_serves(local)


async def test_a_connection_over_the_limit_is_for_health_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "REFUSAL_WAIT_S", LONG_S)
    async with local_server(connections_max=1) as local:
        await local.connect()
        await until(lambda: local.connections == 1)
        for path, status in (("/healthz", 204), ("/readyz?x=1", 204), ("/metrics", 204), ("/blocked", 503)):
            extra = await local.connect()
            extra.ask(path)
            extra.ask("/body", "POST", b"Content-Length: 0\r\n")
            head = await extra.reader.readuntil(b"\r\n\r\n")
            assert int(head.split()[1]) == status
            assert b"connection: close" in head
            assert b"HTTP/1.1 200" not in await extra.reader.read()
        slow = await local.connect()
        for part in (b"GET /heal", b"thz HTTP/1.1\r\n", b"Host: x\r\n\r\n"):
            slow.send(part)
            await asyncio.sleep(0)
        assert b" 204 " in await slow.reader.readuntil(b"\r\n\r\n")
        await until(lambda: local.connections == 1)
        assert local.server.config.over_limit_count == 0
        assert local.started == 0


HEADS = (b"", b"GET /body HTTP/1.1\r\nX: ", b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nabc")


@pytest.mark.parametrize("head", HEADS, ids=["nothing", "half a head", "half a body"])
async def test_slow_clients_of_an_address_leave_connections_to_others(
    monkeypatch: pytest.MonkeyPatch, head: bytes
) -> None:
    monkeypatch.setattr(connection, "REFUSAL_WAIT_S", LONG_S)
    async with local_server(connections_max=2 * ADDRESS_MIN) as local:
        slow = [await local.connect() for _ in range(ADDRESS_MIN)]
        for client in slow:
            client.send(head)
        await until(lambda: local.connections == ADDRESS_MIN)
        refused = await local.connect()
        refused.ask("/body", "POST", b"Content-Length: 0\r\n")
        answer = await refused.reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 503 ") and b"\r\nRetry-After: 1\r\n" in answer
        for _ in range(ADDRESS_MIN):
            other = await local.connect("127.0.0.2")
            other.ask("/body", "POST", b"Content-Length: 0\r\n")
            assert await other.answer() == (200, b"0")
        await slow[0].disconnect()
        await refused.disconnect()
        await until(lambda: local.connections == 2 * ADDRESS_MIN - 1)
        await check_it_serves(local)


async def test_calls_in_progress_do_not_count_and_idle_connections_do() -> None:
    async with local_server(connections_max=2 * ADDRESS_MIN) as local:
        busy = []
        for number in range(ADDRESS_MIN + 2):
            busy.append(await local.connect())
            busy[-1].ask("/blocked")
            await until(partial(local.has_started, number + 1))
        local.release.set()
        assert [await client.answer() for client in busy] == [(200, b"done")] * len(busy)
        await until(lambda: local.connections == ADDRESS_MIN)


async def test_a_trusted_proxy_may_have_all_connections_wait() -> None:
    async with local_server(connections_max=4 * ADDRESS_MIN, trusted_proxies="127.0.0.1") as local:
        for _ in range(3 * ADDRESS_MIN):
            await local.connect()
        await until(lambda: local.connections == 3 * ADDRESS_MIN)
        await check_it_serves(local)


async def test_a_poll_ends_when_its_client_half_closes() -> None:
    async with local_server() as local:
        client = await local.connect()
        client.ask("/until-disconnected")
        await until(lambda: local.started == 1)
        client.writer.write_eof()
        assert await client.answer() == (200, b"disconnected")
        assert await client.is_closed()


async def check_it_serves(local: LocalServer) -> None:
    client = await local.connect()
    client.ask("/body", "POST", b"Content-Length: 0\r\n")
    assert await client.answer() == (200, b"0")


async def test_a_reset_connection_is_released() -> None:
    async with local_server() as local:
        client = await local.connect()
        client.ask("/body", "POST", b"Content-Length: 0\r\n")
        assert await client.answer() == (200, b"0")
        assert len(local.server.config.keep_alive_timeouts) == 1
        client.reset()
        await until(lambda: local.connections == 0)
        assert len(local.server.config.keep_alive_timeouts) == 0
