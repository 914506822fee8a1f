"""A channel that is silent within its stream: comments keep the client's connection open, for a time."""

from collections.abc import Callable, Iterator

import pytest

from tests.conformance.caller import DELIVERED, REFUNDED, Caller
from tests.conformance.conftest import make_caller
from tests.rig.service import Service
from tests.rig.sse import EventReader
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

KEEP_ALIVE = b": keep-alive"
WITH_COMMENTS_SOON = (
    "-c",
    "from myna.relay import streaming\nstreaming.KEEP_ALIVE_EVERY_S = 0.1\n"
    "from myna.cli import main; main(['serve'])",
)
LONG_BYTES = 2**20
SILENT = "the channel was silent for too long"


def stream(caller: Caller, text: str, model: str = "svc-chat") -> EventReader:
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": text}]}
    return EventReader(f"{caller.service.root_url}/openai/v1/chat/completions", caller.key.plain, body)


def respond(caller: Caller, text: str) -> EventReader:
    body = {"model": "svc-chat", "stream": True, "input": text}
    return EventReader(f"{caller.service.root_url}/openai/v1/responses", caller.key.plain, body)


@pytest.fixture
def impatient(own_service: Callable[..., Service]) -> Iterator[Caller]:
    """A caller of a service whose channels may be silent for a second."""
    service = own_service(MYNA_UPSTREAM_IDLE_S="1", MYNA_STREAM_DEADLINE_S="20").start()
    yield make_caller(service)
    assert service.command("audit", "--json").code == 0


def test_a_silent_stream_has_comments_between_its_events_and_none_within_one(
    own_service: Callable[..., Service], upstream: Upstream
) -> None:
    caller = make_caller(own_service(program=WITH_COMMENTS_SOON).start())
    long = stream(caller, f"fault=half-pause:{LONG_BYTES} x")
    with long, stream(caller, "fault=pause one two") as short:
        assert b'"role"' in long.next_event() and long.next_event()
        long.raw += long.response.read(LONG_BYTES // 4)
        while short.raw.count(KEEP_ALIVE) < 10:
            assert short.next_event()
        upstream.release()
        assert short.rest().is_done and short.text == "fault=pause one two"
        assert {event for event in short.events if event.startswith(b":")} == {KEEP_ALIVE}
        assert b"x" * LONG_BYTES in long.rest().raw and long.is_done


def test_nothing_is_sent_before_the_first_event(
    own_service: Callable[..., Service], upstream: Upstream
) -> None:
    """Else a channel that fails then could not be followed by another one."""
    caller = make_caller(own_service(program=WITH_COMMENTS_SOON).start())
    with stream(caller, "fault=before one two") as waiting, stream(caller, "fault=pause one") as clock:
        while clock.raw.count(KEEP_ALIVE) < 3:
            assert clock.next_event()
        upstream.release()
        assert waiting.rest().is_done and waiting.raw.startswith(b"data: ")


def test_a_stream_that_is_silent_for_too_long_ends_with_an_error_and_is_refunded(impatient: Caller) -> None:
    with stream(impatient, "fault=silent one two").rest() as answer:
        assert answer.status == 200 and not answer.ended
        assert b"[DONE]" not in answer.raw and len(answer.chunks) == 3
        assert answer.error["type"] == "upstream_error"
        assert SILENT in answer.error["message"] and "refunded" in answer.error["message"]
    assert impatient.stats() == REFUNDED


def test_a_response_that_is_silent_for_too_long_fails_and_is_refunded(impatient: Caller) -> None:
    with respond(impatient, "fault=silent one two").rest() as answer:
        assert answer.status == 200 and not answer.ended
        last = answer.chunks[-1]
        assert last["type"] == "response.failed" and SILENT in last["response"]["error"]["message"]
    assert impatient.stats() == REFUNDED


def test_a_channel_that_is_silent_before_its_first_event_is_followed_by_the_next_one(
    impatient: Caller, upstream: Upstream, chat_upstream: Upstream
) -> None:
    impatient.service.cli("channel", "add", "chat", "second", chat_upstream.url)
    channels = ("--channel", "default", "--channel", "second")
    impatient.service.cli("route", "add", "two", *channels, "--units", "1")
    upstream.behave("before")
    with stream(impatient, "one two", "two").rest() as answer:
        assert answer.is_done and answer.text == "one two"
        assert answer.headers["x-myna-channel"] == "second"
    wait_until(lambda: upstream.abandoned == 1, 20, "the first request has ended")
    assert impatient.stats() == DELIVERED
