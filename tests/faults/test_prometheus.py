"""A real Prometheus with the rules of deploy/ reads the metrics of a service under load, and has an answer to
each query of the dashboard."""

import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.conformance.caller import make_caller
from tests.rig.calls import call
from tests.rig.processes import tethered
from tests.rig.service import ServiceMaker
from tests.rig.upstream import Upstream
from tests.rig.waiting import SOON_S, free_port, wait_until

PROMETHEUS = shutil.which("prometheus")
pytestmark = pytest.mark.skipif(PROMETHEUS is None, reason="Prometheus is not installed")

DEPLOY = Path(__file__).parents[2] / "deploy"
LOAD_S = 5
WITHOUT_DATA = {"myna_upstream_failures_total", "myna_channel_circuit_open"}
"""Nothing failed."""
CONFIG = """global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs: [{{job_name: myna, static_configs: [{{targets: ["127.0.0.1:{port}"]}}]}}]
"""
Query = Callable[[str], Any]


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Callable[[int], Query]]:
    """Starts Prometheus for the service at this port; returns what asks it a path of its API."""
    started: list[subprocess.Popen[bytes]] = []

    def start(port: int) -> Query:
        config, own = tmp_path / "prometheus.yml", free_port()
        config.write_text(CONFIG.format(rules=DEPLOY / "alerts.yml", port=port))
        options = [f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'tsdb'}"]
        options.append(f"--web.listen-address=127.0.0.1:{own}")
        with (tmp_path / "prometheus.log").open("wb") as log:
            program = tethered([PROMETHEUS or "", *options])
            started.append(subprocess.Popen(program, stdout=log, stderr=log))

        def query(path: str) -> Any:
            return call("GET", f"http://127.0.0.1:{own}/api/v1/{path}").json["data"]

        def is_up() -> bool:
            with suppress(OSError, KeyError, ValueError):
                return query("query?query=up")["result"][0]["value"][1] == "1"
            return False

        wait_until(lambda: _safely(is_up), SOON_S, "Prometheus has read the metrics")
        return query

    yield start
    for process in started:
        process.kill()
        process.wait()


def _safely(check: Callable[[], bool]) -> bool:
    try:
        return check()
    except IndexError:  # no result yet
        return False


def test_each_query_of_the_dashboard_is_answered_and_no_alert_fires(
    make_service: ServiceMaker, watched: Callable[[int], Query], postgres_url: str, upstream: Upstream
) -> None:
    chats = {"chat_url": upstream.url, "chat_key": upstream.key}
    service = make_service(**chats, speech="espeak", database_url=postgres_url).start()
    caller = make_caller(service, units=100_000)
    query = watched(service.port)
    chat = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    until = time.monotonic() + LOAD_S
    while time.monotonic() < until:
        path = f"{service.root_url}/openai/v1/chat/completions"
        assert call("POST", path, key=caller.key.plain, data=chat).status == 200
        assert caller.speak("hello").status == 200
    time.sleep(2)  # two scrapes
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    for expression in [target["expr"] for panel in panels for target in panel["targets"]]:
        found = query(f"query?{urlencode({'query': expression})}")["result"]
        assert found or any(name in expression for name in WITHOUT_DATA), expression
    rules = [rule for group in query("rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 5 and {rule["health"] for rule in rules} == {"ok"}
    assert [rule["name"] for rule in rules if rule["state"] == "firing"] == []
