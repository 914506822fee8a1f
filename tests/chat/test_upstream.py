"""Asking upstreams in this very process; what callers see of them is tested over the wire."""

import gc
import logging

import pytest

from myna.channels import PARROT, Channel, Channels
from myna.chat.upstream import Fault, ask
from myna.errors import UpstreamFailed
from myna.outbound.client import Outbound
from myna.settings import Settings
from tests.rig.upstream import Upstream

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("others", [0, 1])
@pytest.mark.parametrize("fault", ["status:500", "close", "broken"])
async def test_a_call_that_failed_leaves_nothing_to_the_collector(
    upstream: Upstream, caplog: pytest.LogCaptureFixture, fault: str, others: int
) -> None:
    """What goes round in circles stays until some ten thousand such things are there. With another channel
    that answers, and without."""
    caplog.set_level(logging.CRITICAL)  # the records would be kept, and what failed with them
    outbound = Outbound(connections_max=1)
    channels = Channels(Settings(speech="none"), {}, outbound, None)
    channel = Channel("chat", "one", upstream.url, "", "")
    candidates = [channel, *[Channel("chat", "two", PARROT, "", "")] * others]
    upstream.behave(fault)
    failed = 0
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            try:
                await ask(
                    outbound, channels, candidates, {"messages": []}, "",
                    seconds=10, try_s=10, answer_max_bytes=1000,
                )  # fmt: skip
            except UpstreamFailed:
                failed += 1
        left = [found for found in gc.get_objects() if type(found) is Fault]
    finally:
        gc.enable()
        await outbound.close()
    assert failed == (0 if others else 3) and not left
