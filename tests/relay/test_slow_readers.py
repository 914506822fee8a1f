"""Clients that do not read their streams: the memory that each uses, and the effect on other streams."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.caller import Caller
from tests.conformance.conftest import make_caller
from tests.rig.processes import proc_file
from tests.rig.service import ServiceMaker
from tests.rig.sse import EventReader
from tests.rig.upstream import Upstream
from tests.rig.waiting import SOON_S, wait_until

SLOW = 12
SENT_KB = 20 * 1024
"""Of each slow stream: more than the buffers of its sockets, which take up to 16 MB."""
MEMORY_MAX_BYTES = 256 * 1024
"""Of a stream whose client does not read."""
WORDS = 100


def stream(caller: Caller, text: str, receive_bytes: int = 0) -> EventReader:
    body = {"model": "svc-chat", "stream": True, "messages": [{"role": "user", "content": text}]}
    url = f"{caller.service.root_url}/openai/v1/chat/completions"
    return EventReader(url, caller.key.plain, body, receive_bytes=receive_bytes)


def memory_bytes(pid: int) -> int:
    (line,) = [line for line in proc_file(pid, "status").splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def check_quick_stream(caller: Caller) -> None:
    with stream(caller, f"fault=words:{WORDS}") as answer:
        assert answer.rest().is_done and answer.text.split() == [f"w{n}" for n in range(WORDS)]


@pytest.fixture
def caller(make_service: ServiceMaker, upstream: Upstream) -> Iterator[Caller]:
    service = make_service(
        chat_url=upstream.url, chat_key=upstream.key, chat_model=upstream.model, speech="none"
    )
    yield make_caller(service.start())
    assert service.command("audit", "--json").code == 0


def test_slow_readers_cost_little_memory_and_nothing_of_the_streams_of_others(
    caller: Caller, upstream: Upstream
) -> None:
    for _ in range(SLOW):
        check_quick_stream(caller)
    service_pid, before = caller.service.pid, memory_bytes(caller.service.pid)
    upstream.forget()
    seen = [0]

    def paused() -> bool:
        last, seen[0] = seen[0], sum(one.sent_bytes for one in upstream.streams)
        return last == seen[0]

    with ExitStack() as opened:
        for _ in range(SLOW):
            slow = opened.enter_context(stream(caller, f"fault=much:{SENT_KB}", receive_bytes=4096))
            assert slow.next_event()
        check_quick_stream(caller)
        wait_until(paused, SOON_S, "no slow stream is read any more", every_s=0.5)
        grown = memory_bytes(service_pid) - before
        assert grown < SLOW * MEMORY_MAX_BYTES, f"{grown / SLOW / 1024:.0f} KB for each slow stream"
        assert all(one.sent_bytes < SENT_KB * 1024 for one in upstream.streams if one.sent_bytes > 10**6)
        for _ in range(SLOW):
            check_quick_stream(caller)
        with stream(caller, "fault=pause one two") as waiting:
            assert waiting.next_event() and b"pause" in waiting.next_event()
            upstream.release()
            assert waiting.rest().is_done
        assert upstream.abandoned == 0  # a client that reads nothing for a minute is disconnected
        assert memory_bytes(service_pid) - before < SLOW * MEMORY_MAX_BYTES
