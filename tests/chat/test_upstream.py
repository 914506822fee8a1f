"""Requests to upstreams, tested in process; other tests check the answers of /v1 over HTTP."""

import gc
import logging
from typing import Any

import pytest

from myna.channels.channels import PARROT, Channel, Channels
from myna.channels.circuits import FAILURES_MAX
from myna.errors import UpstreamFailed
from myna.gateway.chat.failover import FailedAttempt, Nobody
from myna.gateway.chat.upstream import TOOL_CALLS_MAX_BYTES, ModelAnswer, ask
from myna.http.client import ClientResponse
from myna.http.client.client import HttpClient
from myna.settings import Settings
from tests.rig.upstream import Upstream

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("fault", "others"), [("status:500", 0), ("close", 1), ("broken", 0)])
async def test_a_failed_call_leaves_no_reference_cycle(
    upstream: Upstream, caplog: pytest.LogCaptureFixture, fault: str, others: int
) -> None:
    """Cycles stay in memory until the garbage collector runs, after some ten thousand allocations. With
    another channel that answers, and without."""
    caplog.set_level(logging.CRITICAL)  # records would be kept, with references to the exceptions
    outbound = HttpClient(connections_max=1)
    channels = Channels(settings=Settings(speech="none"), environ={}, http_client=outbound, local={})
    channel = Channel(kind="chat", name="one", url=upstream.url, model="", key="")
    candidates = [channel, *[Channel(kind="chat", name="two", url=PARROT, model="", key="")] * others]
    upstream.behave(fault)
    failed = 0
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            try:
                await ask(
                    outbound, channels, candidates, "svc-chat", b'{"messages":[]}', "",
                    asker=Nobody(), seconds=60, fair_try_s=5, answer_max_bytes=1000,
                )  # fmt: skip
            except UpstreamFailed:
                failed += 1
        left = [found for found in gc.get_objects() if type(found) is FailedAttempt]
    finally:
        gc.enable()
        await outbound.close()
    assert failed == (0 if others else 3) and not left


async def ask_two(upstream: Upstream, *, times: int = 1, fair_try_s: float, idle_s: float = 0.1) -> Channels:
    """Asks two channels that never answer, with a client that times out after `idle_s`."""
    outbound = HttpClient(connections_max=2, idle_s=idle_s)
    channels = Channels(settings=Settings(speech="none"), environ={}, http_client=outbound, local={})
    both = [Channel(kind="chat", name=name, url=upstream.url, model="", key="") for name in ("one", "two")]
    upstream.behave("hang")
    for _ in range(times):
        with pytest.raises(UpstreamFailed):
            await ask(
                outbound, channels, both, "svc-chat", b'{"messages":[]}', "",
                asker=Nobody(), seconds=60, fair_try_s=fair_try_s, answer_max_bytes=1000,
            )  # fmt: skip
    await outbound.close()
    return channels


async def test_after_a_timeout_the_next_channel_is_asked_if_time_is_left(upstream: Upstream) -> None:
    await ask_two(upstream, fair_try_s=0.1, idle_s=0.3)
    upstream.wait_for_requests(2)
    assert len(upstream.requests) == 2


async def test_a_timed_out_generation_is_not_repeated_without_enough_time(upstream: Upstream) -> None:
    await ask_two(upstream, fair_try_s=60, idle_s=0.3)
    upstream.wait_for_requests(1)
    assert len(upstream.requests) == 1


@pytest.mark.parametrize(("fair_try_s", "opened"), [(0.1, True), (61, False)])
async def test_a_timeout_counts_as_a_failure_if_the_channel_had_enough_time(
    upstream: Upstream, fair_try_s: float, opened: bool
) -> None:
    channels = await ask_two(upstream, times=FAILURES_MAX, fair_try_s=fair_try_s)
    assert channels.circuits.open("one") == opened


class Answering:
    """A client whose every answer is this body."""

    def __init__(self, body: str) -> None:
        self._body = body.encode()

    async def request(self, *_: object, **__: object) -> ClientResponse:
        return ClientResponse(200, (), self._body)


async def read(body: str) -> ModelAnswer:
    """What a channel's answer is read as."""
    client: Any = Answering(body)
    channels = Channels(settings=Settings(speech="none"), environ={}, http_client=client, local={})
    channel = Channel(kind="chat", name="one", url="http://h/v1", model="", key="")
    return await ask(
        client, channels, [channel], "svc-chat", b'{"messages":[]}', "",
        asker=Nobody(), seconds=60, fair_try_s=5, answer_max_bytes=1000,
    )  # fmt: skip


@pytest.mark.parametrize(("tool_calls", "taken"), [("null", None), ("[]", []), ('[{"id":"a"}]', [])])
async def test_of_several_choices_the_first_is_taken(tool_calls: str, taken: object) -> None:
    first = f'{{"message":{{"content":"x","tool_calls":{tool_calls}}},"finish_reason":"length"}}'
    assert await read(f'{{"choices":[{first},{{"message":1}}]}}') == ModelAnswer("x", taken, "length")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("tool_calls", "said"),
    [
        ('[{"a":"%s"}]' % ("x" * TOOL_CALLS_MAX_BYTES), "tool calls are too large"),
        ("[%s{}]" % ("{}," * 60_000), "tool calls are too large"),
        ("[1]", "no chat completion"),
        ('{"a":1}', "no chat completion"),
        ("[]", "the answer is empty"),
    ],
    ids=["long", "many", "numbers", "an object", "none"],
)
async def test_invalid_or_too_large_tool_calls_are_a_failure(
    tool_calls: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(UpstreamFailed):
        await read(f'{{"choices":[{{"message":{{"tool_calls":{tool_calls}}}}}]}}')
    assert said in caplog.text


async def test_an_empty_answer_caused_by_the_request_opens_no_circuit(upstream: Upstream) -> None:
    """No caller can open circuits or cause requests to all channels by max_tokens or a stop sequence."""
    outbound = HttpClient(connections_max=1)
    channels = Channels(settings=Settings(speech="none"), environ={}, http_client=outbound, local={})
    both = [Channel(kind="chat", name=name, url=upstream.url, model="", key="") for name in ("one", "two")]
    upstream.behave("empty")
    for _ in range(FAILURES_MAX):
        with pytest.raises(UpstreamFailed):
            await ask(
                outbound, channels, both, "svc-chat", b'{"messages":[]}', "",
                asker=Nobody(), seconds=60, fair_try_s=5, answer_max_bytes=1000,
            )  # fmt: skip
    await outbound.close()
    assert len(upstream.requests) == FAILURES_MAX
    assert not channels.circuits.open("one")
