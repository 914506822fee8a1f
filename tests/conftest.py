"""What every test stands on."""

import gc

import pytest

pytest_plugins = [
    "tests.rig.postgres",
    "tests.rig.service",
    "tests.rig.upstream",
    "tests.rig.llm",
    "tests.rig.node_client",
    "tests.rig.farm_site",
    "tests.rig.compute_node",
    "tests.rig.cutting",
    "tests.store.fixtures",
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def pytest_collection_finish() -> None:
    """What was collected stays to the end; the collector needn't look at thousands of tests each time."""
    gc.collect()
    gc.freeze()
