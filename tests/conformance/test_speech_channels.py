"""Speech from an upstream: in progress, and when the upstream fails."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.conformance.audio_urls import listen
from tests.conformance.caller import DELIVERED, REFUNDED, Caller, Stats, check_error
from tests.conformance.conftest import LIMITS, make_caller, wait_for_voices
from tests.rig.service import Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

FAILURES = [
    *(f"status:{status}" for status in (400, 401, 404, 429, 500)),
    *("redirect", "close", "cut", "garbage", "list", "noise", "oversized"),
]


@pytest.fixture(scope="module")
def speaker(serving: Callable[..., Any], session_upstream: Upstream) -> Iterator[Caller]:
    """A caller of a service with an upstream as its only speech channel."""
    env = {**LIMITS, "MYNA_SPEECH_KEY": session_upstream.key, "MYNA_SPEECH_MODEL": "a-voice-model"}
    with serving("speaker", speech=session_upstream.url, env=env) as service:
        caller = make_caller(service)
        wait_for_voices(caller)
        yield caller
        assert service.command("audit", "--json").code == 0


def newest(caller: Caller) -> Any:
    return caller.get("/records?limit=1").json["data"][0]


def task(caller: Caller, record: Any) -> Any:
    return caller.get(f"/task?id={record['id']}").json["data"]


def test_the_upstream_gets_the_text_the_voice_and_its_own_key(
    speaker: Caller, chat_upstream: Upstream
) -> None:
    voice_id = speaker.get("/voices").json["data"][1]["voice_id"]
    answer = speaker.speak("你好，world", voice_id=voice_id, speed="1.5")
    assert answer.status == 200
    listen(speaker.service, answer.json["audio_url"])
    [seen] = chat_upstream.requests
    assert seen.path == "/v1/audio/speech"
    assert seen.headers["authorization"] == f"Bearer {chat_upstream.key}"
    assert seen.json["model"] == "a-voice-model"
    assert (seen.json["input"], seen.json["voice"], seen.json["speed"]) == ("你好，world", voice_id, 1.5)
    assert speaker.key.plain not in str(seen.headers) + seen.body.decode()


def test_a_failing_speech_upstream_is_500_refunded_and_a_failed_record(
    speaker: Caller, chat_upstream: Upstream
) -> None:
    for fault in FAILURES:
        assert speaker.speak("well").status == 200  # a success resets the count of failures
        before = speaker.stats()
        check_error(speaker.speak(f"fault={fault}"), 500, "upstream_error")
        assert speaker.stats() - before == REFUNDED, fault
        record = newest(speaker)
        said = "失败：语音渠道失败，已退还所扣点数"
        assert (record["status"], record["status_text"], record["audio_url"]) == (3, said, "")
        assert record["text"] == f"fault={fault}"
        assert task(speaker, record)["status"] == 3
    assert chat_upstream.trapped == 0


def test_speech_by_chat_fails_likewise(speaker: Caller) -> None:
    assert speaker.speak("well").status == 200
    before = speaker.stats()
    check_error(speaker.chat("朗读：fault=noise"), 500, "upstream_error")
    assert speaker.stats() - before == REFUNDED
    assert newest(speaker)["status"] == 3


def test_a_hanging_or_slow_job_ends_at_its_deadline(hasty_service: Service) -> None:
    caller = make_caller(hasty_service)
    wait_for_voices(caller)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(caller.speak, f"fault={fault}") for fault in ("hang", "drip")]
        for answer in asked:
            check_error(answer.result(60), 500, "upstream_error")
    assert caller.stats() == Stats(calls=2, cost=0, ok_calls=0)
    assert {record["status"] for record in caller.get("/records").json["data"]} == {3}


def test_a_job_in_progress_is_shown_as_processing(speaker: Caller, chat_upstream: Upstream) -> None:
    before = speaker.stats()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(speaker.speak, "fault=block")
        chat_upstream.wait_for_requests(1)
        record = newest(speaker)
        assert (record["status"], record["audio_url"], record["chars"]) == (1, "", len("fault=block"))
        assert record["status_text"].startswith("处理中")
        assert task(speaker, record)["status"] == 1
        assert (speaker.stats() - before).ok_calls == 0
        chat_upstream.release()
        assert asked.result(60).status == 200
    assert newest(speaker)["status"] == 2
    assert speaker.stats() - before == DELIVERED


@pytest.fixture
def second() -> Iterator[Upstream]:
    """Another upstream, which works."""
    running = Upstream()
    yield running
    running.close()


def test_if_the_first_channel_fails_the_second_serves(
    own_service: Callable[..., Service], upstream: Upstream, second: Upstream
) -> None:
    service = own_service(speech=upstream.url).start()
    for kind in ("chat", "speech"):
        service.cli("channel", "add", kind, f"second-{kind}", second.url, "--model", "second-model")
    caller = make_caller(service)
    wait_for_voices(caller)
    upstream.behave("status:500")
    second.forget()

    def speaks() -> bool:  # the voices of the second channel are also read in the background
        return caller.speak("你好").status == 200

    wait_until(speaks, 60, "the second channel speaks")
    before = caller.stats()
    assert caller.speak("你好").status == 200
    assert caller.chat("hello").status == 200
    assert caller.stats() - before == Stats(calls=2, cost=2, ok_calls=2)
    assert second.requests[-1].json["model"] == "second-model"
