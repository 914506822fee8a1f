"""A server of files over HTTPS with ranges, that can be told to misbehave."""

import re
import ssl
import threading

from tests.rig.http_server import Exchange, LoopbackServer

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


class FileServer(LoopbackServer):
    """Serves `files` by path. `faults` are taken one for each request of their path, then none."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls=tls)
        self.files: dict[str, bytes] = {}
        self.faults: dict[str, list[Fault]] = {}
        self.requests: list[tuple[str, str]] = []
        self._resumed = threading.Event()
        self.url = f"{'https' if tls else 'http'}://localhost:{self.server_port}/"

    def resume(self) -> None:
        """Sends the blocked answers."""
        self._resumed.set()

    def close(self) -> None:
        self.resume()
        super().close()

    def ranges(self, path: str) -> list[str]:
        """The ranges that were requested of this path, "" for all of it."""
        return [wanted for asked, wanted in self.requests if asked == path]

    def answer(self, exchange: Exchange) -> None:
        wanted = exchange.headers.get("Range", "")
        self.requests.append((exchange.path, wanted))
        waiting = self.faults.get(exchange.path, [])
        fault = waiting.pop(0) if waiting else Fault()
        data = self.files.get(exchange.path)
        exchange.close_connection = True
        if fault.location:
            exchange.send(302, headers={"Location": fault.location})
            return
        if fault.status or data is None:
            exchange.send(fault.status or 404)
            return
        asked = _RANGE.fullmatch(wanted)
        start = int(asked[1]) + fault.shift if asked and not fault.whole else 0
        if start >= len(data):
            exchange.send(416, headers={"Content-Range": f"bytes */{len(data)}"})
            return
        end = len(data) if fault.cut < 0 else start + fault.cut
        headers = {"Content-Length": str(fault.declare or len(data) - start)}
        if asked and not fault.whole:
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        exchange.send(206 if "Content-Range" in headers else 200, data[start:end], headers=headers)
        if fault.hold:
            self._resumed.wait(60)
            exchange.wfile.write(data[end:])
