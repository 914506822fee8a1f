"""The access log has the account, the key, the reason of a refusal, the units and the channel."""

import json
import re
from typing import Any

from tests.rig.calls import Answer, call
from tests.rig.service import Key, Service, ServiceMaker
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

WAIT_S = 60
CHAT = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}
READ_ALOUD = {"model": "svc-chat", "messages": [{"role": "user", "content": "朗读：你好"}]}
DETAILS = ("account_id", "key_id", "error_type", "units", "channel", "replay_of")


def line_of(service: Service, answer: Answer) -> dict[str, Any]:
    """Waits for the line of this request and returns its details."""
    found: list[dict[str, Any]] = []

    def written() -> bool:
        records = [json.loads(line) for line in service.log_lines if '"logger":"access"' in line]
        found[:] = [one for one in records if one["request_id"] == answer.headers["x-request-id"]]
        return bool(found)

    wait_until(written, WAIT_S, "the access log has the request")
    (line,) = found
    assert line["status"] == answer.status
    return {name: line[name] for name in DETAILS if name in line}


def chat(service: Service, key: str, data: object = CHAT) -> Answer:
    return call("POST", f"{service.base_url}/chat/completions", key=key, data=data)


def ids(service: Service, name: str, key: Key) -> dict[str, int]:
    account = service.cli("account", "show", name)
    return {"account_id": int(account["id"]), "key_id": int(key.id)}


def test_a_call_is_logged_with_account_units_and_channel(
    make_service: ServiceMaker, upstream: Upstream
) -> None:
    service = make_service(chat_url=upstream.url, speech="none").start()
    account = service.account(units=2)
    key = account.key()
    who = ids(service, account.name, key)
    paid = {"units": 1, "channel": "default"}

    assert line_of(service, chat(service, key.plain)) == {**who, **paid}
    upstream.behave("status:500")
    failed = {**who, "error_type": "upstream_error", "channel": "default"}
    assert line_of(service, chat(service, key.plain)) == failed
    upstream.behave("answer")
    assert line_of(service, chat(service, key.plain)) == {**who, **paid}
    assert line_of(service, chat(service, key.plain)) == {**who, "error_type": "insufficient_quota"}
    assert line_of(service, call("GET", f"{service.base_url}/me", key=key.plain)) == who

    metrics = call("GET", f"{service.root_url}/metrics").body.decode()
    assert 'myna_channel_requests_total{channel="default",status="200"} 2.0' in metrics
    assert 'type="insufficient_quota"} 1.0' in metrics
    assert not {"account_id", "key_id", account.name} & set(re.findall(r"\w[\w-]*", metrics))


def test_a_refusal_is_logged_with_account_key_and_error_type(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none").start()
    account = service.account(units=5)
    key, chat_only = account.key(), account.key(scopes=("chat",))
    who = ids(service, account.name, key)
    refused = {**who, "error_type": "invalid_request_error"}

    assert line_of(service, chat(service, key.plain, {"model": "svc-chat", "messages": []})) == refused
    assert line_of(service, call("GET", f"{service.base_url}/task", key=key.plain)) == refused
    unscoped = call("GET", f"{service.base_url}/records", key=chat_only.plain)
    limited = {**who, "key_id": int(chat_only.id), "error_type": "authentication_error"}
    assert line_of(service, unscoped) == limited
    service.revoke(key)
    unknown_key = {"error_type": "authentication_error"}
    assert line_of(service, chat(service, key.plain)) == {**who, **unknown_key}
    assert line_of(service, chat(service, "myna_" + "0" * 40)) == unknown_key
    nowhere = call("GET", f"{service.root_url}/nowhere")
    assert line_of(service, nowhere) == {"error_type": "not_found_error"}
    assert line_of(service, chat(service, chat_only.plain, READ_ALOUD))["error_type"] == "service_unavailable"


def test_a_stored_response_is_logged_with_its_call_and_without_units(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none").start()
    account = service.account(units=5)
    key = account.key()
    url, headers = f"{service.base_url}/chat/completions", {"Idempotency-Key": "once"}
    first, second = (call("POST", url, key=key.plain, data=CHAT, headers=headers) for _ in range(2))
    assert second.body == first.body
    who = ids(service, account.name, key)
    assert line_of(service, first) == {**who, "units": 1, "channel": "default"}
    (paid,) = service.cli("calls", "--request-id", first.headers["x-request-id"])
    assert line_of(service, second) == {**who, "replay_of": paid["call"]}
    assert service.cli("calls", "--call", paid["call"]) == [paid]
    refused_now = call("POST", f"{service.base_url}/tts", key=key.plain, data={"text": "x"}, headers=headers)
    assert refused_now.status != 200 and "replay_of" not in line_of(service, refused_now)


def test_speech_is_logged_with_its_channel(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="espeak").start()
    account = service.account(units=5)
    key = account.key()
    paid = {**ids(service, account.name, key), "units": 1, "channel": "espeak"}
    spoken = call("POST", f"{service.base_url}/tts", key=key.plain, data={"text": "你好"})
    assert line_of(service, spoken) == paid
    assert line_of(service, chat(service, key.plain, READ_ALOUD)) == paid
