"""One service process, shared by all tests that do not stop it."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.rig.calls import Wire
from tests.rig.service import RunningService, Service

ANSWER_WAIT_S = 60


@dataclass(frozen=True)
class Edge:
    """A running service and a key with every scope."""

    service: Service
    key: str

    def wire(self) -> Wire:
        return Wire(self.service.root_url, deadline_s=ANSWER_WAIT_S)

    @property
    def bearer(self) -> str:
        return f"Authorization: Bearer {self.key}"


@pytest.fixture(scope="session")
def edge(running_service: RunningService) -> Iterator[Edge]:
    with running_service() as service:
        yield Edge(service, service.account().key().plain)
