"""An HTTP client for tests: it controls every byte of a request, reads whole answers, follows no redirect."""

import http.client
import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

ANSWER_DEADLINE_S = 60


@dataclass(frozen=True)
class Answer:
    """One HTTP answer, read to its end. Header names are lower case; `cookies` are all Set-Cookie headers."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    cookies: tuple[str, ...] = ()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def call(
    method: str,
    url: str,
    *,
    key: str | None = None,
    data: Any = None,
    body: bytes | Iterable[bytes] | None = None,
    headers: Mapping[str, str] | None = None,
    deadline_s: float = ANSWER_DEADLINE_S,
) -> Answer:
    """Sends one request on a new connection.

    `data` is sent as JSON, `body` as it is (an iterable goes out in chunks); `key` becomes the bearer header.
    """
    parts = urlsplit(url)
    target = parts.path + (f"?{parts.query}" if parts.query else "")
    sent = dict(headers or {})
    if key is not None:
        sent.setdefault("Authorization", f"Bearer {key}")
    if data is not None:
        body = json.dumps(data).encode()
    if body is not None:
        sent.setdefault("Content-Type", "application/json")
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=deadline_s)
    try:
        connection.request(method, target, body=body, headers=sent)
        return _read(connection.getresponse())
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse) -> Answer:
    body = response.read()
    headers = {name.lower(): value for name, value in response.getheaders()}
    cookies = tuple(response.headers.get_all("set-cookie") or ())
    return Answer(response.status, headers, body, cookies)


class Wire:
    """A raw connection, for requests that are not well-formed or are sent in parts."""

    def __init__(self, url: str, deadline_s: float = ANSWER_DEADLINE_S) -> None:
        parts = urlsplit(url)
        self.host = f"{parts.hostname}:{parts.port}"
        self.socket = socket.create_connection((parts.hostname, parts.port), timeout=deadline_s)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def head(self, request_line: str, *lines: str) -> None:
        """Sends the head of a request: its first line, the Host header and these header lines."""
        self.send("\r\n".join([request_line, f"Host: {self.host}", *lines, "", ""]).encode("latin-1"))

    def answer(self, method: str = "POST") -> Answer:
        """Reads one answer; raises `http.client.HTTPException` if the server sends none."""
        response = http.client.HTTPResponse(self.socket, method=method)
        response.begin()
        return _read(response)

    def rest(self) -> bytes:
        """Reads until the server closes the connection; raises TimeoutError if it doesn't."""
        heard = b""
        try:
            while data := self.socket.recv(65536):
                heard += data
        except ConnectionResetError:
            return heard
        return heard
