"""Many large bodies at once do not block the event loop: other ready work runs between two of them."""

import asyncio
import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec
import pytest

from myna.gateway.relay import plan, responses
from myna.http import request, server
from myna.http.request import SMALL_BODY_BYTES, Request, read_body
from myna.http.responses import Response
from myna.http.server import OTHER_FILES, fitted
from myna.settings import Settings
from tests.http.local_server import LocalServer, local_server
from tests.rig.calls import call
from tests.rig.service import ServiceMaker
from tests.rig.upstream import Upstream
from tests.rig.waiting import until

LARGE = SMALL_BODY_BYTES + 1000
COUNT = 8


class Iterations:
    """Counts the iterations of the running loop."""

    def __init__(self) -> None:
        self.number = 0
        asyncio.get_running_loop().call_soon(self._next)

    def _next(self) -> None:
        self.number += 1
        asyncio.get_running_loop().call_soon(self._next)


async def test_large_bodies_that_arrive_together_are_handled_one_per_loop_iteration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handled_at: list[int] = []

    async def handle(local: LocalServer, request: Request) -> Response:
        local.started += 1
        await request.body()
        handled_at.append(iterations.number)
        return Response(b"done")

    monkeypatch.setattr(LocalServer, "block", handle)
    async with local_server() as local:
        clients = [await local.connect() for _ in range(COUNT)]
        for client in clients:
            client.ask("/blocked", "POST", b"Content-Length: %d\r\n" % LARGE)
            client.send(b"x" * (LARGE - 1))
        await until(lambda: local.budget.in_use == COUNT * (LARGE - 1))
        iterations = Iterations()
        for client in clients:
            client.send(b"x")
        assert [await client.answer() for client in clients] == [(200, b"done")] * COUNT
    assert len(set(handled_at)) == COUNT


SIZE_BYTES = 930_000


LOOP_MAX_S = 0.02


async def test_a_large_response_request_takes_nothing_from_the_event_loop() -> None:
    item = {"role": "user", "content": "hi"}
    count = SIZE_BYTES // len(msgspec.json.encode(item))
    body = msgspec.json.encode({"model": "m", "input": [item] * count})
    began = time.thread_time()
    fields, given, referenced = await read_body(partial(responses.decoded, body), len(body), 1)
    translate = partial(responses.read, fields, given, None, refuses_hosted=False)
    read = await read_body(translate, len(body), 1)
    assert time.thread_time() - began < LOOP_MAX_S
    assert read.chat == plan.read(plan.CHAT, b'{"model":"m",' + read.chat.fields[1:])
    assert msgspec.json.decode(read.passed)["input"] == msgspec.json.decode(body)["input"]
    assert read.repeated == b'{"model":"m"}' and referenced == []


FILES = 128


CLIENTS = 100


PROGRAM = (
    f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (64, {FILES}));"
    " from myna.cli import main; main(['serve'])"
)


@pytest.mark.parametrize(
    ("files", "clients", "outbound"),
    [
        (resource.RLIM_INFINITY, 4096, 512),
        (2 * 4096 + 512 + OTHER_FILES, 4096, 512),
        (1024, 256, 256),
        (FILES, 21, 21),
        (4, 1, 1),
    ],
)
def test_the_connections_fit_into_the_limit_on_open_files(
    monkeypatch: pytest.MonkeyPatch, files: int, clients: int, outbound: int
) -> None:
    monkeypatch.setattr(server.resource, "getrlimit", lambda _: (files, files))
    fits = fitted(Settings())
    assert (fits.connections_max, fits.outbound_connections_max) == (clients, outbound)


def test_calls_beyond_a_small_limit_are_refused_and_no_channel_is_blamed(
    make_service: ServiceMaker, upstream: Upstream
) -> None:
    upstream.behave("block")
    service = make_service(program=("-c", PROGRAM), speech="none", chat_url=upstream.url).start()
    key = service.account(units=1000).key().plain
    said = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}

    def ask() -> int:
        return call("POST", f"{service.root_url}/v1/chat/completions", key=key, data=said).status

    with ThreadPoolExecutor(CLIENTS) as threads:
        asked = [threads.submit(ask) for _ in range(CLIENTS)]
        upstream.wait_for_requests(8)
        upstream.release()
        answered = [one.result() for one in asked]
    assert set(answered) <= {200, 503} and answered.count(200) >= 8
    me = call("GET", f"{service.root_url}/v1/me", key=key).json
    assert me["stats"]["cost"] == answered.count(200)
    (channel,) = service.cli("channel", "list")
    assert (channel["circuit"], channel["last_error"]) == ("closed", "")
    assert f"the limit on open files is {FILES}" in service.stderr
    assert "Too many open files" not in service.stderr


async def test_accounts_with_large_bodies_are_served_in_turn() -> None:
    order: list[int] = []
    may_read = threading.Event()

    def read(account: int) -> None:
        may_read.wait(60)
        order.append(account)

    many, one = 1, 2
    accounts = [many] * 4 + [one]
    waiting = [
        asyncio.create_task(read_body(partial(read, account), SIZE_BYTES, account)) for account in accounts
    ]
    await asyncio.sleep(0)
    may_read.set()
    await asyncio.gather(*waiting)
    assert order == [many, many, one, many, many]


async def test_an_answer_without_a_turn_is_read_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "ANSWER_WAIT_S", 0.05)
    may_end = threading.Event()
    other = asyncio.create_task(read_body(lambda: may_end.wait(60), SIZE_BYTES, 1))
    await asyncio.sleep(0)
    try:
        assert await request.read_answer(lambda: "read", SIZE_BYTES, 2) == "read"
        assert not other.done()
    finally:
        may_end.set()
        await other
