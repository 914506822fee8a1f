"""Unusual requests: which of them are accepted, and how the others are refused."""

import contextlib
import json
import socket

from tests.http.conftest import Edge
from tests.rig.calls import Answer, Wire

BODY = b'{"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}]}'
CHAT = "POST /v1/chat/completions HTTP/1.1"


def error(answer: Answer, status: int) -> str:
    """Checks that the answer is this error in the envelope. Returns its message."""
    assert answer.status == status, answer
    assert answer.headers["x-request-id"]
    assert answer.headers["content-type"] == "application/json; charset=utf-8"
    found = json.loads(answer.body)["error"]
    assert found["code"] == status
    return str(found["message"])


def ask(wire: Wire, edge: Edge, line: str = "GET /v1/me HTTP/1.1", *lines: str) -> Answer:
    wire.head(line, edge.bearer, *lines)
    return wire.answer(line.split()[0])


def test_an_equivalent_target_is_accepted(edge: Edge) -> None:
    with edge.wire() as wire:
        for target in (
            "/v1/%6De",
            "/v1/me?x=%FF",
            "/v1/me#part",
            "http://elsewhere.example/v1/me",
            "//v1/me/",
        ):
            assert ask(wire, edge, f"GET {target} HTTP/1.1").status == 200, target


NOISE = (
    b"GET /v1/\xe4\xbd\xa0 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET me HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
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
)


def test_invalid_http_is_400_in_the_envelope_and_closes_the_connection(edge: Edge) -> None:
    for noise in NOISE:
        with edge.wire() as wire:
            wire.send(noise)
            assert "HTTP" in error(wire.answer("GET"), 400), noise
            assert wire.rest() == b""


CHUNKED = "POST /v1/tts HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "


AMBIGUOUS = (
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
)


def test_an_ambiguous_head_is_400(edge: Edge) -> None:
    for head, why in AMBIGUOUS:
        with edge.wire() as wire:
            wire.send(f"{head}\r\n{edge.bearer}\r\n\r\n3\r\nabc\r\n0\r\n\r\n".encode())
            assert why in error(wire.answer(), 400), head
            assert wire.rest() == b""


def test_http_1_0_needs_no_host_and_is_closed_after_its_answer(edge: Edge) -> None:
    for host in ("", "Host: x\r\n"):
        with edge.wire() as wire:
            wire.send(f"GET /v1/me HTTP/1.0\r\n{host}{edge.bearer}\r\n\r\n".encode())
            assert wire.answer("GET").status == 200
            assert wire.rest() == b""


def test_a_query_has_a_bounded_number_of_parameters(edge: Edge) -> None:
    with edge.wire() as wire:
        message = error(
            ask(wire, edge, "GET /v1/task?" + "&".join("abc" for _ in range(101)) + " HTTP/1.1"), 400
        )
    assert "100 parameters" in message


def test_a_client_that_half_closes_after_a_request_is_answered(edge: Edge) -> None:
    post = f"{CHAT}\r\nHost: x\r\n{edge.bearer}\r\nContent-Length: {len(BODY)}\r\n\r\n{BODY.decode()}"
    get = f"GET /v1/me HTTP/1.1\r\nHost: x\r\n{edge.bearer}\r\n\r\n"
    for requests in ([post], [get], [get, post, get], [post, "GET /v1/"]):
        whole = [request for request in requests if request.endswith(("}", "\n"))]
        with edge.wire() as wire:
            wire.send("".join(requests).encode())
            wire.socket.shutdown(socket.SHUT_WR)
            answers = wire.rest()
        assert answers.count(b"HTTP/1.1 200 OK") == len(whole), requests


def test_an_unknown_method_after_a_pipelined_request_is_400_and_the_first_answered_once(edge: Edge) -> None:
    good = f"GET /v1/me HTTP/1.1\r\nHost: x\r\n{edge.bearer}\r\n\r\n".encode()
    with edge.wire() as wire:
        wire.send(good + b"FOO /v1/me HTTP/1.1\r\nHost: x\r\n\r\n")
        assert wire.answer("GET").status == 200
        assert b"200 OK" not in wire.rest()


def test_a_body_is_not_parsed_as_a_request(edge: Edge) -> None:
    inner = b"FOO /v1/me HTTP/1.1\r\n\r\n"
    with edge.wire() as wire:
        wire.head(
            "POST /v1/tts HTTP/1.1", edge.bearer, f"Content-Length: {len(inner)}", "Expect: 100-continue"
        )
        assert wire.socket.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.send(inner + b"BAR /v1/me HTTP/1.1\r\n\r\n")
        assert b" 405 " not in wire.rest()


def test_a_duplicate_authorization_header_is_401(edge: Edge) -> None:
    with edge.wire() as wire:
        message = error(ask(wire, edge, "GET /v1/me HTTP/1.1", edge.bearer), 401)
    assert "authorization" in message
    assert edge.key not in message


def test_the_rest_of_a_refused_body_is_discarded(edge: Edge) -> None:
    with edge.wire() as wire:
        wire.head(CHAT, "Content-Length: 300000")
        error(wire.answer(), 401)
        wire.send(b"x" * 300_000)
        assert ask(wire, edge).status == 200


def test_expect_100_continue_is_answered(edge: Edge) -> None:
    with edge.wire() as wire:
        wire.head(CHAT, edge.bearer, f"Content-Length: {len(BODY)}", "Expect: 100-continue")
        assert wire.socket.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.send(BODY)
        assert wire.answer().status == 200


def test_expect_100_continue_is_refused_before_the_body_is_sent(edge: Edge) -> None:
    for size, key, status in ((10, "X-No: key", 401), (5_000_000, edge.bearer, 413)):
        with edge.wire() as wire:
            wire.head(CHAT, key, f"Content-Length: {size}", "Expect: 100-continue")
            error(wire.answer(), status)


def test_a_head_over_the_limit_is_400_before_and_after_its_end(edge: Edge) -> None:
    head = b"GET /v1/me HTTP/1.1\r\nHost: x\r\n"
    for start in (head + b"X: " + b"x" * 70_000, head + b"X: yyyyyyyyyyyyyyy\r\n" * 5_000):
        for end in (b"", b"\r\n\r\n"):
            with edge.wire() as wire:
                wire.send(start + end)
                assert "too large" in error(wire.answer("GET"), 400)
                assert wire.rest() == b""
    with edge.wire() as wire:
        wire.head("GET /v1/me?" + "x" * 70_000 + " HTTP/1.1", edge.bearer)
        error(wire.answer("GET"), 400)


def test_an_endless_trailer_is_400(edge: Edge) -> None:
    with edge.wire() as wire:
        wire.head(CHAT, edge.bearer, "Transfer-Encoding: chunked")
        wire.send(b"%x\r\n%s\r\n0\r\nX: " % (len(BODY), BODY))
        with contextlib.suppress(OSError):  # the server may close before the end
            for _ in range(100):
                wire.send(b"y" * 10_000)
        answer = wire.answer()
        assert "too large" in error(answer, 400)


def test_trailers_are_not_read_as_headers(edge: Edge) -> None:
    with edge.wire() as wire:
        wire.head(CHAT, edge.bearer, "Transfer-Encoding: chunked")
        wire.send(
            b"%x\r\n%s\r\n0\r\nIdempotency-Key: \r\nAuthorization: Bearer x\r\n\r\n" % (len(BODY), BODY)
        )
        assert wire.answer().status == 200


def test_a_request_id_of_the_client_is_returned_if_it_is_safe(edge: Edge) -> None:
    secrets = (edge.key, f"id-{edge.key}", "x.MYNA_", "mynanode_1", "a-mynajoin_1", edge.key[5:], "a.sk-b")
    sane = ("abc-1", "A.b_c", "x" * 64, "task-1", "0" * 39, "mynah-1")
    for given in (*sane, "", "x" * 65, "a b", "a;b", "<b>", "é", 'a"b', *secrets):
        with edge.wire() as wire:
            answer = ask(wire, edge, "GET /v1/me HTTP/1.1", f"X-Request-Id: {given}")
        returned = answer.headers["x-request-id"]
        assert returned == given if given in sane else len(returned) == 32, given
