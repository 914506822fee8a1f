"""Every error has the same envelope, whichever layer produced it."""

import pytest

from tests.conformance.caller import UNCHARGED, Caller, check_error
from tests.rig.calls import call
from tests.rig.service import Service

GETS = ["/me", "/models", "/voices", "/task", "/records"]
POSTS = ["/chat/completions", "/tts"]
UNKNOWN_PATHS = [
    *("/", "/nothing", "/me/x", "/Me", "/chat", "/models/svc-chat"),
    *("/%00", "/%FF", "/me%00", "/..%2fme", "/" + "x" * 5000, "/<script>", "/{id}"),
]


def test_an_unknown_path_is_404(caller: Caller) -> None:
    for path in UNKNOWN_PATHS:
        check_error(caller.get(path), 404, "not_found_error")


def test_a_path_of_openai_below_v1_is_404_with_the_base_path_that_has_it(caller: Caller) -> None:
    for path in ("/embeddings", "/responses", "/audio/speech"):
        message = check_error(caller.post(path, {}), 404, "not_found_error")
        assert "base URL that ends in /openai/v1" in message
    elsewhere = call("POST", f"{caller.service.root_url}/nothing")
    assert "/openai/v1" not in check_error(elsewhere, 404, "not_found_error")


def test_what_openai_has_beside_and_below_a_response_is_404(caller: Caller) -> None:
    url = f"{caller.service.root_url}/openai/v1/responses"
    paths = (("POST", "compact"), ("POST", "resp_1/cancel"), ("GET", "resp_1/input_items"))
    for method, path in paths:
        error = call(method, f"{url}/{path}").json["error"]
        assert error["message"] == "There is no such path; see /openapi.json.", path


def test_a_wrong_method_is_405_with_the_allowed_methods(caller: Caller) -> None:
    for path in (*GETS, *POSTS):
        right, other = ("GET", "POST") if path in GETS else ("POST", "GET")
        for method in (other, "PUT", "DELETE", "PATCH"):
            answer = caller.send(method, path)
            check_error(answer, 405, "invalid_request_error")
            allowed = answer.headers["allow"].replace(" ", "").split(",")
            assert right in allowed
            assert method not in allowed


def test_every_answer_has_a_unique_request_id(caller: Caller) -> None:
    paths = ["/me", "/me", "/nothing", "/task", "/models"]
    ids = [caller.get(path).headers["x-request-id"] for path in paths]
    assert len(set(ids)) == len(ids)


NO_JSON = [
    b"",
    b'{"text": "x"}{"text": "x"}',
    '{"text": "é", "model": "svc-chat"}'.encode("latin-1"),
    bytes.fromhex("1f8b0800000000000003ab562a49ad2851b2525002002c0aa1a80c000000"),
]


@pytest.mark.parametrize("path", POSTS)
def test_a_body_that_is_not_a_json_object_is_400(caller: Caller, path: str) -> None:
    before = caller.stats()
    for body in NO_JSON:
        check_error(caller.post(path, body=body), 400, "invalid_request_error")
    assert caller.stats() - before == UNCHARGED


CHAT = b'{"model": "svc-chat", "messages": [{"role": "user", "content": "hi"}]'


FIXES: list[tuple[str, bytes, list[str]]] = [
    ("/chat/completions", CHAT.replace(b"svc-chat", b"gpt-4") + b"}", ["model", "svc-chat", "svc-agent"]),
    ("/chat/completions", b'{"messages": []}', ["model", "svc-chat", "svc-agent"]),
    ("/chat/completions", b'{"model": "svc-chat"}', ["messages"]),
    ("/chat/completions", CHAT + b', "stream": "no"}', ["stream", "true or false"]),
    ("/chat/completions", CHAT + b', "temperature": 1e999}', ["temperature", "1.7e308", "smaller"]),
    ("/tts", b'{"text": "x", "speed": 1.5}', ["speed", "string", '"1.5"']),
    ("/tts", b'{"text": "x", "speed": "fast"}', ["speed", "0.25", "4.0"]),
    ("/tts", b'{"text": "x", "voice_id": "nobody"}', ["voice_id", "/voices"]),
    ("/tts", b'{"text": "x", "voice_id": 1}', ["voice_id", "string"]),
    ("/tts", b'{"text": 5}', ["text", "string"]),
    ("/tts", b"{}", ["text", "missing"]),
    ("/tts", rb'{"text": "a\u0000b"}', ["text", "U+0000"]),
    ("/tts", rb'{"text": "\ud83d"}', ["text", "half of a surrogate pair"]),
]


def test_a_validation_error_names_the_field_and_the_fix(caller: Caller) -> None:
    for path, body, parts in FIXES:
        message = check_error(caller.post(path, body=body), 400, "invalid_request_error")
        assert message.startswith(parts[0]), message
        assert all(part in message for part in parts), message


@pytest.mark.parametrize("path", ["/me", "/records", "/task"])
def test_an_unusual_query_is_no_internal_error(caller: Caller, path: str) -> None:
    for query in ("?%FF", "?a=%00", "?" + "a=b&" * 2000, "?=", "?&&&", "?id=1&id=2&id=x"):
        assert caller.get(path + query).status in (200, 400, 404)


def test_openapi_needs_no_key(service: Service) -> None:
    answer = call("GET", f"{service.root_url}/openapi.json")
    assert answer.status == 200
    described = {
        (method.upper(), path.removeprefix("/v1"))
        for path, methods in answer.json["paths"].items()
        for method in methods
    }
    expected = {("GET", path) for path in GETS} | {("POST", path) for path in POSTS}
    assert expected <= described
