"""A client of server-sent events that shows every byte and how the response ended."""

import http.client
import json
import socket
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

DEADLINE_S = 60


class EventReader:
    """One POST, whose response is read event by event. `ended`: the response had its end; False if the
    connection was closed before that. `raw` is the body so far."""

    def __init__(
        self, url: str, key: str, body: Any, headers: Mapping[str, str] | None = None, receive_bytes: int = 0
    ) -> None:
        parts = urlsplit(url)
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=DEADLINE_S)
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
