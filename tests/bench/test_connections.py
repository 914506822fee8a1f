"""The comparison of connections measures each of its servers, over real connections."""

import pytest
import uvloop

from bench.connections import ARMS, Timers, compare, wait_us
from myna.aio.timeouts import Timeouts


def test_every_server_answers_and_is_measured() -> None:
    found = compare(connections=2, requests=5000, rounds=1)
    assert list(found) == list(ARMS)
    assert all(rate > 0 for _, rate, _ in found.values())


@pytest.mark.parametrize("waits", [Timeouts, Timers])
def test_a_timeout_is_measured_and_removed(waits: type[Timeouts]) -> None:
    kept = waits()
    assert uvloop.run(wait_us(kept, repeated=200)) > 0
    assert not (kept._timers if isinstance(kept, Timers) else kept)
