"""Every error has the same envelope, whichever layer produced it."""

import pytest

from tests.conformance.caller import UNCHARGED, Caller, check, check_error
from tests.rig.calls import call
from tests.rig.service import Service

GETS = ["/me", "/models", "/voices", "/task", "/records"]
POSTS = ["/chat/completions", "/tts"]
GOOD = {
    "/tts": b'{"text": "\xe4\xbd\xa0"}',
    "/chat/completions": b'{"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}',
}


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/nothing", "/me/", "/me/x", "/Me", "/chat", "/chat/completions/", "/models/svc-chat", "//me"),
        *("/%00", "/%FF", "/me%00", "/..%2fme", "/" + "x" * 5000, "/<script>", "/{id}"),
    ],
    ids=lambda path: path[:20],
)
def test_an_unknown_path_is_404(caller: Caller, path: str) -> None:
    check_error(caller.get(path), 404, "not_found_error")


@pytest.mark.parametrize("path", ["/embeddings", "/responses", "/audio/speech"])
def test_a_path_of_openai_below_v1_is_404_with_the_base_path_that_has_it(caller: Caller, path: str) -> None:
    assert "base URL that ends in /openai/v1" in check_error(caller.post(path, {}), 404, "not_found_error")
    elsewhere = call("POST", f"{caller.service.root_url}/nothing")
    assert "/openai/v1" not in check_error(elsewhere, 404, "not_found_error")


def test_without_a_key_an_unknown_path_is_404_in_the_envelope(service: Service) -> None:
    answer = call("GET", f"{service.base_url}/nothing")
    check(answer)
    assert answer.status in (401, 404)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", [*GETS, *POSTS])
def test_a_wrong_method_is_405_with_the_allowed_methods(caller: Caller, path: str, method: str) -> None:
    answer = caller.send(method, path)
    check_error(answer, 405, "invalid_request_error")
    right = "GET" if path in GETS else "POST"
    assert right in answer.headers["allow"].replace(" ", "").split(",")
    assert method not in answer.headers["allow"]


@pytest.mark.parametrize("path", GETS)
def test_post_on_a_get_route_is_405(caller: Caller, path: str) -> None:
    check_error(caller.post(path, {}), 405, "invalid_request_error")


@pytest.mark.parametrize("path", POSTS)
def test_get_on_a_post_route_is_405(caller: Caller, path: str) -> None:
    answer = caller.get(path)
    check_error(answer, 405, "invalid_request_error")
    assert answer.headers["allow"] == "POST"


def test_every_answer_has_a_unique_request_id(caller: Caller) -> None:
    paths = ["/me", "/me", "/nothing", "/task", "/models"]
    ids = [caller.get(path).headers["x-request-id"] for path in paths]
    assert len(set(ids)) == len(ids)


NO_JSON = {
    "empty": b"",
    "blank": b" \n",
    "word": b"hello",
    "open": b'{"text": "x"',
    "two": b'{"text": "x"}{"text": "x"}',
    "trailing": b'{"text": "x"} x',
    "comma": b'{"text": "x",}',
    "single-quotes": b"{'text': 'x'}",
    "comment": b'{"text": "x"} // y',
    "latin-1": '{"text": "é", "model": "svc-chat"}'.encode("latin-1"),
    "utf-16": '{"text": "x"}'.encode("utf-16"),
    "cut-utf-8": b'{"text": "\xe4\xbd"}',
    "overlong-utf-8": b'{"text": "\xc0\xaf"}',
    "raw-surrogate": b'{"text": "\xed\xa0\x80"}',
    "raw-control": b'{"text": "a\x00b"}',
    "bad-escape": rb'{"text": "\x41"}',
    "short-escape": rb'{"text": "\u12"}',
    "form": b"text=x&model=svc-chat",
    "gzip": bytes.fromhex("1f8b0800000000000003ab562a49ad2851b2525002002c0aa1a80c000000"),
    "nan": b'{"text": NaN, "model": NaN}',
    "infinity": b'{"text": "x", "model": "svc-chat", "temperature": Infinity}',
    "minus-infinity": b'{"text": "x", "model": "svc-chat", "seed": -Infinity}',
    "leading-zero": b'{"text": "x", "model": "svc-chat", "seed": 01}',
    "array": b"[]",
    "array-of-one": b'[{"text": "x"}]',
    "null": b"null",
    "true": b"true",
    "number": b"5",
    "huge-number": b"1" + b"0" * 5000,
    "string": b'"x"',
    "brackets": b"[" * 100_000,
    "closed-brackets": b"[" * 90_000 + b"]" * 90_000,
    "braces": b'{"a":' * 30_000,
    "deep-text": b'{"model": "svc-chat", "messages": ' + b"[" * 100_000,
    "deep-in-text": b'{"text": ' + b"[" * 50_000 + b"]" * 50_000 + b"}",
    "huge-integer-as-text": b'{"text": ' + b"9" * 5000 + b', "messages": ' + b"9" * 5000 + b"}",
    "huge-float-as-text": b'{"text": 1e999999, "messages": 1e999999}',
}


@pytest.mark.parametrize("case", NO_JSON)
@pytest.mark.parametrize("path", POSTS)
def test_a_body_that_is_not_a_json_object_is_400(caller: Caller, path: str, case: str) -> None:
    before = caller.stats()
    check_error(caller.post(path, body=NO_JSON[case]), 400, "invalid_request_error")
    assert caller.stats() - before == UNCHARGED


CHAT = b'{"model": "svc-chat", "messages": [{"role": "user", "content": "hi"}]'


@pytest.mark.parametrize(
    ("path", "body", "parts"),
    [
        ("/chat/completions", CHAT.replace(b"svc-chat", b"gpt-4") + b"}", ["model", "svc-chat", "svc-agent"]),
        ("/chat/completions", b'{"messages": []}', ["model", "svc-chat", "svc-agent"]),
        ("/chat/completions", b'{"model": "svc-chat"}', ["messages"]),
        ("/chat/completions", CHAT + b', "stream": "no"}', ["stream", "true or false"]),
        ("/chat/completions", CHAT + b', "temperature": 1e999}', ["temperature", "1.7e308", "smaller"]),
        ("/tts", b'{"text": "x", "speed": 1.5}', ["speed", "string", '"1.5"']),
        ("/tts", b'{"text": "x", "speed": 1}', ["speed", "string", '"1"']),
        ("/tts", b'{"text": "x", "speed": "fast"}', ["speed", "0.25", "4.0"]),
        ("/tts", b'{"text": "x", "voice_id": "nobody"}', ["voice_id", "/voices"]),
        ("/tts", b'{"text": 5}', ["text", "string"]),
        ("/tts", b"{}", ["text", "missing"]),
        ("/tts", rb'{"text": "\ud83d"}', ["text", "half of a surrogate pair"]),
    ],
)
def test_a_validation_error_names_the_field_and_the_fix(
    caller: Caller, path: str, body: bytes, parts: list[str]
) -> None:
    answer = caller.post(path, body=body)
    check_error(answer, 400, "invalid_request_error")
    message = answer.json["error"]["message"]
    assert message.startswith(parts[0]), message
    assert all(part in message for part in parts), message


@pytest.mark.parametrize("escape", [rb"\ud800", rb"\udfff", rb"a\udc00\ud800b", rb"\ud83dx"])
@pytest.mark.parametrize("path", POSTS)
def test_a_lone_surrogate_is_400(caller: Caller, path: str, escape: bytes) -> None:
    body = GOOD[path].replace(b"hello", b"hello" + escape).replace("你".encode(), "你".encode() + escape)
    assert escape in body
    check_error(caller.post(path, body=body), 400, "invalid_request_error")


@pytest.mark.parametrize("path", POSTS)
def test_a_surrogate_pair_is_one_character(caller: Caller, path: str) -> None:
    body = GOOD[path].replace(b"hello", rb"hello\ud83d\ude00")
    body = body.replace("你".encode(), "你".encode() + rb"\ud83d\ude00")
    answer = caller.post(path, body=body)
    assert answer.status == 200
    assert answer.json.get("chars", 2) == 2


@pytest.mark.parametrize("path", POSTS)
def test_deep_nesting_in_unknown_fields_is_no_internal_error(caller: Caller, path: str) -> None:
    deep = b', "extra": ' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    check_error(caller.post(path, body=GOOD[path][:-1] + deep), 400, "invalid_request_error")


@pytest.mark.parametrize("extra", [b"1" + b"0" * 4400, b"1e400", b"-1e400", b"0." + b"1" * 5000], ids=len)
@pytest.mark.parametrize("path", POSTS)
def test_a_huge_number_in_an_unknown_field_is_no_internal_error(
    caller: Caller, path: str, extra: bytes
) -> None:
    answer = caller.post(path, body=GOOD[path][:-1] + b', "seed": ' + extra + b"}")
    assert answer.status in (200, 400)


def test_a_duplicate_field_is_no_internal_error(caller: Caller) -> None:
    for body in (b'{"text": "\xe4\xbd\xa0", "text": 5}', b'{"text": 5, "text": "\xe4\xbd\xa0"}'):
        assert caller.post("/tts", body=body).status in (200, 400)


@pytest.mark.parametrize("path", POSTS)
def test_a_byte_order_mark_is_no_internal_error(caller: Caller, path: str) -> None:
    assert caller.post(path, body=b"\xef\xbb\xbf" + GOOD[path]).status in (200, 400)


@pytest.mark.parametrize("query", ["?%FF", "?a=%00", "?" + "a=b&" * 2000, "?=", "?&&&", "?id=1&id=2&id=x"])
@pytest.mark.parametrize("path", ["/me", "/records", "/task"])
def test_an_unusual_query_is_no_internal_error(caller: Caller, path: str, query: str) -> None:
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
