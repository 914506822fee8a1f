"""What every test stands on."""

import pytest

pytest_plugins = [
    "tests.rig.postgres",
    "tests.rig.service",
    "tests.rig.upstream",
    "tests.rig.llm",
    "tests.rig.node_client",
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
