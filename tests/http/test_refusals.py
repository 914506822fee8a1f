"""Requests refused before any handler are logged, counted and answered alike however they are split."""

import json
import re
from typing import Any

import pytest
from uvicorn.server import ServerState

from myna.http import server
from myna.http.asgi_types import Receive, Scope, Send
from myna.http.connection import Protocol
from myna.settings import Settings
from tests.http.test_bounds import Sink
from tests.rig.calls import Answer, Wire, call
from tests.rig.service import Service, ServiceMaker
from tests.rig.waiting import wait_until

WAIT_S = 60
KEY = "myna_" + "0123456789" * 4


def line_of(service: Service, answer: Answer) -> dict[str, Any]:
    """Waits for the line of the access log with the request id of this answer."""
    found: list[dict[str, Any]] = []

    def written() -> bool:
        records = [json.loads(line) for line in service.log_lines if '"logger":"access"' in line]
        found[:] = [one for one in records if one["request_id"] == answer.headers["x-request-id"]]
        return bool(found)

    wait_until(written, WAIT_S, "the access log has the answer")
    (line,) = found
    return line


def refused(service: Service, *sent: bytes) -> Answer:
    with Wire(service.root_url, deadline_s=WAIT_S) as wire:
        for data in sent:
            wire.send(data)
        return wire.answer("GET")


def counted(service: Service, name: str) -> int:
    text = call("GET", f"{service.root_url}/metrics").body.decode()
    found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.MULTILINE)
    return int(float(found[1])) if found else 0


def test_a_malformed_request_is_logged_and_counted_without_its_content(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none").start()
    for sent in (f"GET /{KEY}\r\n\r\n", f"{KEY} / HTTP/1.1\r\n\r\n", f"GET / HTTP/1.1\r\n{KEY}: x\r\n\r\n"):
        answer = refused(service, sent.encode())
        line = line_of(service, answer)
        fields = {name: line[name] for name in line if name not in ("time", "level", "logger", "request_id")}
        assert fields == {"status": 400, "error_type": "invalid_request_error"}
    assert counted(service, 'myna_requests_total{path="refused",status="400"}') == 3
    assert counted(service, 'myna_request_errors_total{path="refused",type="invalid_request_error"}') == 3
    assert KEY[5:] not in service.stderr


def test_a_connection_over_the_limit_is_logged_and_counted(make_service: ServiceMaker) -> None:
    env = {"MYNA_CONNECTIONS_MAX": "1"}
    service = make_service(chat_url="parrot:", speech="none", env=env).start()
    with Wire(service.root_url) as blocked:
        blocked.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert blocked.answer("GET").status == 200
        answer = refused(service, f"GET /v1/{KEY} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        line = line_of(service, answer)
        assert (line["status"], line["error_type"]) == (503, "service_unavailable")
        with (
            Wire(service.root_url),
            Wire(service.root_url) as beyond,
        ):  # the limit of connections over the limit
            assert beyond.rest() == b""
    closed = 'myna_requests_total{path="refused",status="0"}'
    wait_until(lambda: counted(service, closed) == 1, WAIT_S, "the connection that got no answer is counted")
    assert KEY[5:] not in service.stderr


def test_a_request_refused_before_its_handler_is_logged_once(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none").start()
    url = f"{service.base_url}/chat/completions"
    path = "/v1/chat/completions"
    for answer, status in (
        (call("POST", url, key=KEY, data={}), 401),
        (call("DELETE", url), 405),
        (call("POST", url, key=service.account().key().plain, headers={"Content-Length": "9" * 9}), 413),
    ):
        line = line_of(service, answer)
        assert (answer.status, line["status"], line["path"]) == (status, status, path)
        assert line["error_type"]
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nTransfer-Encoding: chunked\r\n"
    for lines in ("", "X-Request-Id: mine\r\n"):
        answer = refused(service, f"{head}{lines}\r\nno chunk\r\n".encode())
        assert answer.status == 400
        assert line_of(service, answer)["path"] == path
        assert (answer.headers["x-request-id"] == "mine") == bool(lines)
    before = 'myna_requests_total{path="refused",status="400"}'
    assert counted(service, before) == 0


class Recorder(Sink):
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def writelines(self, lines: Any) -> None:
        self.written += b"".join(lines)


async def silent(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("the request is refused before")


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["FOO", "get", "SETUP", "POSTS", "X" * 50])
async def test_an_unknown_method_is_refused_alike_however_its_bytes_are_split(method: str) -> None:
    config = server.configure(silent, Settings())
    config.load()
    sent = f"{method} /v1/me HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    answers = set()
    for at in range(1, len(sent) + 1):
        state, transport = ServerState(), Recorder()
        protocol = Protocol(config, state, {})
        protocol.connection_made(transport)
        for part in (sent[:at], sent[at:]):
            if part and not transport.is_closing():
                protocol.data_received(part)
        assert not state.tasks
        assert transport.closed
        protocol.connection_lost(None)
        answers.add(re.sub(rb"x-request-id: \w+", b"", transport.written))
    (answer,) = answers
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"its method is unknown" in answer
