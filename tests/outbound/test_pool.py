"""The cap holds, waiting calls get through, and a connection its server has closed is never used again."""

import asyncio
import gc
import socket
import time
from typing import Any

import pytest

from myna.outbound import Answer, Broken, Outbound, Unreachable
from myna.outbound.connection import IDLE_MAX_S, MOMENT_S, Connection
from tests.outbound.calling import post
from tests.outbound.conftest import Serve
from tests.outbound.faulty import Behaviour, Talk, answer, answering, hanging_up, once
from tests.rig.waiting import free_port

pytestmark = pytest.mark.anyio


async def test_there_are_never_more_connections_than_the_cap_and_every_call_gets_through(
    outbound: Outbound, serve: Serve
) -> None:
    async def busy(talk: Talk) -> None:
        while await talk.hear():
            await server.until(lambda: server.open == 3)
            await talk.say(answer(b"ok"))

    server = serve(busy)
    answers = await asyncio.gather(*(post(outbound, server.url) for _ in range(40)))

    assert [got.body for got in answers] == [b"ok"] * 40
    assert (server.accepted, server.open_peak) == (3, 3)


async def test_the_cap_counts_all_servers_together(outbound: Outbound, serve: Serve) -> None:
    servers = [serve(answering(answer(b"ok"))) for _ in range(5)]
    most = 0

    for _ in range(2):
        for server in servers:
            await post(outbound, server.url)
            await server.until(lambda: sum(each.open for each in servers) <= 3)
            most = max(most, sum(each.open for each in servers))

    assert most == 3
    assert [server.open_peak for server in servers] == [1] * 5


async def test_calls_to_many_servers_at_once_stay_below_the_cap(outbound: Outbound, serve: Serve) -> None:
    servers = [serve(answering(answer(b"ok"))) for _ in range(6)]

    answers = await asyncio.gather(*(post(outbound, servers[i % 6].url) for i in range(60)))

    assert [got.body for got in answers] == [b"ok"] * 60
    assert len(outbound._open) <= 3


class Blocking:
    """A server of blocking sockets, so that a test can close one without the event loop coming by."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/"
        self.heard: list[bytes] = []

    def accept(self) -> socket.socket:
        return self._listener.accept()[0]

    def serve_one(self, connection: socket.socket, data: bytes) -> None:
        self.heard.append(connection.recv(65_536))
        connection.sendall(data)

    def accept_and_serve(self, data: bytes) -> socket.socket:
        connection = self.accept()
        self.serve_one(connection, data)
        return connection

    def close(self) -> None:
        self._listener.close()


@pytest.mark.parametrize(
    "parting", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"], ids=["silently", "with 408"]
)
async def test_a_post_never_meets_a_connection_that_its_server_closed_while_idle(
    outbound: Outbound, parting: bytes
) -> None:
    server = Blocking()
    serving = asyncio.ensure_future(asyncio.to_thread(server.accept_and_serve, answer(b"1")))
    assert (await post(outbound, server.url, b"one")).body == b"1"
    kept = await serving

    # Closed and called again without a turn of the event loop between: only a look at the socket can tell.
    kept.sendall(parting)
    kept.close()
    call = post(outbound, server.url, b"two")
    serving = asyncio.ensure_future(asyncio.to_thread(server.accept_and_serve, answer(b"2")))
    assert (await call).body == b"2"

    (await serving).close()
    server.close()
    assert [heard[-3:] for heard in server.heard] == [b"one", b"two"]


async def test_a_connection_that_its_server_kept_before_is_looked_at_when_it_has_rested(
    outbound: Outbound,
) -> None:
    server = Blocking()
    serving = asyncio.ensure_future(asyncio.to_thread(server.accept_and_serve, answer(b"1")))
    await post(outbound, server.url, b"one")
    kept = await serving
    serving_two = asyncio.ensure_future(asyncio.to_thread(server.serve_one, kept, answer(b"2")))
    await post(outbound, server.url, b"two")
    await serving_two

    kept.close()
    time.sleep(2 * MOMENT_S)  # noqa: ASYNC251 - without a turn of the event loop
    call = post(outbound, server.url, b"three")
    serving = asyncio.ensure_future(asyncio.to_thread(server.accept_and_serve, answer(b"3")))
    assert (await call).body == b"3"

    (await serving).close()
    server.close()
    assert [heard[-3:] for heard in server.heard] == [b"one", b"two", b"ree"]


async def test_a_post_that_was_read_and_not_answered_is_not_sent_again(
    outbound: Outbound, serve: Serve
) -> None:
    async def second_time_dead(talk: Talk) -> None:
        await talk.hear()
        await talk.say(answer(b"ok"))
        await talk.hear()

    server = serve(second_time_dead)
    await post(outbound, server.url, b"one")

    with pytest.raises(Broken, match="without an answer"):
        await post(outbound, server.url, b"two")

    assert [request.body for request in server.requests] == [b"one", b"two"]
    assert server.accepted == 1


async def test_a_connection_is_let_go_before_servers_usually_close_theirs(
    outbound: Outbound, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert IDLE_MAX_S < 5
    server = serve(answering(answer(b"ok")))

    monkeypatch.setattr("myna.outbound.connection.IDLE_MAX_S", 0.0)
    for _ in range(3):
        await post(outbound, server.url)

    assert server.accepted == 3


async def test_a_connection_that_ends_before_its_first_use_sends_nothing_and_holds_no_place(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refusing(talk: Talk) -> None:
        return None

    loop = asyncio.get_running_loop()
    connect = loop.create_connection

    async def connect_and_lose(make: Any, *args: Any, **options: Any) -> Any:
        lost = asyncio.Event()

        def watched() -> Any:
            connection = make()
            ended = connection.connection_lost

            def losing(exc: Exception | None) -> None:
                ended(exc)
                lost.set()

            connection.connection_lost = losing
            return connection

        made = await connect(watched, *args, **options)
        await lost.wait()
        return made

    outbound, good = Outbound(connections_max=1), serve(answering(answer(b"ok")))
    with monkeypatch.context() as patch, pytest.raises(Unreachable, match="before a byte was sent"):
        patch.setattr(loop, "create_connection", connect_and_lose)
        await post(outbound, serve(refusing).url)

    assert (await post(outbound, good.url, deadline_s=3)).body == b"ok"
    await outbound.close()


async def about_to_leave(outbound: Outbound, serve: Serve) -> tuple[Connection, "asyncio.Task[Answer]"]:
    """A kept connection, and a call over it of which no byte has left yet."""
    server = serve(answering(answer(b"ok")))
    await post(outbound, server.url)
    (connection,) = outbound._open
    calling = asyncio.create_task(post(outbound, server.url))
    await asyncio.sleep(0)
    assert connection._transport.unsent
    return connection, calling


async def test_what_a_server_says_before_the_request_left_is_no_answer_to_it(
    outbound: Outbound, serve: Serve
) -> None:
    connection, calling = await about_to_leave(outbound, serve)
    connection.data_received(answer(b"Request Timeout"))
    with pytest.raises(Broken, match="spoke before it was asked"):
        await calling


@pytest.mark.parametrize(("behaviour", "failures"), [(once(answer(b"ok")), 0), (hanging_up, 5), (None, 5)])
async def test_a_connection_that_has_ended_leaves_nothing_to_the_collector(
    outbound: Outbound, serve: Serve, behaviour: Behaviour | None, failures: int
) -> None:
    """What goes round in circles stays until some ten thousand such things are there. Without a behaviour
    nobody listens."""
    server = serve(behaviour) if behaviour else None
    url = server.url if server else f"http://127.0.0.1:{free_port()}"
    failed = 0
    gc.collect()
    before = connections()
    gc.disable()
    try:
        for _ in range(5):
            try:
                await post(outbound, url)
            except (Broken, Unreachable):
                failed += 1
        async with asyncio.timeout(5):
            while connections() - before:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
    finally:
        gc.enable()
    assert failed == failures
    assert server is None or server.accepted == 5


def connections() -> set[int]:
    return {id(found) for found in gc.get_objects() if type(found) is Connection}


async def test_a_connection_that_ends_before_the_request_left_is_no_broken_call(
    outbound: Outbound, serve: Serve
) -> None:
    connection, calling = await about_to_leave(outbound, serve)
    connection._transport._transport.abort()
    with pytest.raises(Unreachable, match="before a byte was sent"):
        await calling
