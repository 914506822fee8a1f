"""HTTP clients for tests: one controls every byte of a request, reads whole answers, follows no redirect; the
other reads server-sent events, and shows every byte and how the response ended."""

import http.client
import json
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self
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


class EventReader:
    """One POST, whose response is read event by event. `ended`: the response had its end; False if the
    connection was closed before that. `raw` is the body so far."""

    def __init__(
        self, url: str, key: str, body: Any, headers: Mapping[str, str] | None = None, receive_bytes: int = 0
    ) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(
            parts.hostname or "", parts.port, timeout=ANSWER_DEADLINE_S
        )
        self._connection.connect()
        if receive_bytes:
            self._connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        sent = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **(headers or {})}
        try:
            self._connection.request("POST", parts.path, json.dumps(body).encode(), sent)
        except OSError:
            self._connection.close()
            raise
        self._response: http.client.HTTPResponse | None = None
        self.ended = False
        self.raw = b""

    @property
    def response(self) -> http.client.HTTPResponse:
        if self._response is None:
            self._response = self._connection.getresponse()
        return self._response

    @property
    def status(self) -> int:
        return self.response.status

    @property
    def headers(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.response.getheaders()}

    def next_event(self) -> bytes:
        """The next event without its end; b"" at the end of the response."""
        event = b""
        while not self.ended:
            try:
                line = self.response.readline()
            except (http.client.IncompleteRead, ConnectionError) as cut:
                self.raw += getattr(cut, "partial", b"")
                return event
            self.raw += line
            if line == b"\n" and event:
                return event.rstrip(b"\n")
            event += line
            if not line:
                self.ended = self.response.isclosed() or self.response.chunk_left in (0, None)  # type: ignore[attr-defined]
                return event
        return event

    def rest(self) -> "EventReader":
        """Reads to the end of the response."""
        try:
            while part := self.response.read(65536):
                self.raw += part
            self.ended = True
        except http.client.IncompleteRead as cut:
            self.raw += cut.partial
        except ConnectionError:
            pass
        return self

    @property
    def events(self) -> list[bytes]:
        return [event for event in self.raw.split(b"\n\n") if event]

    @property
    def chunks(self) -> list[Any]:
        """The JSON of the events, without `[DONE]` and comments."""
        data = [event.partition(b"data:")[2] for event in self.events if b"data:" in event]
        return [json.loads(one) for one in data if one.strip() != b"[DONE]"]

    @property
    def text(self) -> str:
        """The content of all chunks."""
        choices = [choice for chunk in self.chunks for choice in chunk.get("choices", [])]
        return "".join((choice.get("delta") or {}).get("content") or "" for choice in choices)

    @property
    def is_done(self) -> bool:
        return self.raw.endswith(b"data: [DONE]\n\n")

    @property
    def error(self) -> Any:
        """The error of the last event, or of a response that is no stream; None if there is none."""
        if self.status != 200:
            return json.loads(self.raw)["error"]
        return self.chunks[-1].get("error") if self.chunks else None

    def leave(self) -> None:
        """Closes the connection."""
        if self._response is not None:
            self._response.close()
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()
