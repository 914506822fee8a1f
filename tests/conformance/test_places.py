"""A channel that does not answer takes its own places: other channels and accounts are served meanwhile, and
who gets no place pays nothing."""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import islice
from typing import Any

import pytest

from myna.channels.circuits import FAILURES_MAX
from myna.gateway.trial import MESSAGE
from tests.conformance.audio_urls import listen
from tests.conformance.caller import DELIVERED, REFUNDED, Caller, Stats, check_error, make_caller
from tests.conformance.conftest import LIMITS, ON_BOTH_DATABASES
from tests.conformance.test_failing_channels import two_channels
from tests.rig.calls import Answer, call
from tests.rig.service import RunningService, Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

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
    places = 'myna_channel_requests_open{channel="silent"}'
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
        assert service.counted(places) == [OF_ACCOUNT_ON_CHANNEL]
        upstream.release()
        assert [done.result()[0] for done in waiting].count(200) == OF_ACCOUNT_ON_CHANNEL
    wait_until(lambda: service.counted(places) == [0], 5, "the places are free")
    answered = OF_ACCOUNT_ON_CHANNEL + 2
    assert (one.stats().ok_calls, one.stats().cost) == (answered, answered)
    assert service.command("audit", "--json").code == 0


TOO_LONG = "This model's maximum context length is 4096 tokens."
CONTEXT = "error:400,0 " + json.dumps(
    {"error": {"message": TOO_LONG, "type": "BadRequestError", "code": 400}}
)
NO_IMAGES = "error:500,0 " + json.dumps({"error": {"message": "image input is not supported", "code": 500}})
SAID = {
    "/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/responses": {"input": "hello"},
}


def ask(caller: Caller, model: str, path: str = "/chat/completions", **fields: Any) -> Answer:
    url = f"{caller.service.root_url}/openai/v1{path}"
    return call("POST", url, key=caller.key.plain, data={"model": model, **SAID[path], **fields})


@pytest.fixture
def model(service: Service, upstream: Upstream, chat_upstream: Upstream) -> Iterator[str]:
    with two_channels(service, upstream.url, chat_upstream.url) as name:
        yield name


@pytest.mark.parametrize("path", SAID)
@pytest.mark.parametrize("streams", [False, True])
def test_the_refusal_that_tells_most_is_told_whichever_channel_gave_it(
    fresh_caller: Caller, model: str, upstream: Upstream, chat_upstream: Upstream, path: str, streams: bool
) -> None:
    for first, second in ((CONTEXT, "status:500"), ("status:500", CONTEXT)):
        upstream.behave(first)
        chat_upstream.behave(second)
        answer = ask(fresh_caller, model, path, stream=streams)
        error = answer.json["error"]
        assert (answer.status, error["code"]) == (400, "context_length_exceeded")
        assert error["type"] == "BadRequestError" and TOO_LONG in error["message"]
        assert answer.headers["x-should-retry"] == "false"
    assert fresh_caller.stats() == Stats(calls=2, cost=0, ok_calls=0)


def test_on_v1_a_refusal_is_500_and_only_says_try_again_where_that_may_help(
    fresh_caller: Caller, chat_upstream: Upstream
) -> None:
    for fault, may_help in ((CONTEXT, False), ("error:429,7 {}", True), ("status:401", False)):
        chat_upstream.behave(fault)
        answer = fresh_caller.chat("hello")
        assert (answer.status, answer.json["error"]["type"]) == (500, "upstream_error")
        assert ("try again later" in answer.json["error"]["message"]) is may_help
        assert answer.headers.get("x-should-retry") == (None if may_help else "false")
    assert fresh_caller.stats() == Stats(calls=3, cost=0, ok_calls=0)


def circuit(service: Service, name: str) -> tuple[str, float]:
    """The state of a circuit, and how often it opened."""
    (opened,) = service.counted(f'myna_channel_circuit_opened_total{{channel="{name}"}}')
    return next(row["circuit"] for row in service.cli("channel", "list") if row["name"] == name), opened


def test_requests_of_one_account_open_no_circuit_if_the_channel_answers_others(
    fresh_caller: Caller, model: str, upstream: Upstream
) -> None:
    """The channel is probed with a request of our own, which is answered."""
    name = model.replace("model", "first")
    upstream.behave(NO_IMAGES)
    for _ in range(FAILURES_MAX):
        ask(fresh_caller, model)
    assert not probes(upstream)
    upstream.behave("echo")
    for text in ("fault=status:500 x", "fault=close x") * FAILURES_MAX:
        ask(fresh_caller, model, messages=[{"role": "user", "content": text}])
    wait_until(lambda: bool(probes(upstream)), 20, "the channel is probed")
    assert probes(upstream)[0]["max_tokens"] == 16
    assert circuit(fresh_caller.service, name) == ("closed", 0)
    assert ask(fresh_caller, model).headers["x-myna-channel"] == name


def probes(upstream: Upstream) -> list[Any]:
    """The bodies of the requests that are not a caller's."""
    return [
        seen.json
        for seen in upstream.requests
        if seen.body and seen.json["messages"][-1]["content"] == MESSAGE
    ]


FAILURES = [*("status:400", "status:500", "redirect", "cut", "noise", "oversized")]


@pytest.fixture(scope="module")
def speaker(serving: RunningService, session_upstream: Upstream) -> Iterator[Caller]:
    """A caller of a service with an upstream as its only speech channel."""
    env = {**LIMITS, "MYNA_SPEECH_KEY": session_upstream.key, "MYNA_SPEECH_MODEL": "a-voice-model"}
    with serving(speech=session_upstream.url, env=env) as service:
        caller = make_caller(service)
        caller.wait_for_voices()
        yield caller
        assert service.command("audit", "--json").code == 0


def newest(caller: Caller) -> Any:
    return caller.get("/records?limit=1").json["data"][0]


def task(caller: Caller, record: Any) -> Any:
    return caller.get(f"/task?id={record['id']}").json["data"]


def test_the_upstream_gets_text_voice_and_its_own_key(speaker: Caller, chat_upstream: Upstream) -> None:
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


def test_failing_speech_is_500_refunded_and_a_failed_record(speaker: Caller, chat_upstream: Upstream) -> None:
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
    caller.wait_for_voices()
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
