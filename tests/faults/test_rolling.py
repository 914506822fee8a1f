"""Two replicas behind nginx, as docs/operations.md configures it, are restarted and updated in turn under
load: no call fails."""

import itertools
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from myna.store.schema import newest
from tests.conformance.caller import Caller, make_caller
from tests.rig.calls import call
from tests.rig.commands import output_of
from tests.rig.postgres import SYSTEM_PATH
from tests.rig.processes import tethered
from tests.rig.service import Service, ServiceMaker
from tests.rig.waiting import SOON_S, free_port, wait_until

NGINX = shutil.which("nginx", path=SYSTEM_PATH)
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed")

PACKAGE = Path(__file__).parents[2] / "myna"
OPERATIONS = (PACKAGE.parent / "docs" / "operations.md").read_text()
CLIENTS = 6
ROUNDS = 3
ENV = {"MYNA_DRAIN_S": "1", "MYNA_MIGRATE": "on"}
AROUND = """daemon off; pid {folder}/pid; error_log {folder}/error.log; user root;
events {{ worker_connections 512; }}
http {{ access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
{text} }}"""

Proxied = Callable[[list[int]], str]


@pytest.fixture
def proxied(tmp_path: Path) -> Iterator[Proxied]:
    """Starts nginx with the configuration of the docs, without TLS, before these ports; returns its URL."""
    started: list[subprocess.Popen[bytes]] = []

    def start(ports: list[int]) -> str:
        port = free_port()
        text = OPERATIONS.partition("```nginx\n")[2].partition("```")[0]
        servers = " ".join(f"server 127.0.0.1:{each} max_fails=0;" for each in ports)
        text, found = re.subn(r"server 127\.0\.0\.1:8080 max_fails=0;", servers, text)
        assert found == 1
        text = re.sub(r" *ssl_certificate.*\n", "", text).replace(
            "listen 443 ssl", f"listen 127.0.0.1:{port}"
        )
        config = tmp_path / "nginx.conf"
        config.write_text(AROUND.format(folder=tmp_path, text=text))
        started.append(
            subprocess.Popen(tethered([NGINX or "", "-c", str(config), "-e", str(tmp_path / "e")]))
        )
        url = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            try:
                return call("GET", f"{url}/openapi.json").status == 200
            except OSError:
                return False

        wait_until(answers, SOON_S, "nginx answers")
        return url

    yield start
    for process in started:
        process.send_signal(signal.SIGQUIT)
        process.wait(30)


class Load:
    """Clients that chat, stream and speak without a pause."""

    def __init__(self, url: str, caller: Caller) -> None:
        self._url = url
        self._key = caller.key.plain
        self._over = threading.Event()
        self.statuses: Counter[str] = Counter()
        self._clients = [threading.Thread(target=self._run, args=(n,)) for n in range(CLIENTS)]
        for client in self._clients:
            client.start()

    def wait_for(self, calls: int) -> None:
        enough = self.statuses.total() + calls
        wait_until(lambda: self.statuses.total() > enough, SOON_S, "calls are answered")

    def end(self) -> Counter[str]:
        self._over.set()
        for client in self._clients:
            client.join()
        return self.statuses

    def _run(self, first: int) -> None:
        for number in itertools.count(first):
            if self._over.is_set():
                return
            try:
                self.statuses[self._call(number)] += 1
            except Exception as error:  # counted as it is
                self.statuses[repr(error)] += 1

    def _call(self, number: int) -> str:
        messages = [{"role": "user", "content": f"hello {number}"}]
        if number % 3 == 0:
            answer = call("POST", f"{self._url}/v1/tts", key=self._key, data={"text": "hello"})
        else:
            data = {"model": "svc-chat", "messages": messages, "stream": number % 3 == 1}
            answer = call("POST", f"{self._url}/openai/v1/chat/completions", key=self._key, data=data)
            if data["stream"] and not answer.body.rstrip().endswith(b"data: [DONE]"):
                return f"a broken stream: {answer.body[-200:]!r}"
        return str(answer.status) if answer.status == 200 else f"{answer.status} {answer.body[:200]!r}"


@pytest.fixture
def replicas(make_service: ServiceMaker, postgres_url: str, tmp_path: Path) -> tuple[Service, Service]:
    """They share the folder of the audio."""
    env = ENV | {"MYNA_DATA": str(tmp_path / "shared")}
    parameters = {"chat_url": "parrot:", "speech": "espeak", "database_url": postgres_url, "env": env}
    first, second = (make_service(**parameters) for _ in "12")
    return first.start(), second.start()


def next_build(folder: Path) -> str:
    """The folder of a build whose schema is the next one, which adds a column."""
    shutil.copytree(PACKAGE, folder / "myna", ignore=shutil.ignore_patterns("__pycache__"))
    number = newest("postgresql")
    (folder / "myna" / "store" / "migrations" / f"{number + 1:04}_next.sql").write_text(
        f"-- Serves builds of schema {number} and later.\n"
        "ALTER TABLE calls ADD COLUMN of_the_next_build BIGINT NOT NULL DEFAULT 0;\n"
    )
    return str(folder)


def test_no_call_fails_while_replicas_are_restarted_and_updated(
    replicas: tuple[Service, Service], proxied: Proxied, tmp_path: Path
) -> None:
    caller = make_caller(replicas[0], units=1_000_000)
    load = Load(proxied([replica.port for replica in replicas]), caller)
    for _ in range(ROUNDS):
        for replica in replicas:
            replica.restart()
    newer = next_build(tmp_path / "next")
    for replica in replicas:
        assert replica.stop() == 0
        replica.env["PYTHONPATH"] = newer
        replica.start()
        load.wait_for(50)
        other = replicas[0] if replica is replicas[1] else replicas[1]
        assert call("GET", f"{other.root_url}/readyz").status == 200
    statuses = load.end()
    assert set(statuses) == {"200"}, statuses
    assert statuses["200"] > 200
    assert caller.stats().calls == statuses["200"]
    output_of([sys.executable, "-m", "myna", "audit", "--json"], replicas[0].env, tmp_path)
    assert replicas[0].command("migrate").code == 0, "the older build can serve from the newer schema"
