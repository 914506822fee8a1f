"""Every error has the same envelope, whichever layer produced it."""

import gzip
import socket
import time

from tests.conformance.caller import (
    DELIVERED,
    REFUNDED,
    UNCHARGED,
    Caller,
    assert_shape,
    check_error,
    make_caller,
)
from tests.conformance.conftest import BODY_MAX_BYTES, CallerMaker
from tests.rig.calls import Wire, call
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
    for path in ("/chat/completions", "/openai/v1/v1/audio/speech"):
        refused = call("POST", f"{caller.service.root_url}{path}").json["error"]
        assert "base URL that ends in /openai/v1" in refused["message"]
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


CHAT = b'{"model": "svc-chat", "messages": [{"role": "user", "content": "hi"}]'


FIXES: list[tuple[str, bytes, list[str]]] = [
    ("/chat/completions", CHAT.replace(b"svc-chat", b"gpt-4") + b"}", ["model", "svc-chat", "svc-agent"]),
    ("/chat/completions", b'{"model": "svc-chat"}', ["messages"]),
    ("/chat/completions", CHAT + b', "temperature": 1e999}', ["temperature", "1.7e308", "smaller"]),
    ("/tts", b'{"text": "x", "speed": 1.5}', ["speed", "string", '"1.5"']),
    ("/tts", b'{"text": "x", "speed": "fast"}', ["speed", "0.25", "4.0"]),
    ("/tts", b'{"text": "x", "voice_id": "nobody"}', ["voice_id", "/voices"]),
    ("/tts", rb'{"text": "a\u0000b"}', ["text", "U+0000"]),
]


def test_a_validation_error_names_the_field_and_the_fix(caller: Caller) -> None:
    for path, body, parts in FIXES:
        message = check_error(caller.post(path, body=body), 400, "invalid_request_error")
        assert message.startswith(parts[0]), message
        assert all(part in message for part in parts), message


def padded(size: int) -> bytes:
    """A valid request to /tts, padded with spaces to exactly this size in bytes."""
    start = b'{"text": "\xe4\xbd\xa0"'
    return start + b" " * (size - len(start) - 1) + b"}"


def test_a_body_of_the_maximum_size_is_accepted_and_one_byte_more_is_not(caller: Caller) -> None:
    assert caller.post("/tts", body=padded(BODY_MAX_BYTES)).status == 200
    before = caller.stats()
    check_error(caller.post("/tts", body=padded(BODY_MAX_BYTES + 1)), 413, "invalid_request_error")
    assert caller.stats() - before == UNCHARGED


def begin(wire: Wire, caller: Caller, *lines: str) -> None:
    bearer = f"Authorization: Bearer {caller.key.plain}"
    wire.head("POST /v1/tts HTTP/1.1", bearer, "Content-Type: application/json", *lines)


def test_a_compressed_body_is_415_on_each_kind_of_endpoint(caller: Caller) -> None:
    root, before = caller.service.root_url, caller.stats()
    for path in ("/v1/chat/completions", "/openai/v1/chat/completions", "/openai/v1/audio/transcriptions"):
        with Wire(root) as wire:
            head = ("Content-Type: multipart/form-data; boundary=x", "Content-Encoding: gzip")
            bearer = f"Authorization: Bearer {caller.key.plain}"
            wire.head(f"POST {path} HTTP/1.1", bearer, *head, "Content-Length: 20")
            wire.send(gzip.compress(b""))
            answer = wire.answer()
        assert answer.status == 415 and b"send the body uncompressed" in answer.body
    assert caller.stats() == before


def test_a_body_that_does_not_arrive_within_its_timeout_is_400(hasty_service: Service) -> None:
    caller = make_caller(hasty_service)
    with Wire(caller.service.root_url) as wire:
        begin(wire, caller, "Content-Length: 5000")
        check_error(wire.answer(), 400, "invalid_request_error")
    assert caller.stats() == UNCHARGED


def test_a_client_that_disconnects_within_its_body_is_not_charged(caller: Caller) -> None:
    before = caller.stats()
    with Wire(caller.service.root_url) as wire:
        begin(wire, caller, "Content-Length: 500")
        wire.send(padded(500)[:100])
    with Wire(caller.service.root_url) as wire:
        begin(wire, caller, "Transfer-Encoding: chunked")
        wire.send(b"%x\r\n%s\r\n" % (400, padded(400)))
        wire.socket.shutdown(socket.SHUT_WR)
    assert caller.stats() - before == UNCHARGED


MODELS = {"object": str, "data": [{"id": str, "object": str, "created": int, "owned_by": str}]}
VOICES = {
    "object": str,
    "default": str,
    "data": [{"voice_id": str, "name": str, "gender": str, "language": str, "source": str}],
}


def test_a_new_key_has_zero_counters_and_is_masked(new_caller: CallerMaker) -> None:
    """Whatever its scopes: /me needs none."""
    caller = new_caller(name="钥匙 one", scopes=("records",))
    masked = caller.key.plain[: len("myna_") + 6] + "***"
    key = {"key_name": "钥匙 one", "masked": masked, "scopes": ["records"], "expires_at": 0}
    used = {"use_count": 0, "stats": {"calls": 0, "cost": 0, "ok_calls": 0}}
    answer = caller.get("/me")
    assert answer.json == {"ok": 1, **key, **used}
    assert b"true" not in answer.body and b"false" not in answer.body  # no number is a bool
    assert caller.key.masked == masked


def test_expires_at_is_in_unix_seconds(new_caller: CallerMaker) -> None:
    caller = new_caller(expires_in="30d")
    expires_at = caller.get("/me").json["expires_at"]
    assert expires_at == caller.key.expires_at
    assert abs(expires_at - (time.time() + 30 * 86400)) < 60


def test_counters_follow_the_delivered_and_refunded_calls_of_each_key(new_caller: CallerMaker) -> None:
    caller = new_caller()
    other = Caller(caller.service, caller.account, caller.account.key())
    assert caller.chat("hello").status == 200
    assert caller.stats() == DELIVERED
    assert caller.chat("fault=status:500").status == 500
    assert caller.stats() - DELIVERED == REFUNDED
    assert caller.get("/me").json["use_count"] == 2
    assert other.get("/me").json["use_count"] == 0


def test_reading_is_uncharged_and_no_call(caller: Caller) -> None:
    before = caller.stats()
    for path in ("/me", "/models", "/voices", "/records", "/task?id=1"):
        caller.get(path)
    assert caller.stats() == before


def test_exactly_two_models_are_listed(caller: Caller) -> None:
    answer = caller.get("/models")
    assert answer.status == 200
    assert_shape(answer.json, MODELS)
    assert answer.json["object"] == "list"
    models = answer.json["data"]
    assert sorted(model["id"] for model in models) == ["svc-agent", "svc-chat"]
    assert {model["object"] for model in models} == {"model"}
    assert all(model["created"] > 0 and model["owned_by"] for model in models)
    assert caller.get("/models").json == answer.json


def test_each_voice_is_listed_once_and_the_first_is_the_default(caller: Caller) -> None:
    answer = caller.get("/voices")
    assert answer.status == 200
    assert_shape(answer.json, VOICES)
    assert answer.json["object"] == "list"
    voices = answer.json["data"]
    assert voices
    assert answer.json["default"] == voices[0]["voice_id"]
    ids = [voice["voice_id"] for voice in voices]
    assert len(set(ids)) == len(ids)
    assert all(voice["voice_id"] and voice["name"] and voice["language"] for voice in voices)
    assert {voice["source"] for voice in voices} == {"public"}
