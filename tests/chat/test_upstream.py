"""Requests to upstreams, tested in process; other tests check the answers of /v1 over HTTP."""

import gc
import logging
from typing import Any

import pytest

from myna.channels.channels import PARROT, Channel, Channels
from myna.channels.circuits import FAILURES_MAX
from myna.errors import UpstreamFailed
from myna.gateway.failover import ChannelClient, FailedAttempt, Nobody
from myna.gateway.relay.v1 import TOOL_CALLS_MAX_BYTES, first_choice
from myna.http.client.client import HttpClient
from myna.settings import Settings
from myna.wire.v1 import ChatChoice, ChatMessage
from tests.rig.upstream import Upstream

FAIR_TRY_S = 5.0


class Outbound:
    """A client, and the channels `one` and `two` of an upstream. `limits` are those of the client."""

    def __init__(self, upstream: Upstream, **limits: Any) -> None:
        self.client = HttpClient(**{"connections_max": 2} | limits)
        settings = Settings(speech="none", answer_max_bytes=1000)
        self.channels = Channels(settings=settings, environ={}, http_client=self.client, local={})
        self.channel_client = ChannelClient(settings, self.channels, self.client)
        self.both = [
            Channel(kind="chat", name=name, url=upstream.url, model="", key="") for name in ("one", "two")
        ]

    async def ask(self, *candidates: Channel, fair_try_s: float = FAIR_TRY_S) -> ChatChoice | None:
        async def attempt(channel: Channel, left_s: float) -> ChatChoice | None:
            if channel.url == PARROT:
                return None
            answer = await self.channel_client.answer_of(
                channel, "/chat/completions", b'{"messages":[]}', deadline_s=left_s
            )
            return first_choice(answer.body, channel)

        return await self.channel_client.first_answer(
            candidates or self.both, attempt, asker=Nobody(60), fair_try_s=fair_try_s
        )


@pytest.mark.parametrize(("fault", "others"), [("status:500", 0), ("close", 1), ("broken", 0)])
async def test_a_failed_call_leaves_no_reference_cycle(
    upstream: Upstream, caplog: pytest.LogCaptureFixture, fault: str, others: int
) -> None:
    """Cycles stay in memory until the garbage collector runs, after some ten thousand allocations. With
    another channel that answers, and without."""
    caplog.set_level(logging.CRITICAL)  # records would be kept, with references to the exceptions
    outbound = Outbound(upstream)
    parrot = Channel(kind="chat", name="parrot", url=PARROT, model="", key="")
    upstream.behave(fault)
    failed = 0
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            try:
                await outbound.ask(outbound.both[0], *[parrot] * others)
            except UpstreamFailed:
                failed += 1
        left = [found for found in gc.get_objects() if type(found) is FailedAttempt]
    finally:
        gc.enable()
        await outbound.client.close()
    assert failed == (0 if others else 3) and not left


async def ask_two(upstream: Upstream, *, times: int = 1, fair_try_s: float, idle_s: float = 0.1) -> Channels:
    """Asks two channels that never answer, with a client that times out after `idle_s`."""
    outbound = Outbound(upstream, idle_s=idle_s)
    upstream.behave("hang")
    for _ in range(times):
        with pytest.raises(UpstreamFailed):
            await outbound.ask(fair_try_s=fair_try_s)
    await outbound.client.close()
    return outbound.channels


@pytest.mark.parametrize(("fair_try_s", "asked"), [(0.1, 2), (60, 1)])
async def test_after_a_timeout_the_next_channel_is_asked_only_if_enough_time_is_left(
    upstream: Upstream, fair_try_s: float, asked: int
) -> None:
    """A generation that timed out is perhaps still running."""
    await ask_two(upstream, fair_try_s=fair_try_s, idle_s=0.3)
    upstream.wait_for_requests(asked)
    assert len(upstream.requests) == asked


@pytest.mark.parametrize(("fair_try_s", "opened"), [(0.1, True), (61, False)])
async def test_a_timeout_counts_as_a_failure_if_the_channel_had_enough_time(
    upstream: Upstream, fair_try_s: float, opened: bool
) -> None:
    channels = await ask_two(upstream, times=FAILURES_MAX, fair_try_s=fair_try_s)
    assert channels.circuits.open("one") == opened


def read(body: str) -> ChatChoice:
    """What a channel's answer is read as."""
    return first_choice(body.encode(), Channel(kind="chat", name="one", url="http://h/v1", model="", key=""))


@pytest.mark.parametrize(("tool_calls", "taken"), [("null", None), ("[]", []), ('[{"id":"a"}]', [])])
def test_of_several_choices_the_first_is_taken(tool_calls: str, taken: Any) -> None:
    first = f'{{"message":{{"content":"x","tool_calls":{tool_calls}}},"finish_reason":"length"}}'
    read_as = ChatChoice(0, ChatMessage("assistant", "x", taken), "length")
    assert read(f'{{"choices":[{first},{{"message":1}}]}}') == read_as


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
def test_invalid_or_too_large_tool_calls_are_a_failure(tool_calls: str, said: str) -> None:
    with pytest.raises(FailedAttempt, match=said):
        read(f'{{"choices":[{{"message":{{"tool_calls":{tool_calls}}}}}]}}')


async def test_an_empty_answer_caused_by_the_request_opens_no_circuit(upstream: Upstream) -> None:
    """No caller can open circuits or cause requests to all channels by max_tokens or a stop sequence."""
    outbound = Outbound(upstream)
    upstream.behave("empty")
    for _ in range(FAILURES_MAX):
        with pytest.raises(UpstreamFailed):
            await outbound.ask()
    await outbound.client.close()
    assert len(upstream.requests) == FAILURES_MAX
    assert not outbound.channels.circuits.open("one")
