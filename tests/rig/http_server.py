"""The base of small HTTP servers on the loopback."""

import socket
import ssl
import sys
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class LoopbackServer(ThreadingHTTPServer):
    """Serves from its creation to `close`; `answer` has every request."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", port), Exchange)
        self.root = f"http://127.0.0.1:{self.server_port}"
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, exchange: "Exchange") -> None:
        raise NotImplementedError

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Prints errors except those of a client that has disconnected."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    def close(self) -> None:
        self.shutdown()
        self.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Exchange(BaseHTTPRequestHandler):
    """A request, and its answer once that is sent."""

    protocol_version = "HTTP/1.1"
    server: LoopbackServer

    def _answer(self) -> None:
        self.server.answer(self)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _answer

    @property
    def size_bytes(self) -> int:
        """Of the body."""
        return int(self.headers.get("content-length", "0"))

    def body(self) -> bytes:
        """Reads the body, once."""
        return self.rfile.read(self.size_bytes)

    def send(
        self,
        status: int,
        content: bytes = b"",
        media_type: str = "application/json",
        headers: Mapping[str, str] = {},
    ) -> None:
        """Sends a whole answer; `headers` are further ones, or replace those of the content."""
        self.send_response_only(status)
        of_content = {"Content-Type": media_type, "Content-Length": str(len(content))}
        for name, value in {**of_content, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def disconnect(self) -> None:
        """Ends the connection, with what was sent on it."""
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        """Not to standard error."""
