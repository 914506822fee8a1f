"""The access log has the account, the key, the reason of a refusal, the units and the channel."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from myna.engines.registry import DEFAULT_SPEECH
from tests.http.conftest import line_of
from tests.rig.calls import Answer, call
from tests.rig.commands import CommandLine
from tests.rig.forks import Forks
from tests.rig.service import Key, Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

CHAT = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}
READ_ALOUD = {"model": "svc-chat", "messages": [{"role": "user", "content": "朗读：你好"}]}
DETAILS = ("account_id", "key_id", "error_type", "units", "channel", "replay_of")


@pytest.fixture(scope="module")
def service(
    commands: CommandLine,
    forks: Forks | None,
    session_upstream: Upstream,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    folder, url, env = tmp_path_factory.mktemp("details"), session_upstream.url, {"MYNA_SPEECH_KEY": "x"}
    made = Service(folder, commands, chat_url=url, speech=url, env=env, forks=forks).start()
    key = made.account().key().plain
    voices = f"{made.root_url}/openai/v1/audio/voices"
    wait_until(lambda: call("GET", voices, key=key).json["voices"] != [], 60, "voices are listed")
    yield made
    assert made.stop() == 0


@pytest.fixture(autouse=True)
def echoing(session_upstream: Upstream) -> None:
    """The upstream is shared with other files."""
    session_upstream.forget()


def details_of(service: Service, answer: Answer) -> dict[str, Any]:
    line = line_of(service, answer)
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


def test_speech_is_logged_with_its_channel(service: Service) -> None:
    account = service.account(units=5)
    key = account.key()
    paid = {**ids(service, account.name, key), "units": 1, "channel": DEFAULT_SPEECH}
    spoken = call("POST", f"{service.base_url}/tts", key=key.plain, data={"text": "你好"})
    assert details_of(service, spoken) == paid
    assert details_of(service, chat(service, key.plain, READ_ALOUD)) == paid
