"""The answer and the refund when a speech channel fails."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from myna.channels import FAILURES_MAX
from tests.rig.calls import Answer, call
from tests.rig.service import ON_TWO_CORES, Service, ServiceMaker
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

SILENT = "\ua78c"
"""A letter, SALTILLO, for which espeak-ng makes no sound."""
WAIT_S = 60

Speak = Callable[[str], Answer]


def speaker(service: Service, **more: str) -> Speak:
    key = service.account(units=20).key().plain
    return lambda text: call("POST", f"{service.base_url}/tts", key=key, data={"text": text, **more})


def balance(service: Service) -> int:
    ((account,)) = service.cli("account", "list")
    return int(account["balance"])


def files(service: Service) -> list[Path]:
    return [path for path in (service.folder / "data" / "audio").rglob("*") if path.is_file()]


@pytest.fixture
def openai_service(make_service: ServiceMaker, upstream: Upstream) -> Iterator[Service]:
    """A service whose only voice is an upstream that lists none, so it is asked for the classic ones."""
    upstream.behave("status:404")
    service = make_service(
        chat_url="parrot:", speech=upstream.url, env={"MYNA_SPEECH_KEY": upstream.key}
    ).start()
    wait_until(lambda: len(service.cli("voice", "list")) > 1, WAIT_S, "the voices are known")
    yield service
    assert service.command("audit").code == 0
    assert files(service) == []


def test_a_busy_channel_is_500_refunded_and_opens_no_circuit(
    openai_service: Service, upstream: Upstream
) -> None:
    speak = speaker(openai_service)
    upstream.behave("status:429")
    for _ in range(FAILURES_MAX + 1):
        answer = speak("hello")
        assert (answer.status, answer.json["error"]["type"]) == (500, "upstream_error")
    assert balance(openai_service) == 20


def test_a_failing_channel_is_500_refunded_and_opens_its_circuit(
    openai_service: Service, upstream: Upstream
) -> None:
    speak = speaker(openai_service)
    upstream.behave("status:500")
    assert [speak("hello").status for _ in range(FAILURES_MAX)] == [500] * FAILURES_MAX
    asked = len(upstream.requests)
    unused = speak("hello")
    assert unused.status == 503
    assert "No speech channel" in unused.json["error"]["message"]
    assert len(upstream.requests) == asked
    assert balance(openai_service) == 20
    assert openai_service.stderr.count("***") >= FAILURES_MAX
    assert upstream.key not in openai_service.stderr


def test_without_an_available_channel_every_voice_is_503(openai_service: Service, upstream: Upstream) -> None:
    upstream.behave("status:500")
    known, unknown = (speaker(openai_service, voice_id=name) for name in ("alloy", "nobody"))
    assert [known("hello").status for _ in range(FAILURES_MAX)] == [500] * FAILURES_MAX
    for speak in (known, unknown):
        for text in ("hello", ""):
            answer = speak(text)
            assert answer.status == 503
            assert answer.json["error"]["message"].startswith("No speech channel is available now")


def test_a_text_without_a_sound_is_400_and_refunded(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:").start()
    speak = speaker(service)
    for _ in range(FAILURES_MAX + 1):
        answer = speak(SILENT)
        assert answer.status == 400
        assert answer.json["error"]["message"].startswith("text: holds nothing that this voice can speak")
    assert balance(service) == 20
    assert files(service) == []
    failures = 'myna_upstream_failures_total{channel="espeak"'
    assert failures not in call("GET", f"{service.root_url}/metrics").body.decode()
    assert speak("hello").status == 200
    assert balance(service) == 19
    assert service.stop() == 0
    assert service.command("audit", "--audio").code == 0


def test_texts_over_the_queue_limit_are_503_before_the_charge(make_service: ServiceMaker) -> None:
    env = {"MYNA_SPEECH_QUEUE_MAX": "1"}
    service = make_service(program=ON_TWO_CORES, chat_url="parrot:", env=env).start()
    key = service.account(units=100).key().plain
    order = {"text": "今天天气很好，我们一起去公园散步。" * 10}
    url = f"{service.base_url}/tts"
    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda _: call("POST", url, key=key, data=order), range(48)))
    refused = [answer for answer in answers if answer.status == 503]
    spoken = [answer for answer in answers if answer.status == 200]
    assert refused
    assert spoken
    assert {answer.json["error"]["type"] for answer in refused} == {"service_unavailable"}
    stats = call("GET", f"{service.base_url}/me", key=key).json["stats"]
    assert stats["ok_calls"] == len(spoken)
    assert stats["calls"] == len(answers) - len(refused)
    assert service.command("audit").code == 0


@pytest.mark.parametrize("status", [400, 413, 422])
def test_a_text_that_the_channel_refuses_opens_no_circuit(
    openai_service: Service, upstream: Upstream, status: int
) -> None:
    speak = speaker(openai_service)
    upstream.behave(f"status:{status}")
    asked = len(upstream.requests)
    assert [speak("hello").status for _ in range(FAILURES_MAX + 1)] == [500] * (FAILURES_MAX + 1)
    assert len(upstream.requests) == asked + FAILURES_MAX + 1


def test_after_a_timeout_the_next_speech_channel_is_asked(
    make_service: ServiceMaker, upstream: Upstream
) -> None:
    service = make_service(
        chat_url="parrot:", speech="none", env={"MYNA_UPSTREAM_IDLE_S": "0.5", "HANGS": upstream.key}
    ).start()
    upstream.behave("status:404")
    for name in ("first", "second"):
        service.cli("channel", "add", "speech", name, upstream.url, "--key-env", "HANGS")
    upstream.forget()
    upstream.behave("hang")
    answer = speaker(service)("hello")
    assert (answer.status, answer.json["error"]["type"]) == (500, "upstream_error")
    assert len(upstream.requests) == 2


def test_a_timeout_of_a_long_text_opens_no_circuit(make_service: ServiceMaker, upstream: Upstream) -> None:
    """Long texts of one caller don't open the circuit for everyone; timeouts of short ones do."""
    service = make_service(chat_url="parrot:", speech=upstream.url, env={"MYNA_UPSTREAM_IDLE_S": "0.2"})
    upstream.behave("status:404")
    service.start()
    wait_until(lambda: len(service.cli("voice", "list")) > 1, WAIT_S, "the voices are known")
    upstream.behave("hang")
    long, short = speaker(service, speed="0.25"), speaker(service, speed="4.0")
    assert [long("a long text").status for _ in range(FAILURES_MAX + 1)] == [500] * (FAILURES_MAX + 1)
    assert [short("a").status for _ in range(FAILURES_MAX)] == [500] * FAILURES_MAX
    assert short("a").status == 503
    assert service.stderr.count("circuit of channel 'default-speech' is open for 10 s") == 1
