"""The places for requests to channels: what a full channel, a full account and a process without files do."""

import asyncio
import errno
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from myna.channels import circuits
from myna.channels.channels import Channel, Channels
from myna.channels.circuits import FAILURES_MAX
from myna.errors import Overloaded
from myna.gateway.failover import ChannelClient, Nobody
from myna.http.client import HttpClient
from myna.lib.telemetry import metrics
from myna.settings import Settings
from tests.rig.upstream import Upstream
from tests.rig.waiting import SOON_S

PLACES = 20
OF_CHANNEL, OF_ACCOUNT, OF_ACCOUNT_ON_CHANNEL = 15, 15, 8


@pytest.fixture(autouse=True)
def short_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(circuits, "WAIT_S", 0.05)


@pytest.fixture
async def http_client() -> AsyncIterator[HttpClient]:
    client = HttpClient(connections_max=PLACES)
    yield client
    await client.close()


@pytest.fixture
def channels(http_client: HttpClient) -> Channels:
    settings = Settings(speech="none", outbound_connections_max=PLACES)
    return Channels(settings=settings, environ={}, http_client=http_client, local={})


class Site:
    """Asks channels, and counts what is open."""

    def __init__(self, http_client: HttpClient, channels: Channels, upstream: Upstream) -> None:
        self._channel_client = ChannelClient(Settings(), channels, http_client)
        self._upstream = upstream

    def channel(self, name: str, concurrent: int = 0) -> Channel:
        url = self._upstream.url
        return Channel(kind="chat", name=name, url=url, model="", key="", concurrent=concurrent)

    async def ask(self, account_id: int, *candidates: Channel, text: str = "hello") -> str:
        said = b'{"model":"m","messages":[{"role":"user","content":"%b"}]}' % text.encode()

        async def attempt(channel: Channel, left_s: float) -> bytes:
            answer = await self._channel_client.answer_of(
                channel, "/chat/completions", said, deadline_s=left_s
            )
            return answer.body

        answer = await self._channel_client.first_answer(
            candidates, attempt, asker=Nobody(SOON_S, account_id)
        )
        return str(json.loads(answer)["choices"][0]["message"]["content"])

    @asynccontextmanager
    async def silent(self, counts: dict[tuple[int, Channel], int]) -> AsyncIterator[None]:
        """So many requests of accounts to channels that do not answer."""
        expected = len(self._upstream.requests) + sum(counts.values())
        asked = [
            asyncio.create_task(self.ask(account, channel, text="fault=hang"))
            for (account, channel), count in counts.items()
            for _ in range(count)
        ]
        try:
            await asyncio.to_thread(self._upstream.wait_for_requests, expected)
            yield
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)


@pytest.fixture
def site(http_client: HttpClient, channels: Channels, upstream: Upstream) -> Site:
    return Site(http_client, channels, upstream)


def open_requests(channel: str) -> float:
    metrics.fold()
    (metric,) = metrics.CHANNEL_PLACES.collect()
    return next((one.value for one in metric.samples if one.labels["channel"] == channel), 0.0)


async def refusal(site: Site, account_id: int, *candidates: Channel) -> str:
    with pytest.raises(Overloaded) as refused:
        await site.ask(account_id, *candidates)
    assert refused.value.headers["Retry-After"] == "1"
    return refused.value.message


async def test_a_silent_channel_leaves_places_to_the_others(site: Site, channels: Channels) -> None:
    silent, other = site.channel("silent"), site.channel("other")
    async with site.silent(
        {(1, silent): OF_ACCOUNT_ON_CHANNEL, (2, silent): OF_CHANNEL - OF_ACCOUNT_ON_CHANNEL}
    ):
        assert open_requests("silent") == OF_CHANNEL
        assert "Every channel has as many requests open" in await refusal(site, 3, silent)
        for account in (1, 3):
            assert await site.ask(account, other) == "hello"
            assert await site.ask(account, silent, other) == "hello"
    assert not channels.circuits.open("silent")
    assert open_requests("silent") == 0
    assert await site.ask(1, silent) == "hello"


async def test_an_account_leaves_places_to_others_on_each_channel_and_in_all(site: Site) -> None:
    first, second, third = (site.channel(name) for name in ("first", "second", "third"))
    rest = OF_ACCOUNT - OF_ACCOUNT_ON_CHANNEL
    async with site.silent({(1, first): OF_ACCOUNT_ON_CHANNEL}):
        await refusal(site, 1, first)
        assert await site.ask(2, first) == "hello"
        async with site.silent({(1, second): rest}):
            refused = asyncio.create_task(refusal(site, 1, third))
            await asyncio.sleep(0)
            assert await site.ask(2, third) == "hello"
            assert "As many calls are open as this account" in await refused
            assert open_requests("third") == 0
            async with site.silent({(2, third): PLACES - OF_ACCOUNT}):
                assert "or all accounts together, may have" in await refusal(site, 3, second)


async def test_what_waits_for_a_full_channel_leaves_the_other_channels_to_all(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    full, other = site.channel("full", concurrent=2), site.channel("other")
    async with site.silent({(1, full): 1, (2, full): 1}):
        monkeypatch.setattr(circuits, "WAIT_S", SOON_S)
        waiting = [asyncio.create_task(site.ask(account, full)) for account in range(3, 3 + 2 * PLACES)]
        await asyncio.sleep(0)
        assert await site.ask(1, other) == "hello"
    assert await asyncio.gather(*waiting) == ["hello"] * len(waiting)


async def test_the_limit_of_a_channel_replaces_its_share(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = site.channel("limited", concurrent=2)
    async with site.silent({(1, channel): 1, (2, channel): 1}):
        await refusal(site, 3, channel)
        monkeypatch.setattr(circuits, "WAIT_S", SOON_S)
        waiting = asyncio.create_task(site.ask(3, channel))
        await asyncio.sleep(0)
    assert await waiting == "hello"


async def test_full_channels_open_no_circuit(site: Site, channels: Channels) -> None:
    channel = site.channel("one", concurrent=1)
    async with site.silent({(1, channel): 1}):
        for _ in range(FAILURES_MAX):
            await refusal(site, 2, channel)
    assert await site.ask(2, channel) == "hello"


async def test_missing_files_are_no_fault_of_a_channel(
    site: Site, channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    channel = site.channel("one")
    monkeypatch.setattr(type(asyncio.get_running_loop()), "create_connection", fail)
    for _ in range(FAILURES_MAX):
        assert "as many files open as it may have" in await refusal(site, 1, channel, site.channel("two"))
    assert not channels.circuits.open("one")
