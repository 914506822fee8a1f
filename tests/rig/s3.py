"""A real S3 server, SeaweedFS, which checks signatures, and a proxy before it that makes faults."""

import contextlib
import http.client
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from obstore.store import S3Store

from tests.rig.processes import tethered
from tests.rig.waiting import free_port, wait_until

KEY_ID, SECRET = "AKIDOFTHETESTS", "secret-of-the-tests"
BUCKET = "myna"
OPEN_BUCKET = "open"
"""Anybody may use it: the server answers Google's protocol, but can't check the tokens of its clients."""
START_DEADLINE_S = 60
_ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>A fault.</Message></Error>"
SKEWED = (403, "RequestTimeTooSkewed")
BROKEN = (500, "InternalError")

Fault = tuple[int, str] | str
"""A status with its code; or `cut upload`, `cut download`, `slow`."""
Faults = Callable[[str, str], Fault | None]
"""The fault of a request, by its method and path."""


@dataclass
class S3:
    """`env` has a service use it, through the proxy. `faults` decides about each request."""

    port: int
    proxy: "Proxy"
    store: S3Store = field(init=False)

    def __post_init__(self) -> None:
        self.store = self.client(BUCKET)

    @property
    def faults(self) -> Faults | None:
        return self.proxy.faults

    @faults.setter
    def faults(self, faults: Faults | None) -> None:
        self.proxy.faults = faults

    @property
    def env(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.proxy.server_port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": KEY_ID,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def client(self, bucket: str, prefix: str | None = None) -> S3Store:
        """A client that does not pass by the proxy."""
        return S3Store(
            bucket,
            prefix=prefix,
            endpoint=f"http://127.0.0.1:{self.port}",
            region="us-east-1",
            access_key_id=KEY_ID,
            secret_access_key=SECRET,
            client_options={"allow_http": True},
        )

    def keys(self, prefix: str) -> list[str]:
        """What is stored there, without the prefix."""
        return sorted(one["path"] for page in self.client(BUCKET, prefix).list() for one in page)

    def unfinished(self) -> int:
        """The uploads by parts that were neither ended nor given up, of those that passed by the proxy."""
        asked = [(method, path.partition("?")[2]) for method, path in self.proxy.asked]
        begun = sum(method == "POST" and query == "uploads=" for method, query in asked)
        ended = sum(method in ("POST", "DELETE") and query.startswith("uploadId=") for method, query in asked)
        return begun - ended


class Proxy(ThreadingHTTPServer):
    """Forwards requests to the server, unless `faults` has one for them. Counts the faults by their name."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Forwarding)
        self.to = port
        self.faults: Faults | None = None
        self.made: Counter[str] = Counter()
        self.asked: list[tuple[str, str]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has left."""


class _Forwarding(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _forward(self) -> None:
        faults = self.server.faults
        fault = faults(self.command, self.path) if faults else None
        self.server.asked.append((self.command, self.path))
        if fault:
            self.server.made[fault if isinstance(fault, str) else fault[1]] += 1
        length = int(self.headers.get("Content-Length", 0))
        if fault == "cut upload" and length:
            self.rfile.read(length // 2)
            self._hang_up()
            return
        body = self.rfile.read(length)
        if isinstance(fault, tuple):
            self._answer(
                fault[0], [("Content-Type", "application/xml")], _ERROR.format(code=fault[1]).encode()
            )
            return
        if fault == "slow":
            time.sleep(0.5)
        to = http.client.HTTPConnection("127.0.0.1", self.server.to)
        with contextlib.closing(to):
            to.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if not value.startswith("Bearer "):
                    to.putheader(name, value)
            to.endheaders(body)
            answer = to.getresponse()
            data = answer.read()
            headers = [(name, value) for name, value in answer.getheaders() if name not in ("Connection",)]
        cut = fault == "cut download" and len(data) > 1
        self._answer(answer.status, headers, data[: len(data) // 2] if cut else data)
        if cut:
            self._hang_up()

    def _answer(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name.lower() == "content-length" for name, _ in headers):
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _hang_up(self) -> None:
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(2)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _forward

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def _weed(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    ports = {name: free_port() for name in ("master", "volume", "filer", "s3")}
    known = {
        "name": "tests",
        "credentials": [{"accessKey": KEY_ID, "secretKey": SECRET}],
        "actions": ["Admin"],
    }
    config = folder / "s3.json"
    anybody = {"name": "anonymous", "actions": [f"Admin:{OPEN_BUCKET}"]}
    config.write_text(json.dumps({"identities": [known, anybody]}))
    program = [
        str(Path(sys.executable).with_name("weed")), "server", "-s3", f"-s3.config={config}",
        f"-dir={folder}",
        "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-master.telemetry=false", "-master.volumeSizeLimitMB=64",
        "-s3.port.iceberg=0", "-s3.port.lance=0", "-volume.max=20",
        *(f"-{name}.port={port}" for name, port in ports.items()),
        *(f"-{name}.port.grpc={free_port()}" for name in ports),
    ]  # fmt: skip
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(tethered(program, signal.SIGKILL), stdout=log, stderr=log), ports["s3"]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3]:
    folder = Path(tempfile.mkdtemp(prefix="myna-s3-"))
    process, port = _weed(folder)
    proxy = Proxy(port)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    server = S3(port, proxy)

    def makes_buckets() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"SeaweedFS ended:\n{(folder / 'log').read_text()}")
        try:
            for bucket in (BUCKET, OPEN_BUCKET):
                server.client(bucket).put("a-first-object", b"")  # makes the bucket too
        except Exception:
            return False
        return True

    try:
        wait_until(makes_buckets, START_DEADLINE_S, "SeaweedFS serves", every_s=0.1)
        yield server
    finally:
        proxy.shutdown()
        proxy.server_close()
        process.kill()
        process.wait()
        shutil.rmtree(folder)


@pytest.fixture
def s3(s3_server: S3) -> Iterator[S3]:
    """The server, which makes no faults yet."""
    s3_server.proxy.made.clear()
    s3_server.proxy.asked.clear()
    yield s3_server
    s3_server.faults = None
