"""Bodies that are too large, too slow, or not of their announced length."""

import socket
import time
from collections.abc import Iterator

import pytest

from tests.conformance.caller import UNCHARGED, Caller, check, check_error
from tests.conformance.conftest import BODY_MAX_BYTES, BODY_TIMEOUT_S, make_caller
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


def test_a_slow_body_is_disconnected_at_its_timeout(hasty_service: Service) -> None:
    """One byte is sent whenever the socket is quiet, so the connection is never idle for long."""
    caller, path = make_caller(hasty_service), "/tts"
    started = time.monotonic()
    with Wire(caller.service.root_url, deadline_s=0.1) as wire:
        begin(wire, caller, path, "Content-Length: 5000")
        received = send_until_answered(wire, deadline=started + BODY_TIMEOUT_S + 15)
    assert received.startswith(b"HTTP/1.1 4") or not received
    assert BODY_TIMEOUT_S * 0.8 < time.monotonic() - started < BODY_TIMEOUT_S + 20
    assert caller.stats() == UNCHARGED


def send_until_answered(wire: Wire, deadline: float) -> bytes:
    """Sends spaces until the server answers or disconnects. Returns what was received."""
    while time.monotonic() < deadline:
        try:
            wire.send(b" ")
            return wire.socket.recv(65536)
        except TimeoutError:
            continue
        except (ConnectionResetError, BrokenPipeError):
            return b""
    raise TimeoutError("a slow body is never disconnected")


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


def test_two_requests_on_one_connection_get_two_answers(caller: Caller) -> None:
    with Wire(caller.service.root_url) as wire:
        for text in (b"one", b"two"):
            body = b'{"model": "svc-chat", "messages": [{"role": "user", "content": "%s"}]}' % text
            begin(wire, caller, "/chat/completions", f"Content-Length: {len(body)}")
            wire.send(body)
            assert wire.answer().json["choices"][0]["message"]["content"] == text.decode()
