"""A real S3 server, SeaweedFS, which checks signatures, and a proxy before it that makes faults."""

import contextlib
import http.client
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from obstore.store import S3Store

from tests.rig.http_server import Exchange, LoopbackServer
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
            "AWS_ENDPOINT_URL": self.proxy.root,
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


class Proxy(LoopbackServer):
    """Forwards requests to the server, unless `faults` has one for them. Counts the faults by their name."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._to = port
        self.faults: Faults | None = None
        self.made: Counter[str] = Counter()
        self.asked: list[tuple[str, str]] = []

    def answer(self, exchange: Exchange) -> None:
        fault = self.faults(exchange.command, exchange.path) if self.faults else None
        self.asked.append((exchange.command, exchange.path))
        if fault:
            self.made[fault if isinstance(fault, str) else fault[1]] += 1
        if fault == "cut upload" and exchange.size_bytes:
            exchange.rfile.read(exchange.size_bytes // 2)
            exchange.disconnect()
            return
        body = exchange.body()
        if isinstance(fault, tuple):
            exchange.send(fault[0], _ERROR.format(code=fault[1]).encode(), "application/xml")
            return
        if fault == "slow":
            time.sleep(0.5)
        to = http.client.HTTPConnection("127.0.0.1", self._to)
        with contextlib.closing(to):
            to.putrequest(exchange.command, exchange.path, skip_host=True, skip_accept_encoding=True)
            for name, value in exchange.headers.items():
                if not value.startswith("Bearer "):
                    to.putheader(name, value)
            to.endheaders(body)
            answer = to.getresponse()
            data = answer.read()
            headers = {name.title(): value for name, value in answer.getheaders() if name != "Connection"}
        cut = fault == "cut download" and len(data) > 1
        exchange.send(answer.status, data[: len(data) // 2] if cut else data, headers=headers)
        if cut:
            exchange.disconnect()


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
        proxy.close()
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
