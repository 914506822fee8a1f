"""The files of deploy/ are what their programs read. These are in no lock: before a release, install them."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from myna.settings import load
from tests.docs.pages import ROOT

DEPLOY = ROOT / "deploy"


@pytest.mark.release
def test_systemd_reads_the_units() -> None:
    units = [str(unit) for unit in sorted((DEPLOY / "systemd").iterdir())]
    program = _program("systemd-analyze")
    found = subprocess.run([program, "verify", *units], capture_output=True, text=True, check=False)
    wrong = [line for line in found.stderr.splitlines() if "myna" in line and "is not executable" not in line]
    assert wrong == []


def test_every_setting_that_the_files_name_exists(tmp_path: Path) -> None:
    """A variable of ours that is no setting ends the service. Those of the chart are written by a loop."""
    chart = (DEPLOY / "helm" / "values.yaml").read_text()
    texts = [
        (DEPLOY / name).read_text() for name in ("Containerfile", "compose.yaml", "systemd/myna.service")
    ]
    texts += [chart, (DEPLOY / "helm" / "templates" / "_helpers.tpl").read_text()]
    names = {name for text in texts for name in re.findall(r"MYNA_[A-Z_]+[A-Z]", text)}
    (keys,) = re.findall(r"^secretKeys: \[(.*)\]$", chart, re.MULTILINE)
    names |= {f"MYNA_{key.strip().upper()}_FILE" for key in keys.split(",")}
    assert len(names) > 10
    file = tmp_path / "secret"
    file.write_text("s" * 32)
    known = {name: str(file) if name.endswith("_FILE") else "" for name in names}
    load(known | {"MYNA_DATABASE_URL_FILE": "", "MYNA_CONFIG": ""})


@pytest.mark.release
def test_helm_renders_the_chart_into_what_kubernetes_knows() -> None:
    """With the packages helm-python-sdk and kubernetes-validate, 350 MB."""
    charts: Any = pytest.importorskip("helm_python.chart")
    kubernetes: Any = pytest.importorskip("kubernetes_validate")
    yaml: Any = pytest.importorskip("yaml")
    chart, values = charts.Chart.load(DEPLOY / "helm"), {"image": "a", "claim": "b"}
    in_a_bucket = {"claim": "", "config": {"MYNA_STORAGE": "s3://a/b"}}
    for scaled, more in ((True, {}), (False, in_a_bucket)):
        rendered = chart.render(values | more | {"autoscaling": {"enabled": scaled}}, name="myna")
        found = [one for text in rendered.values() for one in yaml.safe_load_all(text) if one]
        for one in found:
            kubernetes.validate(one, "1.30", strict=True)
        kinds = {one["kind"] for one in found}
        assert kinds - {"HorizontalPodAutoscaler"} == {"Deployment", "Job", "PodDisruptionBudget", "Service"}
        assert ("HorizontalPodAutoscaler" in kinds) == scaled
    assert charts.lint(DEPLOY / "helm", values)["errors"] == []


@pytest.mark.release
def test_compose_is_of_its_schema() -> None:
    schema = ["--builtin-schema", "vendor.compose-spec"]
    subprocess.run([_program("check-jsonschema"), *schema, str(DEPLOY / "compose.yaml")], check=True)


def _program(name: str) -> str:
    return shutil.which(name) or pytest.skip(f"{name} is not installed")
