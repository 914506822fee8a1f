"""No caller gets an answer to another request, even if an upstream repeats, splits or delays answers."""

import asyncio
import itertools
import logging
import select
from collections.abc import Iterator

import pytest

from myna.http.client import ClientResponse, ConnectionBroken, HttpClient
from myna.http.client.client import DISTRUST_S, REUSE_AFTER_S
from tests.http_client.client_calls import connections_of, post
from tests.http_client.conftest import Serve, on_both_loops
from tests.http_client.faulty_server import PeerConnection, answer, answering
from tests.http_client.test_pool import Blocking
from tests.rig.repeating_upstream import DELAYS_S, RepeatFault, RepeatingUpstream, seeded
from tests.rig.waiting import SOON_S, MonotonicClock

pytestmark = on_both_loops

STRAYS = [answer(b"two"), b"!"]


@pytest.mark.parametrize("stray", STRAYS, ids=["whole", "a byte"])
async def test_bytes_received_before_the_call_are_not_its_answer(
    outbound: HttpClient, stray: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, made = Blocking(), connections_of(monkeypatch)
    serving = asyncio.ensure_future(asyncio.to_thread(server.accept_and_serve, answer(b"one")))
    await post(outbound, server.url, b"1")
    kept = await serving
    serving_two = asyncio.ensure_future(asyncio.to_thread(server.serve_one, kept, answer(b"two")))
    await post(outbound, server.url, b"2")
    await serving_two
    kept.sendall(stray)  # the client's kernel has the bytes; its event loop has not read them yet
    assert select.select([made[-1].get_extra_info("socket").fileno()], (), (), SOON_S)[0]
    call = post(outbound, server.url, b"3")
    serving = asyncio.ensure_future(asyncio.to_thread(server.accept_and_serve, answer(b"three")))
    assert (await call).body == b"three"
    (await serving).close()
    kept.close()
    server.close()


async def test_an_origin_that_sent_unexpected_bytes_is_used_without_keep_alive(
    outbound: HttpClient, serve: Serve, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def one_answer_too_many(peer: PeerConnection) -> None:
        while await peer.receive():
            await peer.send(answer(b"ok") * (2 if peer.number == 1 else 1))

    caplog.set_level(logging.WARNING)
    server, other = serve(one_answer_too_many), serve(answering(answer(b"ok")))
    for _ in range(4):
        await post(outbound, server.url)
        await post(outbound, other.url)
    assert (server.accepted, other.accepted) == (4, 1)
    assert caplog.text.count("sent unexpected bytes") == 1
    clock = MonotonicClock(monkeypatch, "myna.http.client.client")
    clock.move(DISTRUST_S + 1)  # it is trusted again
    for _ in range(3):
        await post(outbound, server.url)
    assert server.accepted == 5


async def ask_many(
    outbound: HttpClient, server: RepeatingUpstream, callers: int, calls: int, pause_s: float = 0.0
) -> dict[bytes, bytes]:
    """The answer of each request that got one. A caller pauses before each but the first."""
    got: dict[bytes, bytes] = {}

    async def one(caller: int) -> None:
        for number in range(calls):
            body = b"caller %d, call %d" % (caller, number)
            try:
                found: ClientResponse = await post(outbound, server.url, body)
            except ConnectionBroken:  # two answers at once are rejected
                continue
            got[body] = found.body
            await asyncio.sleep(pause_s)

    await asyncio.gather(*(one(caller) for caller in range(callers)))
    return got


def check(server: RepeatingUpstream, got: dict[bytes, bytes]) -> None:
    """Each answer is its request's, or a repetition so late that the client could not have detected it."""
    foreign = {body: found for body, found in got.items() if found != body}
    assert set(foreign.values()) <= server.late, foreign
    assert server.repeated


@pytest.mark.parametrize("kind", ["repeat", "half", "pieces"])
async def test_repeated_or_split_answers_reach_one_caller(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("myna.http.client.client.DISTRUST_S", -1.0)  # connections are reused all the time
    wait_s = 2 * max(DELAYS_S)
    faults: Iterator[RepeatFault] = itertools.cycle(
        fault for delay_s in DELAYS_S for fault in ((kind, delay_s), ("clean", 0.0)) * 10
    )
    server = RepeatingUpstream(lambda: next(faults), lambda body: body, wait_s)
    outbound = HttpClient(connections_max=256, reuse_after_s=wait_s)
    got = await ask_many(outbound, server, callers=2, calls=60)
    await outbound.close()
    server.close()
    if kind == "pieces":
        assert len(got) == 120
        assert all(found == body for body, found in got.items())
    else:
        check(server, got)


@pytest.mark.parametrize("distrusted", [True, False])
async def test_each_caller_gets_its_own_answer_from_a_faulty_upstream(
    distrusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, pause_s = 60, 0.0
    if not distrusted:  # which reuses connections all the time
        monkeypatch.setattr("myna.http.client.client.DISTRUST_S", -1.0)
        calls, pause_s = 20, REUSE_AFTER_S
    server = RepeatingUpstream(seeded(7, clean=0.95), lambda body: body, REUSE_AFTER_S)
    outbound = HttpClient(connections_max=256)
    got = await ask_many(outbound, server, callers=8, calls=calls, pause_s=pause_s)
    await outbound.close()
    server.close()
    check(server, got)
    assert len(got) >= 0.8 * 8 * calls
    assert distrusted or server.accepted < server.requests
