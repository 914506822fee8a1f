"""Removing a guard from the source must fail a test: by an assertion, not by a broken program.

Each check copies the package and the tests to a temporary folder, changes the copy, and runs the named test
on it in a separate process.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.mutations.audit_guards import OF_THE_AUDIT
from tests.mutations.farm_guards import OF_THE_FARM
from tests.mutations.guards import ON_SQLITE, Guard
from tests.mutations.limit_guards import OF_LIMITS
from tests.mutations.model_guards import OF_MODELS
from tests.mutations.oidc_guards import OF_OIDC
from tests.mutations.openai_audio_guards import OF_OPENAI_AUDIO
from tests.mutations.outbound_guards import OF_OUTBOUND
from tests.mutations.postgresql_guards import ON_POSTGRESQL
from tests.mutations.refusal_guards import OF_REFUSALS
from tests.mutations.relay_guards import OF_THE_RELAY
from tests.mutations.report_guards import OF_REPORTS
from tests.mutations.shared_guards import ON_BOTH
from tests.mutations.sign_in_guards import OF_SIGN_IN
from tests.mutations.speech_guards import OF_SPEECH
from tests.mutations.storage_guards import OF_STORAGE
from tests.mutations.task_guards import OF_TASKS
from tests.mutations.voice_guards import OF_VOICES
from tests.rig.postgres import Postgres

ROOT = Path(__file__).parents[2]
DEADLINE_S = 60
GROUPS = {
    "sqlite": ON_SQLITE,
    "postgresql": ON_POSTGRESQL,
    "both": ON_BOTH,
    "tasks": OF_TASKS,
    "farm": OF_THE_FARM,
    "refusals": OF_REFUSALS,
    "relay": OF_THE_RELAY,
    "voices": OF_VOICES,
    "speech": OF_SPEECH,
    "openai_audio": OF_OPENAI_AUDIO,
    "storage": OF_STORAGE,
    "audit": OF_THE_AUDIT,
    "http_client": OF_OUTBOUND,
    "models": OF_MODELS,
    "reports": OF_REPORTS,
    "sign_in": OF_SIGN_IN,
    "oidc": OF_OIDC,
    "limits": OF_LIMITS,
}
GUARDS = {f"{group}: {guard.name}": guard for group, guards in GROUPS.items() for guard in guards}
assert len(GUARDS) == sum(map(len, GROUPS.values())), "two guards of one name"
FOLDERS = (
    "rig", "store", "ledger", "tasks", "farm", "clones", "conformance", "audio", "engines", "faults", "http",
    "http_client", "models", "openai_audio", "relay", "reports", "sign_in", "speech",
)  # fmt: skip
COPIED = ("myna", *(f"tests/{name}" for name in FOLDERS))
PLUGINS = ("-p", "anyio", "-p", "pytest_timeout", "-p", "no:cacheprovider")
CONFTEST = """
from pathlib import Path
import myna, pytest
assert Path(myna.__file__).is_relative_to(Path(__file__).parent), myna.__file__
pytest_plugins = [
    "tests.rig.postgres", "tests.rig.service", "tests.rig.upstream", "tests.rig.oidc_provider",
    "tests.store.fixtures",
]

@pytest.fixture(scope="session")
def anyio_backend():
    return "asyncio"
"""


@pytest.mark.parametrize("name", GUARDS)
def test_removing_a_guard_fails_its_test(name: str, postgres: Postgres, tmp_path: Path) -> None:
    assert without(GUARDS[name], tmp_path / "mutant", postgres.url) == GUARDS[name].error


def without(guard: Guard, folder: Path, postgres_url: str) -> str:
    """The name of the exception with which the guard's test fails without it; its output if it passes."""
    copy(folder)
    for change in guard.changes:
        path = folder / change.file
        text = path.read_text(encoding="utf-8")
        assert text.count(change.old) == 1, f"{change.file} has {change.old!r} {text.count(change.old)} times"
        path.write_text(text.replace(change.old, change.new), encoding="utf-8")
    report = folder / "report.xml"
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *PLUGINS, f"--junitxml={report}", "--tb=short", guard.test],
        cwd=folder,
        env=os.environ | {
            "MYNA_TEST_DATABASE_URL": postgres_url,
            "MYNA_TEST_SOON_S": "10",
            "PYTHONPATH": str(folder),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )  # fmt: skip
    failures = [failure.get("message", "") for failure in ET.parse(report).iter("failure")]  # noqa: S314 - ours
    shutil.rmtree(folder)
    if ended.returncode != 1 or len(failures) != 1:
        return f"exit code {ended.returncode}, {len(failures)} failures: {ended.stdout[-3000:]}"
    return error_of(failures[0])


def copy(folder: Path) -> None:
    """Copies the package, the tests of the guards, and a check that nothing else is imported."""
    for name in COPIED:  # including the compiled files
        shutil.copytree(ROOT / name, folder / name)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "tests/__init__.py").touch()
    (folder / "conftest.py").write_text(CONFTEST)


def error_of(message: str) -> str:
    """The name of the exception in a failure's message; that of a plain assert begins with `assert`."""
    if message.startswith("assert "):
        return "AssertionError"
    return message.split(":")[0].split("\n")[0].rsplit(".", 1)[-1].strip()
