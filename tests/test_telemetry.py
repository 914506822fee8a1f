"""What the log and the metrics say about a call, and whether Prometheus and the dashboard can read it."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from myna.wire.completions import usage_at_end
from tests.conformance.caller import make_caller
from tests.rig.calls import call
from tests.rig.processes import tethered
from tests.rig.service import Service, ServiceMaker
from tests.rig.upstream import Upstream
from tests.rig.waiting import SOON_S, free_port, wait_until
from tests.speech.test_failures import with_voices

DEPLOY = Path(__file__).parents[1] / "deploy"
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
PROMTOOL = shutil.which("promtool")
PROMETHEUS = shutil.which("prometheus")
PROMETHEUS_CONFIG = """global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: myna
    static_configs:
      - targets: ["127.0.0.1:{port}"]
"""


@pytest.fixture
def service(make_service: ServiceMaker, upstream: Upstream) -> Service:
    return make_service(chat_url=upstream.url, chat_key=upstream.key, speech="espeak").start()


def test_a_call_tells_its_route_tokens_and_first_byte(service: Service, upstream: Upstream) -> None:
    caller = make_caller(service)
    root = service.root_url
    data: dict[str, Any] = {"model": "svc-chat", "messages": [{"role": "user", "content": "一二三"}]}

    def ask(request_id: str, path: str = "/openai/v1/chat/completions", **more: Any) -> dict[str, Any]:
        headers = {"X-Request-Id": request_id, "traceparent": TRACE}
        answer = call("POST", root + path, key=caller.key.plain, data=data | more, headers=headers)
        assert answer.status == 200
        sent = upstream.requests[-1].headers
        assert (sent["x-request-id"], sent["traceparent"]) == (request_id, TRACE)
        return service.logged(request_id)

    for line in (ask("whole"), ask("v1", "/v1/chat/completions")):
        assert (line["route"], line["model"], line["channel"]) == ("svc-chat", "svc-chat", "default")
        assert line["input_tokens"] > 0 and line["output_tokens"] > 0
        assert "tokens_counted" not in line and "first_byte_ms" not in line
    told = ask("told", stream=True, stream_options={"include_usage": True})
    assert 0 < told["first_byte_ms"] <= told["ms"] and "tokens_counted" not in told
    assert (told["status"], told["units"], told["channel"]) == (200, 1, "default")
    upstream.withholds_usage = True
    assert ask("untold", stream=True)["tokens_counted"] is True
    upstream.withholds_usage = False
    assert caller.chat("fault=empty", {"X-Request-Id": "refunded"}).status == 500
    stored = {row["request_id"]: row for row in service.cli("calls", "--account", caller.account.name)}
    assert (stored["told"]["model"], stored["told"]["tokens_counted"]) == ("svc-chat", False)
    assert (stored["refunded"]["input_tokens"], stored["refunded"]["state"]) == (11, "refunded")
    for name in ("input_tokens", "output_tokens", "first_byte_ms"):
        assert stored["told"][name] == told[name]
    metrics = call("GET", f"{root}/metrics").body.decode()
    for name in ("myna_channel_seconds_count", "myna_channel_first_byte_seconds_count"):
        assert f'{name}{{channel="default",route="svc-chat"}}' in metrics
    assert 'myna_tokens_total{channel="default",counted="1",kind="output",route="svc-chat"}' in metrics
    counted = dict(line.rsplit(" ", 1) for line in metrics.splitlines())
    for name, count in {"open": 0, 'total{end="kept"}': 4, 'total{end="refunded"}': 1}.items():
        assert float(counted[f"myna_calls_{name}"]) == count
    assert float(counted['myna_units_charged_total{route="svc-chat"}']) >= float(stored["told"]["units"]) * 5
    assert float(counted["myna_commit_seconds_count"]) >= 10
    if PROMTOOL:
        checked = subprocess.run(
            [PROMTOOL, "check", "metrics"], input=metrics, capture_output=True, text=True, check=False
        )
        ours = [line for line in checked.stdout.splitlines() + checked.stderr.splitlines() if "myna_" in line]
        assert ours == []


def test_no_caller_adds_series(service: Service) -> None:
    """Each kind of request once, then more of it with names that the caller makes up."""
    caller = make_caller(service)

    def series(name: str) -> set[str]:
        data = {"model": name, "messages": [{"role": "user", "content": name}]}
        for path in (
            f"/{name}",
            f"/v1/{name}",
            f"/uploads/{name}",
            f"/openai/v1/models/{name}",
            f"/office/{name}",
        ):
            call("GET", service.root_url + path, key=caller.key.plain)
        for path in ("/openai/v1/chat/completions", "/openai/v1/embeddings", "/v1/chat/completions"):
            call(
                "POST",
                service.root_url + path,
                key=caller.key.plain,
                data=data,
                headers={"X-Request-Id": name},
            )
        call("POST", f"{service.base_url}/tts", key=caller.key.plain, data={"text": name, "voice_id": name})
        call("GET", f"{service.base_url}/me", key=name)
        call("BREW", f"{service.base_url}/me")
        text = call("GET", f"{service.root_url}/metrics").body.decode()
        return {line.rpartition(" ")[0] for line in text.splitlines() if line.startswith("myna_")}

    first = series("first")
    assert len(first) > 200
    assert series("second") | series("a%22%0A") <= first


def test_a_speech_server_gets_the_id_of_its_call(make_service: ServiceMaker, upstream: Upstream) -> None:
    service = with_voices(make_service(chat_url="parrot:", speech=upstream.url), upstream)
    upstream.behave()
    assert make_caller(service).speak("hello", {"X-Request-Id": "spoken"}).status == 200
    assert upstream.requests[-1].headers["x-request-id"] == "spoken"


def test_dashboard_and_alerts_name_metrics_that_exist(service: Service) -> None:
    metrics = call("GET", f"{service.root_url}/metrics").body.decode()
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", metrics, re.MULTILINE))
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel["targets"]]
    queries += re.findall(r"expr: (.*)", (DEPLOY / "alerts.yml").read_text())
    named = {name for query in queries for name in re.findall(r"\bmyna_\w+", query)}
    assert len(queries) > 20
    assert {name for name in named if re.sub(r"_(bucket|count)$", "", name) not in kinds} == set()
    if PROMTOOL:
        subprocess.run([PROMTOOL, "check", "rules", str(DEPLOY / "alerts.yml")], check=True)


@pytest.mark.slow
@pytest.mark.skipif(PROMETHEUS is None, reason="Prometheus is not installed")
def test_prometheus_answers_every_panel_under_load(
    make_service: ServiceMaker, upstream: Upstream, postgres_url: str, tmp_path: Path
) -> None:
    """It loads the alerts too, and finds the service up."""
    service = make_service(database_url=postgres_url, chat_url=upstream.url, speech="espeak").start()
    caller, port, config = make_caller(service), free_port(), tmp_path / "prometheus.yml"
    config.write_text(PROMETHEUS_CONFIG.format(rules=DEPLOY / "alerts.yml", port=service.port))
    listen = (f"--web.listen-address=127.0.0.1:{port}", f"--storage.tsdb.path={tmp_path / 'tsdb'}")
    data = {"model": "svc-chat", "messages": [{"role": "user", "content": "hello"}], "stream": True}
    panels = json.loads((DEPLOY / "grafana.json").read_text())["panels"]
    left = {panel["title"]: [target["expr"] for target in panel["targets"]] for panel in panels}

    def ask(path: str) -> Any:
        return call("GET", f"http://127.0.0.1:{port}/api/v1/{path}").json["data"]

    def is_answered(query: str) -> bool:
        found = ask(f"query?query={quote(query)}")["result"]
        return any(one["value"][1] != "NaN" for one in found)

    def all_answered() -> bool:
        for text in ("hello", "fault=empty"):
            caller.chat(text)
        call("POST", f"{service.root_url}/openai/v1/chat/completions", key=caller.key.plain, data=data)
        caller.speak("hello")
        try:
            for title in [title for title, queries in left.items() if any(map(is_answered, queries))]:
                del left[title]
        except (OSError, ValueError):  # it starts: it refuses, or answers that it is not ready
            pass
        return not left

    with subprocess.Popen(tethered([str(PROMETHEUS), f"--config.file={config}", *listen])) as prometheus:
        try:
            wait_until(all_answered, 60, f"every panel has figures, also {left}", every_s=0.2)
            rules: list[dict[str, Any]] = []

            def are_evaluated() -> bool:
                rules[:] = [rule for group in ask("rules")["groups"] for rule in group["rules"]]
                return all(rule["health"] != "unknown" for rule in rules)

            wait_until(are_evaluated, SOON_S, "the alerts are evaluated")
            assert len(rules) > 8
            assert [rule["name"] for rule in rules if rule["health"] != "ok"] == []
            assert is_answered('up{job="myna"} == 1')
        finally:
            prometheus.terminate()


@pytest.mark.parametrize(
    ("answer", "usage"),
    [
        (b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5}}', (3, 5)),
        (b'{"usage": {"input_tokens": 3, "output_tokens": 5}}', (3, 5)),
        (b'{"data":[],"usage":{"prompt_tokens":7}}', (7, 0)),
        (b'{"content":"\\"usage\\":{\\"prompt_tokens\\":1}"}', None),
        (b'{"usage":null}', None),
    ],
)
def test_the_usage_is_found_at_the_end(answer: bytes, usage: tuple[int, int] | None) -> None:
    assert usage_at_end(b" " * 10_000 + answer) == usage
