"""One real service for all that only talks to it."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.rig.calls import Wire
from tests.rig.commands import CommandLine
from tests.rig.service import Service

ANSWER_WAIT_S = 10


@dataclass(frozen=True)
class Door:
    """A running service and a key that opens all of it."""

    service: Service
    key: str

    def wire(self) -> Wire:
        return Wire(self.service.root_url, deadline_s=ANSWER_WAIT_S)

    @property
    def bearer(self) -> str:
        return f"Authorization: Bearer {self.key}"


@pytest.fixture(scope="session")
def door(commands: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    service = Service(tmp_path_factory.mktemp("edge"), commands, chat_url="parrot:", speech="none").start()
    yield Door(service, service.account().key().plain)
    assert service.stop() == 0
