"""The answer and the refund when a speech channel at an upstream fails."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from myna.channels.circuits import FAILURES_MAX
from tests.conformance.caller import Caller, check_error, make_caller
from tests.rig.service import Service, ServiceMaker
from tests.rig.upstream import Upstream
from tests.rig.waiting import SOON_S, wait_until

REFUSED = (429, 400, 404, 415, 422, 451)
"""The statuses by which a server refuses one request."""


def with_voices(service: Service, upstream: Upstream) -> Service:
    """Starts a service whose upstream lists no voices, so it is asked for the classic ones."""
    upstream.behave("status:404")
    service.start()
    wait_until(lambda: len(service.cli("voice", "list")) > 1, SOON_S, "the voices are known")
    return service


@pytest.fixture
def caller(make_service: ServiceMaker, upstream: Upstream) -> Iterator[Caller]:
    """A caller of a service whose only voice is an upstream."""
    env = {"MYNA_SPEECH_KEY": upstream.key, "MYNA_OUTBOUND_CONNECTIONS_MAX": "2"}
    service = with_voices(make_service(chat_url="parrot:", speech=upstream.url, env=env), upstream)
    caller = make_caller(service, units=20)
    yield caller
    assert caller.balance() == 20
    assert service.command("audit").code == 0
    assert not [path for path in (service.folder / "data" / "audio").rglob("*.*") if path.is_file()]


def test_a_refused_text_is_500_refunded_and_opens_no_circuit(caller: Caller, upstream: Upstream) -> None:
    asked = len(upstream.requests)
    for status in REFUSED:
        upstream.behave(f"status:{status}")
        for _ in range(FAILURES_MAX):
            check_error(caller.speak("hello"), 500, "upstream_error")
    assert len(upstream.requests) == asked + FAILURES_MAX * len(REFUSED)


def test_a_full_channel_is_503_and_refunded(caller: Caller, upstream: Upstream) -> None:
    """An account gets half of a channel's places, which is one here."""
    asked = len(upstream.requests)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(caller.speak, "fault=block:500 hello")
        upstream.wait_for_requests(asked + 1)
        for _ in range(2):
            answer = caller.speak("hello")
            assert "as many requests open as it may have" in check_error(answer, 503)
            assert answer.headers["retry-after"] == "1"
        upstream.release()
        assert waiting.result().status == 500


def test_a_failing_channel_is_500_refunded_and_opens_its_circuit(caller: Caller, upstream: Upstream) -> None:
    """One account fails, and so does the probe. Then no text is valid, in whatever voice."""
    upstream.behave("status:500")
    assert [caller.speak("hello").status for _ in range(FAILURES_MAX)] == [500] * FAILURES_MAX
    wait_until(lambda: "circuit of channel" in caller.service.stderr, SOON_S, "the channel is probed")
    asked = len(upstream.requests)
    for voice_id in ("alloy", "nobody"):
        for text in ("hello", ""):
            message = check_error(caller.speak(text, voice_id=voice_id), 503)
            assert message.startswith("No speech channel is available now")
    assert len(upstream.requests) == asked
    wait_until(lambda: caller.service.stderr.count("***") >= FAILURES_MAX, SOON_S, "all are logged")
    assert upstream.key not in caller.service.stderr


def test_after_a_timeout_the_next_channel_speaks(make_service: ServiceMaker, upstream: Upstream) -> None:
    env = {"MYNA_UPSTREAM_IDLE_S": "0.3", "HANGS": upstream.key}
    service = make_service(chat_url="parrot:", speech="none", env=env).start()
    upstream.behave("status:404")
    for name in ("first", "second"):
        service.cli("channel", "add", "speech", name, upstream.url, "--key-env", "HANGS")
    upstream.forget()
    upstream.behave("hang")
    check_error(make_caller(service, units=20).speak("hello"), 500, "upstream_error")
    assert len(upstream.requests) == 2


def test_a_timeout_of_a_long_text_opens_no_circuit(make_service: ServiceMaker, upstream: Upstream) -> None:
    """Long texts don't open the circuit for everyone; timeouts of short ones do."""
    made = make_service(chat_url="parrot:", speech=upstream.url, env={"MYNA_UPSTREAM_IDLE_S": "0.15"})
    service = with_voices(made, upstream)
    callers = [make_caller(service, units=20) for _ in range(FAILURES_MAX)]
    upstream.behave("hang")
    for text, speed in (("a long text", "0.25"), ("a", "4.0")):
        assert [caller.speak(text, speed=speed).status for caller in callers] == [500] * FAILURES_MAX
    assert callers[0].speak("a", speed="4.0").status == 503
    assert made.stderr.count("circuit of channel 'default-speech' is open for 10 s") == 1
