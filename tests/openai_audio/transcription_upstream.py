"""A server with OpenAI's POST /audio/transcriptions on a real socket. It answers as the test says."""

import threading
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = "sk-upstream-secret"


@dataclass(frozen=True)
class Received:
    """A request as it arrived; the form's values by name, the file's too."""

    path: str
    authorization: str
    fields: dict[str, bytes]
    file_name: str


@dataclass
class TranscriptionUpstream:
    """`status`, `media_type` and `body` are the answer. With `cut` the connection is closed without one; with
    `hang` it stays open, and `abandoned` counts the clients that close it."""

    status: int = 200
    media_type: str = "application/json"
    body: bytes = b'{"text":"heard elsewhere"}'
    cut: bool = False
    hang: bool = False
    abandoned: int = 0
    received: list[Received] = field(default_factory=list)

    def __post_init__(self) -> None:
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                upstream.received.append(received(self, body))
                if upstream.hang:
                    self.connection.recv(1)
                    upstream.abandoned += 1
                    self.close_connection = True
                    return
                if upstream.cut:
                    self.connection.close()
                    return
                self.send_response(upstream.status)
                self.send_header("Content-Type", upstream.media_type)
                self.send_header("Content-Length", str(len(upstream.body)))
                self.end_headers()
                self.wfile.write(upstream.body)

            def log_message(self, *_: object) -> None:
                """Not to standard error."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def forget(self) -> None:
        """As it was made, without a request."""
        self.status, self.media_type, self.body = 200, "application/json", b'{"text":"heard elsewhere"}'
        self.cut = self.hang = False
        self.abandoned = 0
        self.received = []

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def received(handler: BaseHTTPRequestHandler, body: bytes) -> Received:
    head = f"Content-Type: {handler.headers['content-type']}\r\n\r\n".encode()
    form = message_from_bytes(head + body)
    assert form.is_multipart()
    fields: dict[str, bytes] = {}
    file_name = ""
    for part in form.get_payload():
        assert not isinstance(part, str)
        name = str(part.get_param("name", header="content-disposition"))
        fields[name] = bytes(part.get_payload(decode=True) or b"")
        file_name = part.get_filename() or file_name
    return Received(handler.path, handler.headers.get("authorization", ""), fields, file_name)
