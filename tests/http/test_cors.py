"""CORS: pages of the configured origins may call /v1, pages of other origins may not."""

from collections.abc import Iterator

import pytest

from myna import settings
from myna.http.cors import ALLOWED, EXPOSED, Cors
from tests.http.conftest import Edge
from tests.rig.calls import Answer, call
from tests.rig.service import RunningService, Service

ORIGIN, OTHER_ORIGIN = "https://app.example.com", "http://localhost:5173"
PREFLIGHT = {
    "Origin": ORIGIN,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,X-Title, x-stainless-lang",
}
CHAT = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture(scope="module")
def service(running_service: RunningService) -> Iterator[Service]:
    with running_service(env={"MYNA_CORS_ORIGINS": f"{ORIGIN}, {OTHER_ORIGIN}"}) as service:
        yield service


def allows_none(answer: Answer) -> bool:
    return not [name for name in answer.headers if name.startswith("access-control-")]


def names(header: str) -> set[str]:
    return {name.strip().lower() for name in header.split(",")}


@pytest.mark.parametrize(
    ("path", "methods", "origin"), [("/chat/completions", {"post"}, ORIGIN), ("/me", {"get"}, OTHER_ORIGIN)]
)
def test_a_preflight_needs_no_key(service: Service, path: str, methods: set[str], origin: str) -> None:
    answer = call("OPTIONS", f"{service.base_url}{path}", headers={**PREFLIGHT, "Origin": origin})
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["access-control-allow-origin"] == origin
    assert names(answer.headers["access-control-allow-methods"]) == methods
    allowed = names(answer.headers["access-control-allow-headers"])
    assert allowed == names(",".join(ALLOWED)) | {"x-title", "x-stainless-lang"}
    assert names(answer.headers["vary"]) == {"origin"}
    assert "access-control-allow-credentials" not in answer.headers
    assert answer.headers["x-request-id"]


def test_another_origin_gets_no_cors_headers(service: Service) -> None:
    for origin in ("https://evil.example", "null", f"{ORIGIN}.evil.example", f"{ORIGIN}:444", ""):
        assert Cors([ORIGIN]).answer([(b"origin", origin.encode())]) == [(b"vary", b"Origin")]
    preflight = call("OPTIONS", f"{service.base_url}/me", headers={**PREFLIGHT, "Origin": "null"})
    assert preflight.status == 405
    for answer in (preflight, call("GET", f"{service.base_url}/me", headers={"Origin": "null"})):
        assert allows_none(answer)
        assert names(answer.headers["vary"]) == {"origin"}


@pytest.mark.parametrize(
    ("allowed", "origin", "is_allowed"),
    [
        ("app://obsidian.md", "app://obsidian.md", True),
        ("chrome-extension://abcdefgh", "chrome-extension://abcdefgh", True),
        ("tauri://localhost", "tauri://localhost", True),
        ("null", "null", True),
        ("file://", "file://", True),
        ("moz-extension://*", "moz-extension://2c5d6a8e-1f", True),  # Firefox: another id on each machine
        ("moz-extension://*", "moz-extension://a/b", False),
        ("moz-extension://*", "https://2c5d6a8e-1f", False),
        ("https://App.Example.com:443", "https://app.example.com", True),
        ("http://localhost:80", "http://localhost", True),
        ("https://app.example.com:80", "https://app.example.com", False),
        ("https://*.example.com", "https://app.example.com", True),
        ("https://*.example.com:8443", "https://a.b.example.com:8443", True),
        ("https://*.example.com", "https://example.com", False),
        ("https://*.example.com", "https://evil.com/.example.com", False),
        ("https://*.example.com", "http://app.example.com", False),
        ("https://app.example.com", "https://appxexample.com", False),
        ("tauri://localhost", "tauri://localhost.evil", False),
    ],
)
def test_an_origin_may_have_any_scheme_and_a_wildcard(allowed: str, origin: str, is_allowed: bool) -> None:
    assert settings.load({"MYNA_CORS_ORIGINS": f"{allowed}, https://other.example"})
    found = dict(Cors([allowed, "https://other.example"]).answer([(b"origin", origin.encode())]))
    assert found.get(b"access-control-allow-origin") == (origin.encode() if is_allowed else None)


def test_every_answer_below_v1_has_cors_headers(service: Service) -> None:
    key = service.account(units=1).key().plain
    origin = {"Origin": ORIGIN}
    url = f"{service.base_url}/chat/completions"
    answers = [
        call("POST", url, key=key, data=CHAT, headers=origin),
        call("POST", url, key=key, data=CHAT, headers=origin),
        call("POST", url, key=key, data={}, headers=origin),
        call("GET", url, key=key, headers=origin),
        call("GET", f"{service.base_url}/me", headers=origin),
        call("GET", f"{service.base_url}/nothing", headers=origin),
    ]
    assert [answer.status for answer in answers] == [200, 402, 400, 405, 401, 404]
    for answer in answers:
        assert answer.headers["access-control-allow-origin"] == ORIGIN
        assert names(answer.headers["access-control-expose-headers"]) == names(",".join(EXPOSED))
        assert names(answer.headers["vary"]) == {"origin"}
        assert "access-control-allow-credentials" not in answer.headers
    assert names(call("GET", f"{service.base_url}/me").headers["vary"]) == {"origin"}


def test_other_paths_have_no_cors_headers(service: Service) -> None:
    for path in ("/healthz", "/openapi.json", "/farm/v1/lease", "/metrics"):
        for method, headers in (("GET", {"Origin": ORIGIN}), ("OPTIONS", PREFLIGHT)):
            answer = call(method, f"{service.root_url}{path}", headers=headers)
            assert allows_none(answer)
            assert answer.status != 200 or method == "GET"


def test_without_the_setting_no_origin_is_allowed(edge: Edge) -> None:
    url = f"{edge.service.base_url}/me"
    preflight = call("OPTIONS", url, headers=PREFLIGHT)
    assert preflight.status == 405
    for answer in (preflight, call("GET", url, headers={"Origin": ORIGIN})):
        assert allows_none(answer)
        assert "vary" not in answer.headers
