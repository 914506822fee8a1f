"""Request bodies in memory share a budget: above it large bodies are refused, and every byte is released."""

import contextlib
import json

import pytest

from myna.errors import TooManyBodies
from myna.http import exchange
from myna.http.request import SMALL_BODY_BYTES, BodyBudget
from tests.http.local_server import LocalServer, RawConnection, local_server
from tests.rig.calls import Wire, call
from tests.rig.service import ServiceMaker
from tests.rig.waiting import until, wait_until

LARGE = 2**20
BUDGET = 3 * LARGE


def head(client: RawConnection, path: str = "/body", size_bytes: int = LARGE) -> None:
    """Sends the head of a request and no body."""
    client.ask(path, "POST", b"Content-Length: %d\r\n" % size_bytes)


async def stalled(local: LocalServer, count: int) -> list[RawConnection]:
    """Opens connections, each with a large body that lacks its last byte."""
    clients = [await local.connect() for _ in range(count)]
    for client in clients:
        head(client)
        client.send(b"x" * (LARGE - 1))
    await until(lambda: local.budget.in_use == count * (LARGE - 1))
    return clients


async def refused(client: RawConnection) -> None:
    status, body = await client.answer()
    assert status == 503
    assert json.loads(body)["error"]["type"] == "service_unavailable"
    assert b"nothing was charged" in body


async def test_a_body_over_the_budget_is_refused_and_a_small_one_is_not() -> None:
    async with local_server(bodies_max_bytes=BUDGET) as local:
        clients = await stalled(local, 3)
        extra = await local.connect()
        head(extra)
        extra.send(b"x" * (LARGE // 2))
        await refused(extra)
        small = await local.connect()
        head(small, size_bytes=SMALL_BODY_BYTES)
        small.send(b"x" * SMALL_BODY_BYTES)
        assert await small.answer() == (200, b"%d" % SMALL_BODY_BYTES)
        clients[0].send(b"x")
        assert await clients[0].answer() == (200, b"%d" % LARGE)
        await until(lambda: local.budget.in_use == 2 * (LARGE - 1))
        again = await local.connect()
        head(again)
        again.send(b"x" * LARGE)
        assert await again.answer() == (200, b"%d" % LARGE)


@pytest.mark.parametrize(("max_bytes", "body_max_bytes", "share_bytes"), [(400, 50, 100), (400, 200, 200)])
def test_an_account_has_a_share_of_the_budget(max_bytes: int, body_max_bytes: int, share_bytes: int) -> None:
    budget = BodyBudget(max_bytes, body_max_bytes)
    budget.take(1, share_bytes)
    with pytest.raises(TooManyBodies):
        budget.take(1, 1)
    budget.take(2, share_bytes)
    budget.release(1, share_bytes)
    budget.take(1, share_bytes)
    budget.take(0, max_bytes - 2 * share_bytes)
    with pytest.raises(TooManyBodies):
        budget.take(0, 1)


async def test_a_chunked_body_is_counted_as_it_arrives() -> None:
    async with local_server(bodies_max_bytes=LARGE) as local:
        client = await local.connect()
        client.ask("/blocked-body", "POST", b"Transfer-Encoding: chunked\r\n")
        client.send(b"%x\r\n%b\r\n" % (LARGE // 2, b"x" * (LARGE // 2)))
        await until(lambda: local.budget.in_use == LARGE // 2)
        other = await local.connect()
        other.ask("/body", "POST", b"Transfer-Encoding: chunked\r\n")
        with contextlib.suppress(ConnectionError):
            other.send(b"%x\r\n%b\r\n0\r\n\r\n" % (LARGE - 1, b"x" * (LARGE - 1)))
        await refused(other)
        assert local.budget.in_use == LARGE // 2
        client.send(b"0\r\n\r\n")
        await until(lambda: local.started == 1)
        assert local.budget.in_use == LARGE // 2  # until the call ends
        local.release.set()
        assert (await client.answer())[0] == 200
        await until(lambda: local.budget.in_use == 0)


ENDS = [
    ("/body", b"Content-Length: 1000000\r\n", b"x" * 1_000_000, 200),
    ("/broken", b"Content-Length: 1000000\r\n", b"x" * 1_000_000, 500),
    ("/body", b"Content-Length: 2000000\r\n", b"", 413),
    ("/body", b"Transfer-Encoding: chunked\r\n", b"200000\r\n" + b"x" * (2**21), 413),
    ("/body", b"Transfer-Encoding: chunked\r\n", b"20000\r\n" + b"x" * 2**17 + b"\r\nzz", 400),
]


async def test_a_body_is_released_however_its_request_ends() -> None:
    async with local_server() as local:
        for path, lines, sent, status in ENDS:
            client = await local.connect()
            client.ask(path, "POST", lines)
            client.send(sent)
            assert (await client.answer())[0] == status, (lines, status)
            await until(lambda: local.budget.in_use == 0)


async def test_a_refused_body_that_does_not_arrive_is_waited_for_a_short_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "LINGER_S", 0.1)
    async with local_server() as local:
        client = await local.connect()
        head(client, size_bytes=2_000_000)
        client.send(b"x" * 1000)
        assert (await client.answer())[0] == 413
        assert await client.is_closed()


async def test_a_body_is_released_when_its_client_disconnects() -> None:
    async with local_server() as local:
        for end in (RawConnection.reset, lambda client: client.writer.write_eof()):
            (client,) = await stalled(local, 1)
            end(client)
            await until(lambda: local.budget.in_use == 0)


def test_an_account_over_its_share_is_refused_uncharged_others_are_served(make_service: ServiceMaker) -> None:
    sizes = {"MYNA_BODY_MAX_BYTES": "300000", "MYNA_BODIES_MAX_BYTES": "600000"}
    service = make_service(chat_url="parrot:", speech="none", env=sizes).start()
    account = service.account(units=1000)
    key, second, other = (owner.key().plain for owner in (account, account, service.account(units=1000)))
    lines = (f"Authorization: Bearer {key}", "Content-Length: 300000")
    chat = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}
    large = {"model": "svc-chat", "messages": [{"role": "user", "content": "h" * 100_000}]}
    url = f"{service.base_url}/chat/completions"
    with contextlib.ExitStack() as wires:

        def refused() -> bool:
            """On a loaded machine the second body may arrive before the first one, which is then refused."""
            wire = wires.enter_context(Wire(service.root_url))
            wire.head("POST /v1/chat/completions HTTP/1.1", *lines)
            wire.send(b" " * 299_999)
            answer = call("POST", url, key=second, data=large)
            return (answer.status, answer.headers.get("retry-after")) == (503, "0")

        wait_until(refused, 60, "a body is refused beside another one")
        assert call("POST", url, key="myna_" + "0" * 40, data=large).status == 401
        assert call("POST", url, key=key, data=chat).status == 200
        assert call("POST", url, key=other, data=large).status != 503
    stats = call("GET", f"{service.base_url}/me", key=key).json["stats"]
    assert stats["ok_calls"] == stats["cost"]
    assert service.stop() == 0
