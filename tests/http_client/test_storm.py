"""After many concurrent calls with all outcomes, no slot is lost and no answers are mixed up."""

import asyncio
import random

import pytest

from myna.http_client import ClientResponse, HttpClient, RequestFailed
from tests.engines.conftest import until
from tests.http_client.client_calls import post
from tests.http_client.conftest import Serve
from tests.http_client.faulty_server import FaultyServer, PeerConnection, answer

pytestmark = pytest.mark.anyio


async def test_no_slot_is_lost_and_no_answer_is_mixed_up(outbound: HttpClient, serve: Serve) -> None:
    chance = random.Random(20)

    async def moody(peer: PeerConnection) -> None:
        while request := await peer.receive():
            mood = chance.random()
            if mood < 0.05:
                break
            if mood < 0.055:
                await peer.until_the_client_disconnects()
            elif mood < 0.10:
                await peer.send(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n" + request.body)
                break
            await peer.send(answer(request.body) + (b"HTTP/1.1 200" if mood < 0.15 else b""))
            if mood < 0.20:
                break

    servers = [serve(moody) for _ in range(3)]
    enough = False
    while not enough:  # of one storm, a slow machine answers few calls
        enough = await storm(outbound, servers, chance)
    await until(lambda: sum(server.open for server in servers) <= 3)
    assert {server.open_peak for server in servers} <= {1, 2, 3}
    calm = serve(_echo)
    again = await asyncio.gather(*(post(outbound, calm.url, b"%d" % i) for i in range(9)))
    assert [got.body for got in again] == [b"%d" % i for i in range(9)]
    await calm.until(lambda: calm.open_peak == 3)


async def storm(outbound: HttpClient, servers: list[FaultyServer], chance: random.Random) -> bool:
    """Makes 300 concurrent calls. Returns whether enough were answered for a meaningful check."""
    calls: list[asyncio.Future[ClientResponse]] = []
    for number in range(300):
        url = servers[number % 3].url
        calls.append(asyncio.ensure_future(post(outbound, url, b"%d" % number, deadline_s=0.5)))
    for call in chance.sample(calls, 50):
        asyncio.get_running_loop().call_later(chance.random() / 5, call.cancel)
    done = await asyncio.gather(*calls, return_exceptions=True)
    answered = [number for number, got in enumerate(done) if isinstance(got, ClientResponse)]
    assert all(done[number].body == b"%d" % number for number in answered)  # type: ignore[union-attr]
    assert all(isinstance(got, (ClientResponse, RequestFailed, asyncio.CancelledError)) for got in done)
    return len(answered) > 50


async def _echo(peer: PeerConnection) -> None:
    while request := await peer.receive():
        await peer.send(answer(request.body))
