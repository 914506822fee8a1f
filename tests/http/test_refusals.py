"""Requests refused before any handler are logged, counted and answered alike however they are split."""

import re

from tests.rig.calls import Answer, Wire, call
from tests.rig.service import Service, ServiceMaker
from tests.rig.waiting import wait_until

WAIT_S = 60
KEY = "myna_" + "0123456789" * 4


def refused(service: Service, *sent: bytes) -> Answer:
    with Wire(service.root_url, deadline_s=WAIT_S) as wire:
        for data in sent:
            wire.send(data)
        return wire.answer("GET")


def counted(service: Service, name: str) -> float:
    return service.counted(re.escape(name))[0]


def test_a_malformed_request_is_logged_and_counted_without_its_content(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:", speech="none").start()
    for sent in (f"GET /{KEY}\r\n\r\n", f"{KEY} / HTTP/1.1\r\n\r\n", f"GET / HTTP/1.1\r\n{KEY}: x\r\n\r\n"):
        answer = refused(service, sent.encode())
        line = service.logged(answer.headers["x-request-id"])
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
        line = service.logged(answer.headers["x-request-id"])
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
        line = service.logged(answer.headers["x-request-id"])
        assert (answer.status, line["status"], line["path"]) == (status, status, path)
        assert line["error_type"]
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nTransfer-Encoding: chunked\r\n"
    for lines in ("", "X-Request-Id: mine\r\n"):
        answer = refused(service, f"{head}{lines}\r\nno chunk\r\n".encode())
        assert answer.status == 400
        assert service.logged(answer.headers["x-request-id"])["path"] == path
        assert (answer.headers["x-request-id"] == "mine") == bool(lines)
    assert counted(service, 'myna_requests_total{path="refused",status="400"}') == 0
