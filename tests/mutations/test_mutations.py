"""Take a guard of the money path away, and a test must fail: by an assertion, not by a broken program.

Each check copies the package and the tests to a folder of its own, changes the copy, and runs the named test
on it in a process of its own, two at a time.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.mutations.guards import ON_SQLITE, Guard
from tests.mutations.postgresql_guards import ON_POSTGRESQL
from tests.mutations.shared_guards import ON_BOTH
from tests.rig.postgres import Postgres

ROOT = Path(__file__).parents[2]
AT_ONCE = 2
NOT_COPIED = shutil.ignore_patterns("__pycache__", "conformance")
DEADLINE_S = 60
GUARDS = {
    f"{group}: {guard.name}": guard
    for group, guards in (("sqlite", ON_SQLITE), ("postgresql", ON_POSTGRESQL), ("both", ON_BOTH))
    for guard in guards
}
ONLY_THE_COPY = """
from pathlib import Path
import myna
assert Path(myna.__file__).is_relative_to(Path(__file__).parent), myna.__file__
"""


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, postgres: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, "Future[str]"]]:
    """What became of the test of every guard that this run looks at."""
    wanted = [item.callspec.params["name"] for item in request.session.items if item.path == Path(__file__)]  # type: ignore[attr-defined]
    pool = ThreadPoolExecutor(AT_ONCE)
    yield {
        name: pool.submit(without, GUARDS[name], tmp_path_factory.mktemp("mutant"), postgres.url)
        for name in wanted
    }
    pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", GUARDS)
def test_a_guard_that_is_taken_away_is_missed(name: str, outcomes: dict[str, "Future[str]"]) -> None:
    assert outcomes[name].result(DEADLINE_S) == GUARDS[name].by


def without(guard: Guard, folder: Path, postgres_url: str) -> str:
    """The name of the error by which the guard's test fails without it; what was printed if it doesn't."""
    for name in ("myna", "tests"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "conformance")
        )
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "conftest.py").write_text(ONLY_THE_COPY)
    for change in guard.changes:
        path = folder / change.file
        text = path.read_text(encoding="utf-8")
        assert text.count(change.old) == 1, f"{change.file} has {change.old!r} {text.count(change.old)} times"
        path.write_text(text.replace(change.old, change.new), encoding="utf-8")
    report = folder / "report.xml"
    options = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", f"--junitxml={report}", "--tb=short"]
    ended = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", *options, guard.noticed],
        cwd=folder,
        env={**os.environ, "MYNA_TEST_DATABASE_URL": postgres_url, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    failures = [failure.get("message", "") for failure in ET.parse(report).iter("failure")]  # noqa: S314 - our own
    shutil.rmtree(folder)
    if ended.returncode != 1 or len(failures) != 1:
        return f"exit code {ended.returncode}, {len(failures)} failures: {ended.stdout[-3000:]}"
    return failures[0].split(":")[0].split("\n")[0].rsplit(".", 1)[-1].strip()
