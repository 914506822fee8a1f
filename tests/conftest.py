"""Fixtures and hooks of all tests."""

import gc
import os
from pathlib import Path

import hypothesis
import pytest

from tests.rig.disks import temporary_folder

pytest_plugins = [
    *("tests.rig.postgres", "tests.rig.s3", "tests.rig.service", "tests.rig.upstream", "tests.rig.models"),
    *("tests.rig.clients", "tests.rig.farm_site", "tests.rig.compute_node", "tests.rig.browser"),
    *("tests.rig.oidc_provider", "tests.store.fixtures", "tests.store.machine"),
]

SLOW = ("demo", "faults")
"""Folders of which every test is marked slow: `make test-slow` runs them, `make test` does not."""
IMPLIED = {"browser": "slow", "clients": "release"}
"""The tier of each test with one of these marks."""

# Processes that tests start import this checkout, whichever one is installed. Engines' children keep the
# variable too.
os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])

# The same examples in every run, however long the machine takes for one.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


def pytest_configure(config: pytest.Config) -> None:
    """Temporary folders are in memory where there is room; pytest-xdist gives them to its workers."""
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(temporary_folder()))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.relative_to(here).parts[0] in SLOW:
            item.add_marker("slow")
        for mark, tier in IMPLIED.items():
            if item.get_closest_marker(mark):
                item.add_marker(tier)


def pytest_collection_finish() -> None:
    """Freezes the collected tests, which live to the end, so that the garbage collector skips them."""
    gc.collect()
    gc.freeze()
