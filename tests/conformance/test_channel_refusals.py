"""What callers get over HTTP if channels refuse a request or fail: on /openai/v1 in OpenAI's words, on /v1 a
500. And whose failures open a circuit. The table of refusals is tested in tests/chat/test_failover.py."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from myna.channel_circuits import FAILURES_MAX
from myna.channel_trial import MESSAGE
from tests.conformance.caller import Caller, Stats
from tests.conformance.test_failing_channels import two_channels
from tests.rig.calls import Answer, call
from tests.rig.service import Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

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


def test_limits_of_channels_are_429_with_the_smallest_wait(
    fresh_caller: Caller, model: str, upstream: Upstream, chat_upstream: Upstream
) -> None:
    upstream.behave("error:429,30 {}")
    chat_upstream.behave("error:429,7 {}")
    answer = ask(fresh_caller, model)
    assert (answer.status, answer.json["error"]["code"]) == (429, "rate_limit_exceeded")
    assert answer.headers["retry-after"] == "7" and "x-should-retry" not in answer.headers


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


def circuit(service: Service, name: str) -> tuple[str, str]:
    """The state of a circuit, and how often it opened."""
    rows = service.cli("channel", "list")
    metrics = call("GET", f"{service.root_url}/metrics").body.decode()
    opened = re.findall(
        rf'^myna_channel_circuit_opened_total{{channel="{name}"}} (\S+)$', metrics, re.MULTILINE
    )
    return next(row["circuit"] for row in rows if row["name"] == name), "".join(opened)


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
    assert circuit(fresh_caller.service, name) == ("closed", "")
    assert ask(fresh_caller, model).headers["x-myna-channel"] == name


def test_a_channel_that_fails_for_the_only_account_is_found(
    fresh_caller: Caller, model: str, upstream: Upstream, chat_upstream: Upstream
) -> None:
    name, second = model.replace("model", "first"), model.replace("model", "second")
    upstream.behave("status:500")
    for _ in range(FAILURES_MAX):
        assert ask(fresh_caller, model).headers["x-myna-channel"] == second
    wait_until(lambda: circuit(fresh_caller.service, name)[0] == "open", 20, "its circuit is open")
    seen = len(upstream.requests)
    assert ask(fresh_caller, model).headers["x-myna-channel"] == second
    assert len(upstream.requests) == seen


def probes(upstream: Upstream) -> list[Any]:
    """The bodies of the requests that are not a caller's."""
    return [
        seen.json
        for seen in upstream.requests
        if seen.body and seen.json["messages"][-1]["content"] == MESSAGE
    ]
