"""Requests that are odd, and what is allowed to be odd about them."""

import contextlib
import json
import socket

import pytest

from tests.http.conftest import Door
from tests.rig.calls import Answer, Wire

BODY = b'{"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}'
CHAT = "POST /v1/chat/completions HTTP/1.1"


def error(answer: Answer, status: int) -> str:
    """The answer is this error in the envelope; gives its message."""
    assert answer.status == status, answer
    assert answer.headers["x-request-id"]
    assert answer.headers["content-type"] == "application/json"
    found = json.loads(answer.body)["error"]
    assert found["code"] == status
    return str(found["message"])


def ask(wire: Wire, door: Door, line: str = "GET /v1/me HTTP/1.1", *lines: str) -> Answer:
    wire.head(line, door.bearer, *lines)
    return wire.answer(line.split()[0])


@pytest.mark.parametrize("target", ["/v1/me", "/v1/%6De", "/v1/me?", "/v1/me?x=%FF", "/v1/me#part"])
def test_a_path_may_be_written_in_other_ways(door: Door, target: str) -> None:
    with door.wire() as wire:
        assert ask(wire, door, f"GET {target} HTTP/1.1").status == 200


def test_an_absolute_target_and_a_strange_host_are_as_good(door: Door) -> None:
    with door.wire() as wire:
        assert ask(wire, door, "GET http://elsewhere.example/v1/me HTTP/1.1").status == 200


@pytest.mark.parametrize(
    "target", ["/v1/me%0d%0aX-Evil:%201", "/v1/%E4%BD%A0", "/v1/me%00", "//v1/me", "/V1/ME", "*"]
)
def test_an_encoded_path_that_is_none_of_ours_is_404(door: Door, target: str) -> None:
    with door.wire() as wire:
        answer = ask(wire, door, f"GET {target} HTTP/1.1")
        error(answer, 404)
        assert "x-evil" not in answer.headers


@pytest.mark.parametrize("target", ["/v1/你", "me", ""])
def test_a_target_that_is_no_path_is_400(door: Door, target: str) -> None:
    with door.wire() as wire:
        wire.send(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        error(wire.answer("GET"), 400)
        assert wire.rest() == b""


@pytest.mark.parametrize(
    "noise",
    [
        b"GET\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /v1/me HTTP/9.9\r\n\r\n",
        b"BR(EW /v1/me HTTP/1.1\r\n\r\n",
        b"B" * 41 + b" /v1/me HTTP/1.1\r\n\r\n",
        b"CONNECT example.com:443 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\nHost : x\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\nHost: x\r\nX: a\x00b\r\n\r\n",
        b"GET /v1/me HTTP/1.1\r\nHost: x\r\nX: a\nb: c\rd\r\n\r\n",
        b"POST /v1/tts HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/tts HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\nhello",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /v1/me\r\n\r\n",
        b"GET /v1/me HTTP/0.9\r\n\r\n",
        b"GET /v1/me HTTP/2.0\r\nHost: x\r\n\r\n",
    ],
    ids=lambda noise: noise[:24].decode("latin-1").strip(),
)
def test_what_is_no_http_is_refused_in_the_envelope_and_hung_up_on(door: Door, noise: bytes) -> None:
    with door.wire() as wire:
        wire.send(noise)
        message = error(wire.answer("GET"), 400)
        assert "HTTP" in message
        assert wire.rest() == b""


CHUNKED = "POST /v1/tts HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "


@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("GET /v1/me HTTP/1.1", "Host is missing"),
        ("GET /v1/me HTTP/1.1\r\nHost: x\r\nHost: x", "duplicate header Host"),
        ("GET /v1/me HTTP/1.0\r\nHost: x\r\nhost: y", "duplicate header Host"),
        ("FOO /v1/me HTTP/1.1", "method is unknown"),
        ("GET /v1/me HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: h2c", "Host is missing"),
        (f"{CHUNKED}gzip, chunked", "only supported Transfer-Encoding is chunked"),
        (f"{CHUNKED}chunked, chunked", ""),
        (f"{CHUNKED}identity", ""),
        (f"{CHUNKED}gzip", ""),
        (f"{CHUNKED}chunked\r\nTransfer-Encoding: chunked", ""),
        (f"{CHUNKED}chunked\r\nContent-Length: 3", ""),
        (f"{CHUNKED}chunked".replace("1.1", "1.0"), ""),
    ],
)
def test_a_head_that_two_programs_may_read_in_two_ways_is_400(door: Door, head: str, why: str) -> None:
    with door.wire() as wire:
        wire.send(f"{head}\r\n{door.bearer}\r\n\r\n3\r\nabc\r\n0\r\n\r\n".encode())
        assert why in error(wire.answer(), 400)
        assert wire.rest() == b""


@pytest.mark.parametrize("head", ["GET /v1/me HTTP/1.0", "GET /v1/me HTTP/1.0\r\nHost: x"])
def test_an_old_client_needs_no_host(door: Door, head: str) -> None:
    with door.wire() as wire:
        wire.send(f"{head}\r\n{door.bearer}\r\n\r\n".encode())
        assert wire.answer("GET").status == 200


def test_a_query_has_a_bounded_number_of_parameters(door: Door) -> None:
    with door.wire() as wire:
        message = error(
            ask(wire, door, "GET /v1/task?" + "&".join("abc" for _ in range(101)) + " HTTP/1.1"), 400
        )
    assert "100 parameters" in message


def half_closed(door: Door, *requests: str) -> bytes:
    """All that is answered to these requests by a client that closes its side behind them."""
    with door.wire() as wire:
        wire.send("".join(requests).encode())
        wire.socket.shutdown(socket.SHUT_WR)
        return wire.rest()


def test_a_client_that_closes_its_side_behind_a_request_is_answered(door: Door) -> None:
    post = f"{CHAT}\r\nHost: x\r\n{door.bearer}\r\nContent-Length: {len(BODY)}\r\n\r\n{BODY.decode()}"
    get = f"GET /v1/me HTTP/1.1\r\nHost: x\r\n{door.bearer}\r\n\r\n"
    for requests in ([post], [get], [get, post, get], [post, "GET /v1/"]):
        whole = [request for request in requests if request.endswith(("}", "\n"))]
        answers = half_closed(door, *requests)
        assert answers.count(b"HTTP/1.1 200 OK") == len(whole), requests


@pytest.mark.parametrize("sent", ["", "GET /v1/me HT", f"{CHAT}\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"])
def test_a_client_that_closes_its_side_within_a_request_is_hung_up_on(door: Door, sent: str) -> None:
    assert b"200 OK" not in half_closed(door, sent)


def test_a_head_over_the_limit_is_refused(door: Door) -> None:
    for lines in (["X-Long: " + "x" * 70_000], [f"X-{n}: {'x' * 1000}" for n in range(80)]):
        with door.wire() as wire:
            wire.head("GET /v1/me HTTP/1.1", door.bearer, *lines)
            error(wire.answer("GET"), 400)


def test_a_head_below_the_limit_is_taken(door: Door) -> None:
    with door.wire() as wire:
        assert ask(wire, door, "GET /v1/me HTTP/1.1", "X-Long: " + "x" * 60_000).status == 200


def test_a_target_over_the_limit_is_refused(door: Door) -> None:
    with door.wire() as wire:
        wire.head("GET /v1/me?" + "x" * 70_000 + " HTTP/1.1", door.bearer)
        error(wire.answer("GET"), 400)


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "TRACE", "PROPFIND"])
def test_a_method_that_is_not_offered_is_405_and_the_connection_lives(door: Door, method: str) -> None:
    with door.wire() as wire:
        answer = ask(wire, door, f"{method} /v1/me HTTP/1.1")
        assert (answer.status, answer.headers["allow"]) == (405, "GET")
        assert bool(answer.body) is (method != "HEAD")
        assert ask(wire, door).status == 200


def test_a_method_nobody_knows_behind_another_request_is_400_and_that_one_is_answered_once(
    door: Door,
) -> None:
    good = f"GET /v1/me HTTP/1.1\r\nHost: x\r\n{door.bearer}\r\n\r\n".encode()
    with door.wire() as wire:
        wire.send(good + b"FOO /v1/me HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.answer("GET").status == 200
        assert b"200 OK" not in wire.rest()


def test_what_looks_like_a_request_in_a_body_is_none(door: Door) -> None:
    inner = b"FOO /v1/me HTTP/1.1\r\n\r\n"
    with door.wire() as wire:
        wire.head(
            "POST /v1/tts HTTP/1.1", door.bearer, f"Content-Length: {len(inner)}", "Expect: 100-continue"
        )
        assert wire.socket.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.send(inner + b"BAR /v1/me HTTP/1.1\r\n\r\n")
        assert b" 405 " not in wire.rest()


def test_two_keys_in_one_request_open_nothing(door: Door) -> None:
    with door.wire() as wire:
        message = error(ask(wire, door, "GET /v1/me HTTP/1.1", door.bearer), 401)
    assert "authorization" in message
    assert door.key not in message


def test_a_body_on_a_get_is_passed_over(door: Door) -> None:
    with door.wire() as wire:
        for size in (10, 300_000):
            wire.head("GET /v1/me HTTP/1.1", door.bearer, f"Content-Length: {size}")
            wire.send(b"x" * size)
            assert wire.answer("GET").status == 200
        assert ask(wire, door).status == 200


def test_the_rest_of_a_refused_body_is_passed_over(door: Door) -> None:
    with door.wire() as wire:
        wire.head(CHAT, "Content-Length: 300000")
        error(wire.answer(), 401)
        wire.send(b"x" * 300_000)
        assert ask(wire, door).status == 200


def test_a_client_that_asks_first_is_told_to_go_on(door: Door) -> None:
    with door.wire() as wire:
        wire.head(CHAT, door.bearer, f"Content-Length: {len(BODY)}", "Expect: 100-continue")
        assert wire.socket.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.send(BODY)
        assert wire.answer().status == 200


@pytest.mark.parametrize("size", ["10", "5000000"])
def test_a_client_that_asks_first_and_may_not_is_told_so_before_it_sends(door: Door, size: str) -> None:
    key, status = (door.bearer, 413) if size == "5000000" else ("X-No: key", 401)
    with door.wire() as wire:
        wire.head(CHAT, key, f"Content-Length: {size}", "Expect: 100-continue")
        error(wire.answer(), status)


def test_an_offer_to_upgrade_is_passed_over(door: Door) -> None:
    """As Java's client sends it with every first request, whatever the method."""
    offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAA")
    with door.wire() as wire:
        assert ask(wire, door, "GET /v1/me HTTP/1.1", *offer).status == 200
        wire.head(CHAT, door.bearer, f"Content-Length: {len(BODY)}", *offer)
        wire.send(BODY)
        assert wire.answer().status == 200
        assert ask(wire, door).status == 200


def test_a_websocket_is_not_offered(door: Door) -> None:
    with door.wire() as wire:
        answer = ask(wire, door, "GET /v1/socket HTTP/1.1", "Connection: Upgrade", "Upgrade: websocket")
        error(answer, 404)


def test_an_old_client_gets_its_answer_and_the_end_of_the_connection(door: Door) -> None:
    with door.wire() as wire:
        assert ask(wire, door, "GET /v1/me HTTP/1.0").status == 200
        assert wire.rest() == b""


@pytest.mark.parametrize(
    "lines", [b"X: " + b"x" * 70_000, b"X: yyyyyyyyyyyyyyy\r\n" * 5_000], ids=["one", "many"]
)
@pytest.mark.parametrize("end", [b"", b"\r\n\r\n"], ids=["without end", "whole"])
def test_headers_that_are_too_large_are_400_whether_they_end_or_not(
    door: Door, lines: bytes, end: bytes
) -> None:
    with door.wire() as wire:
        wire.send(b"GET /v1/me HTTP/1.1\r\nHost: x\r\n" + lines + end)
        assert "too large" in error(wire.answer("GET"), 400)
        assert wire.rest() == b""


def test_a_trailer_without_end_is_400(door: Door) -> None:
    with door.wire() as wire:
        wire.head(CHAT, door.bearer, "Transfer-Encoding: chunked")
        wire.send(b"%x\r\n%s\r\n0\r\nX: " % (len(BODY), BODY))
        with contextlib.suppress(OSError):  # it need not be read to its end
            for _ in range(100):
                wire.send(b"y" * 10_000)
        answer = wire.answer()
        assert "too large" in error(answer, 400)


def test_a_small_head_behind_a_large_body_is_no_large_head(door: Door) -> None:
    with door.wire() as wire:
        large = BODY[:-1] + b', "user": "%s"}' % (b"x" * 100_000)
        head = f"{CHAT}\r\nHost: x\r\n{door.bearer}\r\nContent-Length: {len(large)}\r\n\r\n".encode()
        wire.send(head + large + b"GET /v1/me HTTP/1.1\r\nHost: x\r\n")
        assert wire.answer().status == 200
        wire.send(door.bearer.encode() + b"\r\n\r\n")
        assert wire.answer("GET").status == 200


def test_headers_just_below_the_limit_are_taken(door: Door) -> None:
    with door.wire() as wire:
        for _ in range(2):
            assert ask(wire, door, "GET /v1/me HTTP/1.1", f"X: {'x' * 65_000}").status == 200


def test_a_trailer_is_no_header(door: Door) -> None:
    with door.wire() as wire:
        wire.head(CHAT, door.bearer, "Transfer-Encoding: chunked")
        wire.send(
            b"%x\r\n%s\r\n0\r\nIdempotency-Key: \r\nAuthorization: Bearer x\r\n\r\n" % (len(BODY), BODY)
        )
        assert wire.answer().status == 200


@pytest.mark.parametrize("sane", ["abc-1", "A.b_c", "x" * 64, "task-1", "0" * 39, "mynah-1"])
def test_the_clients_own_request_id_comes_back(door: Door, sane: str) -> None:
    with door.wire() as wire:
        answer = ask(wire, door, "GET /v1/me HTTP/1.1", f"X-Request-Id: {sane}")
    assert answer.headers["x-request-id"] == sane


def test_a_request_id_that_is_not_sane_is_replaced(door: Door) -> None:
    secrets = (
        door.key,
        f"id-{door.key}",
        "x.MYNA_",
        "mynanode_1",
        "a-mynajoin_1",
        door.key[5:],
        "sk-abc",
        "a.sk-b",
    )
    for odd in ("", "x" * 65, "a b", "a;b", "<b>", "é", 'a"b', *secrets):
        with door.wire() as wire:
            answer = ask(wire, door, "GET /v1/me HTTP/1.1", f"X-Request-Id: {odd}")
        assert len(answer.headers["x-request-id"]) == 32
