"""The tests of a file share an event loop, and with it the services that run in this process."""

import pytest


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"
