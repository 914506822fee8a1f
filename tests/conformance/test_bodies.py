"""Bodies that are too large, too slow, or not of their announced length."""

import gzip
import socket
from collections.abc import Iterator

import pytest

from tests.conformance.caller import UNCHARGED, Caller, check, check_error
from tests.conformance.conftest import BODY_MAX_BYTES, make_caller
from tests.rig.calls import Wire
from tests.rig.service import Service

POSTS = ["/chat/completions", "/tts"]


def padded(path: str, size: int) -> bytes:
    """A valid request, padded with spaces to exactly this size in bytes."""
    start = {
        "/tts": b'{"text": "\xe4\xbd\xa0"',
        "/chat/completions": b'{"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]',
    }[path]
    return start + b" " * (size - len(start) - 1) + b"}"


@pytest.mark.parametrize("path", POSTS)
def test_a_body_of_the_maximum_size_is_accepted_and_one_byte_more_is_not(caller: Caller, path: str) -> None:
    assert caller.post(path, body=padded(path, BODY_MAX_BYTES)).status == 200
    before = caller.stats()
    check_error(caller.post(path, body=padded(path, BODY_MAX_BYTES + 1)), 413, "invalid_request_error")
    assert caller.stats() - before == UNCHARGED


def begin(wire: Wire, caller: Caller, path: str, *lines: str) -> None:
    bearer = f"Authorization: Bearer {caller.key.plain}"
    wire.head(f"POST /v1{path} HTTP/1.1", bearer, "Content-Type: application/json", *lines)


@pytest.mark.parametrize("path", POSTS)
def test_a_large_body_is_refused_before_it_is_sent(caller: Caller, path: str) -> None:
    for length in (BODY_MAX_BYTES + 1, 10**18):
        with Wire(caller.service.root_url) as wire:
            begin(wire, caller, path, f"Content-Length: {length}")
            wire.send(b'{"text"')
            answer = wire.answer()
        check(answer)
        check_error(answer, 413, "invalid_request_error")


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


@pytest.mark.parametrize("path", POSTS)
def test_a_chunked_body_is_refused_as_soon_as_it_is_too_large(caller: Caller, path: str) -> None:
    chunk = b"x" * 10_000
    with Wire(caller.service.root_url) as wire:
        begin(wire, caller, path, "Transfer-Encoding: chunked")
        for _ in range(BODY_MAX_BYTES // len(chunk) + 2):  # without the last chunk
            wire.send(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        answer = wire.answer()
    check(answer)
    check_error(answer, 413, "invalid_request_error")


@pytest.mark.parametrize("path", POSTS)
def test_a_chunked_body_within_the_limit_is_accepted(caller: Caller, path: str) -> None:
    body = padded(path, 500)

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(body), 7):
            yield body[start : start + 7]

    assert caller.post(path, body=pieces()).status == 200


def test_a_body_that_does_not_arrive_within_its_timeout_is_400(hasty_service: Service) -> None:
    caller = make_caller(hasty_service)
    with Wire(caller.service.root_url) as wire:
        begin(wire, caller, "/chat/completions", "Content-Length: 5000")
        check_error(wire.answer(), 400, "invalid_request_error")
    assert caller.stats() == UNCHARGED


@pytest.mark.parametrize("path", POSTS)
def test_a_client_that_disconnects_within_its_body_is_not_charged(caller: Caller, path: str) -> None:
    before = caller.stats()
    with Wire(caller.service.root_url) as wire:
        begin(wire, caller, path, "Content-Length: 500")
        wire.send(padded(path, 500)[:100])
    with Wire(caller.service.root_url) as wire:
        begin(wire, caller, path, "Transfer-Encoding: chunked")
        wire.send(b"%x\r\n%s\r\n" % (400, padded(path, 400)))
        wire.socket.shutdown(socket.SHUT_WR)
    assert caller.stats() - before == UNCHARGED


def test_an_invalid_content_length_is_a_client_error(caller: Caller) -> None:
    before = caller.stats()
    for lines in (["Content-Length: abc"], ["Content-Length: 5", "Content-Length: 6"]):
        with Wire(caller.service.root_url) as wire:
            begin(wire, caller, "/tts", *lines)
            wire.send(b"zz\r\n{}\r\n")
            assert 400 <= wire.answer().status < 500
    assert caller.stats() - before == UNCHARGED
