"""A server of files over HTTPS with ranges, that can be told to misbehave."""

import re
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_RANGE = re.compile(r"bytes=(\d+)-")


class Fault:
    """How one answer differs from a right one.

    `status` is answered without a file. After `cut` bytes the connection ends; with `hold` it stays open and
    silent until `FileServer.resume`. `whole` ignores the range, `shift` answers another one. `location`
    redirects. `declare` is another length for the header.
    """

    def __init__(
        self, *, status: int = 0, cut: int = -1, hold: bool = False, whole: bool = False, shift: int = 0,
        location: str = "", declare: int = 0,
    ) -> None:  # fmt: skip
        self.status, self.cut, self.hold, self.whole = status, cut, hold, whole
        self.shift, self.location, self.declare = shift, location, declare


class FileServer:
    """Serves `files` by path. `faults` are taken one for each request of their path, then none."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[Fault]] = {}
        self.requests: list[tuple[str, str]] = []
        self._resumed = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  clients hang up here
        if context:
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        scheme = "https" if context else "http"
        self.url = f"{scheme}://localhost:{self._server.server_address[1]}/"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def resume(self) -> None:
        """Sends the blocked answers."""
        self._resumed.set()

    def close(self) -> None:
        self.resume()
        self._server.shutdown()
        self._server.server_close()

    def ranges(self, path: str) -> list[str]:
        """The ranges that were requested of this path, "" for all of it."""
        return [wanted for asked, wanted in self.requests if asked == path]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                wanted = self.headers.get("Range", "")
                server.requests.append((self.path, wanted))
                waiting = server.faults.get(self.path, [])
                server.answer(self, wanted, waiting.pop(0) if waiting else Fault())

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        return Handler

    def answer(self, client: BaseHTTPRequestHandler, wanted: str, fault: Fault) -> None:
        data = self.files.get(client.path)
        client.close_connection = True
        if fault.location:
            client.send_response(302)
            client.send_header("Location", fault.location)
            client.end_headers()
            return
        if fault.status or data is None:
            client.send_error(fault.status or 404)
            return
        asked = _RANGE.fullmatch(wanted)
        start = int(asked[1]) + fault.shift if asked and not fault.whole else 0
        if start >= len(data):
            client.send_response(416)
            client.send_header("Content-Range", f"bytes */{len(data)}")
            client.end_headers()
            return
        client.send_response(206 if asked and not fault.whole else 200)
        if asked and not fault.whole:
            client.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        client.send_header("Content-Length", str(fault.declare or len(data) - start))
        client.end_headers()
        end = len(data) if fault.cut < 0 else start + fault.cut
        client.wfile.write(data[start:end])
        client.wfile.flush()
        if fault.hold:
            self._resumed.wait(60)
            client.wfile.write(data[end:])
