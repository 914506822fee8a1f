"""A channel that does not answer takes its own places: other channels and accounts are served meanwhile, and
who gets no place pays nothing."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice

from tests.conformance.caller import Caller
from tests.conformance.conftest import ON_BOTH_DATABASES, make_caller
from tests.rig.calls import call
from tests.rig.service import Service
from tests.rig.upstream import Upstream

PLACES, OF_CHANNEL, OF_ACCOUNT_ON_CHANNEL = 20, 15, 8


def chat(caller: Caller, model: str, text: str = "hello") -> tuple[int, str]:
    """The status, and Retry-After."""
    url = f"{caller.service.root_url}/openai/v1/chat/completions"
    said = {"model": model, "messages": [{"role": "user", "content": text}]}
    answer = call("POST", url, key=caller.key.plain, data=said)
    return answer.status, answer.headers.get("retry-after", "")


@ON_BOTH_DATABASES
def test_a_silent_channel_stops_neither_other_channels_nor_other_accounts(
    own_service: Callable[..., Service], upstream: Upstream, chat_upstream: Upstream
) -> None:
    service = own_service(MYNA_OUTBOUND_CONNECTIONS_MAX=str(PLACES)).start()
    for name, server in (("silent", upstream), ("other", chat_upstream)):
        service.cli("channel", "add", "chat", name, server.url)
        service.cli("route", "add", name, "--channel", name, "--units", "1")
    service.cli("route", "add", "both", "--channel", "silent", "--channel", "other", "--units", "1")
    one, two = make_caller(service), make_caller(service)
    with ThreadPoolExecutor(PLACES) as threads:
        waiting = [threads.submit(chat, one, "silent", "fault=block hello") for _ in range(OF_CHANNEL)]
        upstream.wait_for_requests(OF_ACCOUNT_ON_CHANNEL)
        refused = islice(as_completed(waiting), OF_CHANNEL - OF_ACCOUNT_ON_CHANNEL)
        assert {done.result() for done in refused} == {(503, "1")}
        began = time.monotonic()
        assert chat(one, "other") == (200, "")
        assert time.monotonic() - began < 1
        assert chat(two, "silent", "hello") == (200, "")
        assert chat(one, "both")[0] == 200
        metrics = call("GET", f"{service.root_url}/metrics").body.decode()
        assert f'myna_channel_requests_open{{channel="silent"}} {float(OF_ACCOUNT_ON_CHANNEL)}' in metrics
        upstream.release()
        assert [done.result()[0] for done in waiting].count(200) == OF_ACCOUNT_ON_CHANNEL
    answered = OF_ACCOUNT_ON_CHANNEL + 2
    assert (one.stats().ok_calls, one.stats().cost) == (answered, answered)
    assert service.command("audit", "--json").code == 0
