"""Authentication: keys, scopes, revocation, expiry. Every invalid key is 401."""

import hashlib
from pathlib import Path

import pytest

from tests.conformance.caller import UNCHARGED, Caller, check, check_error
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


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint[1])
def test_every_endpoint_requires_a_key(service: Service, endpoint: tuple[str, str]) -> None:
    method, path = endpoint
    answer = call(method, service.base_url + path, data=BODIES.get(path))
    check(answer)
    refused(answer)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint[1])
def test_every_endpoint_refuses_an_unknown_key(caller: Caller, endpoint: tuple[str, str]) -> None:
    refused(reach(caller, endpoint, UNKNOWN))


def broken_headers(plain: str) -> dict[str, str]:
    digits = plain.removeprefix("myna_")
    return {
        "empty": "",
        "scheme-only": "Bearer",
        "scheme-and-space": "Bearer ",
        "no-scheme": plain,
        "basic": f"Basic {plain}",
        "token": f"Token {plain}",
        "no-space": f"Bearer{plain}",
        "without-prefix": f"Bearer {digits}",
        "other-prefix": f"Bearer sk-{digits}",
        "capital-prefix": f"Bearer MYNA_{digits}",
        "capital-digits": f"Bearer myna_{digits.upper()}",
        "one-short": f"Bearer {plain[:-1]}",
        "one-long": f"Bearer {plain}0",
        "one-off": f"Bearer {plain[:-1]}{'1' if plain[-1] == '0' else '0'}",
        "quoted": f'Bearer "{plain}"',
        "two-keys": f"Bearer {plain} {plain}",
        "comma": f"Bearer {plain},{plain}",
        "hash": f"Bearer myna_{hashlib.sha256(plain.encode()).hexdigest()[:40]}",
        "mask": f"Bearer {plain[:11]}***",
        "not-hex": "Bearer myna_" + "g" * 40,
        "latin-1": "Bearer myna_" + "é" * 40,
        "long": "Bearer " + "a" * 20_000,
        "sql": "Bearer myna_' OR '1'='1",
    }


@pytest.mark.parametrize("case", list(broken_headers(UNKNOWN)))
def test_a_header_without_a_key_is_refused(caller: Caller, case: str) -> None:
    header = broken_headers(caller.key.plain)[case]
    with Wire(caller.service.root_url) as wire:
        wire.head("GET /v1/me HTTP/1.1", f"Authorization: {header}", "Connection: close")
        answer = wire.answer("GET")
    check(answer)
    refused(answer)
    assert caller.key.plain.encode() not in answer.body


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "bEaReR"])
def test_the_scheme_is_case_insensitive(caller: Caller, scheme: str) -> None:
    answer = caller.get("/me", headers={"Authorization": f"{scheme} {caller.key.plain}"})
    assert answer.status == 200


def test_a_key_outside_its_header_is_ignored(caller: Caller) -> None:
    plain = caller.key.plain
    url = f"{caller.service.base_url}/me"
    refused(call("GET", f"{url}?api_key={plain}&key={plain}&access_token={plain}"))
    refused(call("GET", url, headers={"X-API-Key": plain, "Cookie": f"key={plain}"}))


@pytest.mark.parametrize("endpoint", SCOPED, ids=lambda endpoint: endpoint[1])
def test_a_key_without_the_scope_is_refused(
    scoped: dict[tuple[str, ...], Caller], endpoint: tuple[str, str]
) -> None:
    others = tuple(scope for scope in ALL_SCOPES if scope != SCOPED[endpoint])
    before = scoped[others].stats()
    answer = reach(scoped[others], endpoint)
    refused(answer)
    assert SCOPED[endpoint] in answer.json["error"]["message"]
    assert scoped[others].stats() - before == UNCHARGED


@pytest.mark.parametrize("endpoint", SCOPED, ids=lambda endpoint: endpoint[1])
def test_a_key_with_only_the_scope_is_accepted(
    scoped: dict[tuple[str, ...], Caller], endpoint: tuple[str, str]
) -> None:
    answer = reach(scoped[SCOPED[endpoint],], endpoint)
    assert answer.status == (404 if endpoint[1] == "/task" else 200)


def test_a_revoked_key_is_refused_at_once_by_every_endpoint(new_caller: CallerMaker) -> None:
    caller = new_caller()
    assert caller.chat("hello").status == 200
    caller.service.revoke(caller.key)
    for endpoint in ENDPOINTS:
        refused(reach(caller, endpoint))


def test_revoking_one_key_keeps_the_others_valid(new_caller: CallerMaker) -> None:
    caller = new_caller()
    other = Caller(caller.service, caller.account, caller.account.key())
    caller.service.revoke(caller.key)
    assert other.chat("hello").status == 200


def test_a_key_is_valid_until_it_expires(new_caller: CallerMaker) -> None:
    for life_s in (2, 8, 32):  # longer than this machine takes to use it for the first time
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
@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"x" * (BODY_MAX_BYTES + 1)], ids=len)
def test_the_key_is_checked_before_the_body(caller: Caller, path: str, body: bytes) -> None:
    refused(caller.post(path, body=body, key=UNKNOWN))


@pytest.mark.parametrize("path", ["/tts", "/chat/completions"])
def test_the_scope_is_checked_before_the_body(scoped: dict[tuple[str, ...], Caller], path: str) -> None:
    caller = scoped["records",]
    refused(caller.post(path, body=b"{"))
    refused(caller.post(path, body=b"x" * (BODY_MAX_BYTES + 1)))


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
