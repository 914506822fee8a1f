"""What every test stands on."""

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
