"""What a client may do to a connection before the server has had enough of it."""

import asyncio
import time
from collections.abc import Callable

import pytest

from myna.http import connection
from tests.http.inside import House, Line, housed, until

pytestmark = pytest.mark.anyio

SHORT_S = 0.2
LONG_S = 600.0


@pytest.fixture(autouse=True)
def long_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever doesn't test the time for a head has all the time."""
    monkeypatch.setattr(connection, "HEADERS_TIMEOUT_S", LONG_S)


@pytest.fixture
def short_patience(long_patience: None, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes it short from then on."""
    return lambda: monkeypatch.setattr(connection, "HEADERS_TIMEOUT_S", SHORT_S)


@pytest.mark.parametrize(
    "first",
    [b"", b"GET /bo", b"GET /body HTTP/1.1\r\nX: ", b"\r\n\r\n"],
    ids=["nothing", "line", "field", "blank"],
)
async def test_a_head_that_does_not_come_whole_is_hung_up_on(
    first: bytes, short_patience: Callable[[], None]
) -> None:
    short_patience()
    async with housed() as house:
        line = await house.connect()
        line.send(first)
        assert await line.is_hung_up_on()


async def test_a_head_that_drips_gets_no_more_time_for_every_drop(
    short_patience: Callable[[], None],
) -> None:
    short_patience()
    async with housed() as house:
        line = await house.connect()
        line.send(b"GET /body HTTP/1.1\r\nX: ")
        drops = asyncio.create_task(drip(line))
        assert await line.is_hung_up_on()
        drops.cancel()


async def drip(line: Line) -> None:
    while not line.writer.is_closing():
        line.send(b"x")
        await asyncio.sleep(SHORT_S / 10)


@pytest.mark.parametrize("later", [b"\r\n", b"GET /bo"], ids=["blank", "line"])
async def test_a_kept_connection_is_not_held_by_a_few_bytes(
    later: bytes, short_patience: Callable[[], None]
) -> None:
    """Any byte ends the clock of idle connections, so the one for heads must take over."""
    async with housed() as house:
        line = await house.connect()
        line.ask("/body", "POST", b"Content-Length: 0\r\n")
        assert (await line.answer())[0] == 200
        short_patience()
        line.send(later)
        assert await line.is_hung_up_on()


async def test_the_rest_of_a_body_nobody_wanted_may_not_take_for_ever(
    short_patience: Callable[[], None],
) -> None:
    async with housed() as house:
        line = await house.connect()
        await until(lambda: house.connections == 1)
        short_patience()
        line.ask("/nowhere-to-post", "POST", b"Content-Length: 1000000\r\n")
        assert b"204" in await line.reader.readuntil(b"\r\n\r\n")
        drops = asyncio.create_task(drip(line))
        assert await line.is_hung_up_on()
        drops.cancel()


async def test_a_call_in_flight_is_not_hurt_by_the_patience_for_heads(
    short_patience: Callable[[], None],
) -> None:
    async with housed() as house:
        line = await house.connect()
        line.ask("/held")
        await until(lambda: house.begun == 1)
        short_patience()
        line.send(b"GET /held HT")
        sent = time.monotonic()
        await until(lambda: time.monotonic() > sent + 2 * SHORT_S)  # longer than a head may take
        house.release.set()
        assert await line.answer() == (200, b"done")


async def test_a_client_that_takes_no_answer_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WRITE_STALL_MAX_S", SHORT_S)
    async with housed() as house:
        line = await house.connect()
        line.reader._transport.pause_reading()  # type: ignore[attr-defined]  # a client that looks away
        await until(lambda: house.connections == 1)
        line.ask("/large", lines=b"Connection: close\r\n")
        await until(lambda: house.connections == 0)


async def test_requests_that_wait_on_one_connection_are_answered_in_order() -> None:
    async with housed() as house:
        line = await house.connect()
        line.ask("/held")
        for size in (1, 2, 3):
            line.send(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (size, b"x" * size))
        await until(lambda: house.begun == 1)
        house.release.set()
        assert [await line.answer() for _ in range(4)] == [
            (200, b"done"),
            (200, b"1"),
            (200, b"2"),
            (200, b"3"),
        ]


async def test_a_flood_on_one_connection_is_answered_as_far_as_it_may_wait() -> None:
    async with housed() as house:
        line = await house.connect()
        line.send(b"GET /held HTTP/1.1\r\nHost: x\r\n\r\n" * 5000)
        house.release.set()
        answers = 0
        try:
            while (await line.answer())[0] == 200:
                answers += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the end of the connection
        assert 1 <= answers <= connection.PIPELINED_MAX + 1
        assert house.begun == answers


async def test_answers_owed_come_before_the_refusal_of_nonsense() -> None:
    async with housed() as house:
        line = await house.connect()
        line.ask("/held")
        line.send(b"no http at all\r\n\r\n")
        await until(lambda: house.begun == 1)
        house.release.set()
        assert await line.answer() == (200, b"done")
        assert await line.is_hung_up_on()


async def test_a_body_that_turns_out_to_be_nonsense_is_refused_at_once() -> None:
    async with housed() as house:
        line = await house.connect()
        line.ask("/body", "POST", b"Transfer-Encoding: chunked\r\n")
        line.send(b"zz\r\n")
        assert (await line.answer())[0] == 400
        assert await line.is_hung_up_on()


async def test_one_connection_too_many_is_told_so_and_makes_room_for_the_next() -> None:
    async with housed(connections_max=2) as house:
        lines = [await house.connect() for _ in range(2)]
        await until(lambda: house.connections == 2)
        extra = await house.connect()
        extra.ask("/body", "POST", b"Content-Length: 0\r\n")
        status, body = await extra.answer()
        assert status == 503
        assert b"service_unavailable" in body
        assert await extra.is_hung_up_on()
        await lines[0].hang_up()
        await until(lambda: house.connections == 1)
        await served(house)


async def test_health_is_answered_on_a_connection_too_many_and_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection, "REFUSAL_WAIT_S", LONG_S)
    async with housed(connections_max=1) as house:
        await house.connect()
        await until(lambda: house.connections == 1)
        for path, status in (("/healthz", 204), ("/readyz?x=1", 204), ("/metrics", 204), ("/held", 503)):
            extra = await house.connect()
            extra.ask(path)
            extra.ask("/body", "POST", b"Content-Length: 0\r\n")
            head = await extra.reader.readuntil(b"\r\n\r\n")
            assert int(head.split()[1]) == status
            assert b"connection: close" in head
            assert b"HTTP/1.1 200" not in await extra.reader.read()
        slow = await house.connect()
        for part in (b"GET /heal", b"thz HTTP/1.1\r\n", b"Host: x\r\n\r\n"):
            slow.send(part)
            await asyncio.sleep(0)
        assert b" 204 " in await slow.reader.readuntil(b"\r\n\r\n")
        await until(lambda: house.connections == 1)
        assert house.server.config.over_limit_count == 0
        assert house.begun == 0


async def test_a_poll_ends_when_its_client_closes_its_side() -> None:
    async with housed() as house:
        line = await house.connect()
        line.ask("/until-gone")
        await until(lambda: house.begun == 1)
        line.writer.write_eof()
        assert await line.answer() == (200, b"gone")
        assert await line.is_hung_up_on()


async def served(house: House) -> None:
    line = await house.connect()
    line.ask("/body", "POST", b"Content-Length: 0\r\n")
    assert await line.answer() == (200, b"0")


async def test_a_flood_of_connections_is_turned_away_and_leaves_nothing_behind() -> None:
    async with housed(connections_max=2) as house:
        lines = [await house.connect() for _ in range(2)]
        await until(lambda: house.connections == 2)
        flood = [await house.connect() for _ in range(20)]
        await until(lambda: house.connections <= 4)
        for line in flood + lines:
            await line.hang_up()
        await until(lambda: house.connections == 0)
        assert house.server.config.over_limit_count == 0
        await served(house)


async def test_a_server_that_ends_lets_its_calls_end_first() -> None:
    async with housed(shutdown_grace_s=LONG_S) as house:
        busy, idle = await house.connect(), await house.connect()
        busy.ask("/held")
        idle.ask("/body", "POST", b"Content-Length: 0\r\n")
        assert (await idle.answer())[0] == 200
        await until(lambda: house.begun == 1)
        house.server.should_exit = True
        await until(lambda: house.server.config.stopping)
        late = await house.connect()
        for line in (idle, late):
            line.ask("/held", "POST", b"Content-Length: 0\r\n")
            assert (await line.answer())[0] == 503
        assert house.begun == 1
        house.release.set()
        assert await busy.answer() == (200, b"done")


async def test_a_call_that_outlives_the_grace_is_given_up_and_told() -> None:
    async with housed(shutdown_grace_s=SHORT_S) as house:
        line = await house.connect()
        line.ask("/held")
        await until(lambda: house.begun == 1)
        house.server.should_exit = True
        status, body = await line.answer()
        assert status == 500
        assert b"shutting down" in body


async def test_a_connection_that_was_reset_leaves_nothing_behind() -> None:
    async with housed() as house:
        line = await house.connect()
        line.ask("/body", "POST", b"Content-Length: 0\r\n")
        assert await line.answer() == (200, b"0")
        assert len(house.server.config.keep_alive_timeouts) == 1
        line.reset()
        await until(lambda: house.connections == 0)
        assert len(house.server.config.keep_alive_timeouts) == 0
