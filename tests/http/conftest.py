"""One service process, shared by all tests that do not stop it."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.rig.calls import Wire
from tests.rig.commands import CommandLine
from tests.rig.service import Service

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
def edge(commands: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    service = Service(tmp_path_factory.mktemp("edge"), commands, chat_url="parrot:", speech="none").start()
    yield Edge(service, service.account().key().plain)
    assert service.stop() == 0
