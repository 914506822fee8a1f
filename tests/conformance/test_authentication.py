"""Authentication: keys, scopes, revocation, expiry. Every invalid key is 401. A model that is not of
the key's routes is a 401 on /v1, and nothing is charged."""

import hashlib
from pathlib import Path

import pytest

from tests.conformance.caller import UNCHARGED, Caller, Stats, check, check_error
from tests.conformance.conftest import BODY_MAX_BYTES, CallerMaker
from tests.rig.calls import Answer, Wire, call
from tests.rig.service import ALL_SCOPES, Service
from tests.rig.waiting import wait_until

ENDPOINTS = {
    ("GET", "/me"): None,
    ("GET", "/models"): "chat",
    ("POST", "/chat/completions"): "chat",
    ("GET", "/voices"): "tts",
    ("POST", "/tts"): "tts",
    ("GET", "/task"): "tts",
    ("GET", "/records"): "records",
}
SCOPED = {endpoint: scope for endpoint, scope in ENDPOINTS.items() if scope is not None}
BODIES = {
    "/chat/completions": {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]},
    "/tts": {"text": "你好"},
}
UNKNOWN = "myna_" + "0" * 40

NO_TASK = 2**31
"""The id of a task that isn't there: others' tests order some."""


def reach(caller: Caller, endpoint: tuple[str, str], key: str | None = None) -> Answer:
    """Sends the endpoint a valid request with this key."""
    method, path = endpoint
    query = f"?id={NO_TASK}" if path == "/task" else ""
    return caller.send(method, path + query, data=BODIES.get(path), key=key or caller.key.plain)


def refused(answer: Answer) -> None:
    check_error(answer, 401, "authentication_error")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_every_endpoint_requires_a_known_key(caller: Caller) -> None:
    for method, path in ENDPOINTS:
        answer = call(method, caller.service.base_url + path, data=BODIES.get(path))
        check(answer)
        refused(answer)
        refused(reach(caller, (method, path), UNKNOWN))


def broken_headers(plain: str) -> list[str]:
    digits = plain.removeprefix("myna_")
    other = plain[:-1] + ("1" if plain[-1] == "0" else "0")
    hashed = "myna_" + hashlib.sha256(plain.encode()).hexdigest()[:40]
    tokens = [digits, f"sk-{digits}", f"MYNA_{digits}", f"myna_{digits.upper()}", plain[:-1], f"{plain}0"]
    tokens += [other, f'"{plain}"', f"{plain} {plain}", f"{plain},{plain}", hashed, f"{plain[:11]}***"]
    tokens += ["", "myna_" + "g" * 40, "myna_" + "é" * 40, "a" * 20_000, "myna_' OR '1'='1"]
    schemes = ["", "Bearer", plain, f"Basic {plain}", f"Token {plain}", f"Bearer{plain}"]
    return schemes + [f"Bearer {token}" for token in tokens]


def test_a_header_without_a_key_is_refused(caller: Caller) -> None:
    for header in broken_headers(caller.key.plain):
        with Wire(caller.service.root_url) as wire:
            wire.head("GET /v1/me HTTP/1.1", f"Authorization: {header}", "Connection: close")
            answer = wire.answer("GET")
        check(answer)
        refused(answer)
        assert caller.key.plain.encode() not in answer.body


def test_the_scheme_is_case_insensitive(caller: Caller) -> None:
    for scheme in ("bearer", "BEARER", "bEaReR"):
        answer = caller.get("/me", headers={"Authorization": f"{scheme} {caller.key.plain}"})
        assert answer.status == 200


def test_a_key_outside_its_header_is_ignored(caller: Caller) -> None:
    plain = caller.key.plain
    url = f"{caller.service.base_url}/me"
    refused(call("GET", f"{url}?api_key={plain}&key={plain}&access_token={plain}"))
    refused(call("GET", url, headers={"X-API-Key": plain, "Cookie": f"key={plain}"}))


def test_a_key_needs_the_scope_of_the_endpoint_and_no_other(scoped: dict[tuple[str, ...], Caller]) -> None:
    for endpoint, needed in SCOPED.items():
        without = scoped[tuple(scope for scope in ALL_SCOPES if scope != needed)]
        before = without.stats()
        answer = reach(without, endpoint)
        refused(answer)
        assert needed in answer.json["error"]["message"]
        assert without.stats() - before == UNCHARGED
        assert reach(scoped[needed,], endpoint).status == (404 if endpoint[1] == "/task" else 200)


def test_a_revoked_key_is_refused_at_once_by_every_endpoint_and_no_other_key(new_caller: CallerMaker) -> None:
    caller = new_caller()
    other = Caller(caller.service, caller.account, caller.account.key())
    assert caller.chat("hello").status == 200
    caller.service.revoke(caller.key)
    for endpoint in ENDPOINTS:
        refused(reach(caller, endpoint))
    assert other.chat("hello").status == 200


def test_a_key_is_valid_until_it_expires(new_caller: CallerMaker) -> None:
    for life_s in (1, 4, 16):  # longer than this machine takes to use it for the first time
        caller = new_caller(expires_in=f"{life_s}s")
        if (used := caller.get("/me").status) == 200:
            break
    assert used == 200
    wait_until(lambda: caller.get("/me").status == 401, 60, "the key has expired")
    for endpoint in ENDPOINTS:
        refused(reach(caller, endpoint))


def test_the_keys_of_a_disabled_account_are_refused_until_it_is_enabled(new_caller: CallerMaker) -> None:
    caller = new_caller()
    caller.account.disable()
    for endpoint in ENDPOINTS:
        refused(reach(caller, endpoint))
    caller.account.enable()
    assert caller.chat("hello").status == 200


@pytest.mark.parametrize("path", ["/tts", "/chat/completions"])
def test_key_and_scope_are_checked_before_the_body(scoped: dict[tuple[str, ...], Caller], path: str) -> None:
    caller = scoped["records",]
    for body in (b"", b"{", b"x" * (BODY_MAX_BYTES + 1)):
        refused(caller.post(path, body=body, key=UNKNOWN))
        refused(caller.post(path, body=body))


def test_keys_are_the_prefix_and_forty_random_hex_digits(service: Service) -> None:
    account = service.account()
    keys = [account.key() for _ in range(5)]
    assert len({key.plain for key in keys}) == len({key.id for key in keys}) == 5
    for key in keys:
        assert key.plain.startswith("myna_")
        assert len(key.plain) == 45
        assert set(key.plain.removeprefix("myna_")) <= set("0123456789abcdef")


def content_of(file: Path) -> bytes:
    """Content of a file of the running service, empty if it was removed meanwhile."""
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


def test_the_plain_key_is_stored_nowhere(caller: Caller) -> None:
    service = caller.service
    caller.chat("hello")
    refused(caller.get("/me", key=caller.key.plain + "0"))
    shown = service.stdout + service.stderr
    stored = [content_of(file) for file in service.folder.rglob("*") if file.is_file()]
    assert caller.key.plain not in shown
    assert not any(caller.key.plain.encode() in content for content in stored)


def test_a_key_calls_only_the_models_of_its_routes(new_caller: CallerMaker) -> None:
    caller = new_caller()
    key_id = str(caller.key.id)
    caller.service.cli("key", "routes", key_id, "--route", "svc-chat")
    assert caller.chat("hello").status == 200
    assert caller.chat("朗读：你好").status == 200, "speech by chat is a call of the chat's model"
    before = caller.stats()
    for answer in (caller.chat("hello", model="svc-agent"), caller.speak("你好")):
        message = check_error(answer, 401, "authentication_error")
        assert "may not use the model" in message
    assert caller.stats() - before == UNCHARGED
    assert caller.get("/models").status == 200
    caller.service.cli("key", "routes", key_id, "--route", "tts-1")
    check_error(caller.chat("hello"), 401, "authentication_error")
    assert caller.speak("你好").status == 200
    caller.service.cli("key", "routes", key_id, "--any")
    assert caller.chat("hello", model="svc-agent").status == 200
    assert caller.stats() == Stats(calls=4, cost=4, ok_calls=4)
