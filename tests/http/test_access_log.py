"""The access log: lines are buffered, then counted and written together."""

import asyncio
import io
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client import REGISTRY

from myna.lib.telemetry import access_log as module
from myna.lib.telemetry.access_log import AccessLog
from myna.lib.telemetry.requests import CompletedRequest, RequestDetails
from tests.rig.calls import Answer, call
from tests.rig.service import Key, RunningService, Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until


def lines(stream: io.BytesIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def note(access: AccessLog, **changes: Any) -> None:
    """A completed GET /v1/me, with these changes."""
    asked = {"request_id": "an-id", "method": "GET", "route": "/v1/me", "path": "/v1/me"}
    answered = {"status": 200, "seconds": 0.0123, "ended_at": 1_767_225_600.0625, "details": RequestDetails()}
    access.record(CompletedRequest(**asked | answered | changes))


def counted() -> tuple[float, float]:
    """Number of requests to /v1/me answered with 200, and of those that took at most 25 ms."""
    requests = REGISTRY.get_sample_value("myna_requests_total", {"path": "/v1/me", "status": "200"})
    quick = REGISTRY.get_sample_value("myna_request_seconds_bucket", {"path": "/v1/me", "le": "0.025"})
    return requests or 0.0, quick or 0.0


async def test_lines_are_buffered_and_written_soon() -> None:
    stream = io.BytesIO()
    access = AccessLog(stream.write)
    note(access)
    note(access, path='/v1/"\n\x00')
    assert stream.getvalue() == b""
    async with asyncio.timeout(10):
        while not stream.getvalue():  # noqa: ASYNC110 - a timer of the event loop writes
            await asyncio.sleep(0.01)
    first, second = lines(stream)
    told = {"request_id": "an-id", "method": "GET", "path": "/v1/me", "status": 200, "ms": 12.3}
    assert first == {"time": "2026-01-01T00:00:00.062Z", "level": "info", "logger": "access", **told}
    assert second["path"] == '/v1/"\n\x00'


async def test_of_many_refusals_all_are_counted_and_some_are_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REFUSALS_LOGGED_MAX", 3)
    stream = io.BytesIO()
    access = AccessLog(stream.write)
    count, before = 10_000, refusals()
    for number in range(count):
        second = number // (count // 2)
        refused = {"method": "", "route": module.REFUSED, "path": "", "status": 400}
        note(access, **refused, ended_at=1_767_225_600.0 + second)
        if number % (count // 2) == 0:
            note(access)  # an accepted request is always logged
    access.flush()
    assert refusals() - before == count
    assert [line.get("path", "") for line in lines(stream)] == ["", "/v1/me", "", "", "", "/v1/me", "", ""]
    assert REGISTRY.get_sample_value("myna_request_seconds_count", {"path": module.REFUSED}) is None


def refusals() -> float:
    counted = REGISTRY.get_sample_value("myna_requests_total", {"path": module.REFUSED, "status": "400"})
    return counted or 0.0


async def test_details_are_logged_and_ids_are_no_metric_labels() -> None:
    stream = io.BytesIO()
    access = AccessLog(stream.write)
    details = RequestDetails(
        account_id=3, key_id=7, error_type="upstream_error", units=2, channel="a-channel", replay_of="ab"
    )
    before = errors_and_channels()
    note(access, details=details)
    access.flush()
    (line,) = lines(stream)
    shown = ("account_id", "key_id", "error_type", "units", "channel", "replay_of")
    assert {name: line[name] for name in shown} == {name: getattr(details, name) for name in shown}
    assert not {"balance", "message", "call_id"} & set(line)
    assert errors_and_channels() == (before[0] + 1, before[1] + 1)


def errors_and_channels() -> tuple[float, float]:
    """The two counters, selected by all of their labels: no account id and no key id is among them."""
    errors = {"path": "/v1/me", "type": "upstream_error"}
    channels = {"channel": "a-channel", "status": "200"}
    return (
        REGISTRY.get_sample_value("myna_request_errors_total", errors) or 0.0,
        REGISTRY.get_sample_value("myna_channel_requests_total", channels) or 0.0,
    )


CHAT = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}


DETAILS = ("account_id", "key_id", "error_type", "units", "channel", "replay_of")


@pytest.fixture(scope="module")
def service(running_service: RunningService, session_upstream: Upstream) -> Iterator[Service]:
    url, env = session_upstream.url, {"MYNA_SPEECH_KEY": "x"}
    with running_service(chat_url=url, speech=url, env=env) as service:
        key, voices = service.account().key().plain, f"{service.root_url}/openai/v1/audio/voices"
        wait_until(lambda: call("GET", voices, key=key).json["voices"] != [], 60, "voices are listed")
        yield service


@pytest.fixture(autouse=True)
def echoing(session_upstream: Upstream) -> None:
    """The upstream is shared with other files."""
    session_upstream.forget()


def details_of(service: Service, answer: Answer) -> dict[str, Any]:
    line = service.logged(answer.headers["x-request-id"])
    assert line["status"] == answer.status
    return {name: line[name] for name in DETAILS if name in line}


def chat(service: Service, key: str, data: object = CHAT) -> Answer:
    return call("POST", f"{service.base_url}/chat/completions", key=key, data=data)


def ids(service: Service, name: str, key: Key) -> dict[str, int]:
    account = service.cli("account", "show", name)
    return {"account_id": int(account["id"]), "key_id": int(key.id)}


def test_a_call_is_logged_with_account_units_and_channel(
    service: Service, session_upstream: Upstream
) -> None:
    account = service.account(units=2)
    key = account.key()
    who = ids(service, account.name, key)
    paid = {"units": 1, "channel": "default"}
    assert details_of(service, chat(service, key.plain)) == {**who, **paid}
    session_upstream.behave("status:500")
    failed = {**who, "error_type": "upstream_error", "channel": "default"}
    assert details_of(service, chat(service, key.plain)) == failed
    session_upstream.behave()
    assert details_of(service, chat(service, key.plain)) == {**who, **paid}
    assert details_of(service, chat(service, key.plain)) == {**who, "error_type": "insufficient_quota"}
    assert details_of(service, call("GET", f"{service.base_url}/me", key=key.plain)) == who
    metrics = call("GET", f"{service.root_url}/metrics").body.decode()
    assert 'myna_channel_requests_total{channel="default",status="200"} ' in metrics
    assert 'type="insufficient_quota"} ' in metrics
    assert not {"account_id", "key_id", account.name} & set(re.findall(r"\w[\w-]*", metrics))


def test_a_refusal_is_logged_with_account_key_and_error_type(service: Service) -> None:
    account = service.account(units=5)
    key, chat_only = account.key(), account.key(scopes=("chat",))
    who = ids(service, account.name, key)
    refused = {**who, "error_type": "invalid_request_error"}
    assert details_of(service, chat(service, key.plain, {"model": "svc-chat", "messages": []})) == refused
    assert details_of(service, call("GET", f"{service.base_url}/task", key=key.plain)) == refused
    unscoped = call("GET", f"{service.base_url}/records", key=chat_only.plain)
    limited = {**who, "key_id": int(chat_only.id), "error_type": "authentication_error"}
    assert details_of(service, unscoped) == limited
    service.revoke(key)
    unknown_key = {"error_type": "authentication_error"}
    assert details_of(service, chat(service, key.plain)) == {**who, **unknown_key}
    assert details_of(service, chat(service, "myna_" + "0" * 40)) == unknown_key
    nowhere = call("GET", f"{service.root_url}/nowhere")
    assert details_of(service, nowhere) == {"error_type": "not_found_error"}


def test_a_stored_response_is_logged_with_its_call_and_without_units(service: Service) -> None:
    account = service.account(units=5)
    key = account.key()
    url, headers = f"{service.base_url}/chat/completions", {"Idempotency-Key": "once"}
    first, second = (call("POST", url, key=key.plain, data=CHAT, headers=headers) for _ in range(2))
    assert second.body == first.body
    who = ids(service, account.name, key)
    assert details_of(service, first) == {**who, "units": 1, "channel": "default"}
    (paid,) = service.cli("calls", "--request-id", first.headers["x-request-id"])
    assert details_of(service, second) == {**who, "replay_of": paid["call"]}
    assert service.cli("calls", "--call", paid["call"]) == [paid]
    refused_now = call("POST", f"{service.base_url}/tts", key=key.plain, data={"text": "x"}, headers=headers)
    assert refused_now.status != 200 and "replay_of" not in details_of(service, refused_now)
