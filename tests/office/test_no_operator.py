"""A site before its first operator: the pages say how to become it."""

from collections.abc import Iterator

import pytest

from tests.rig.commands import CommandLine
from tests.rig.forks import Forks
from tests.rig.office import People, text_of
from tests.rig.service import Service

RESTART = "Restart the service in a terminal"
ADD = "myna account add NAME --operator"


@pytest.fixture
def fresh(
    tmp_path_factory: pytest.TempPathFactory, commands: CommandLine, forks: Forks | None
) -> Iterator[Service]:
    made = Service(tmp_path_factory.mktemp("no-operator"), commands, speech="none", forks=forks)
    made.start()
    yield made
    made.kill()


def test_the_way_to_the_first_operator_is_said_until_there_is_one(fresh: Service) -> None:
    people = People(fresh)
    visitor = people.visitor()
    expired = visitor.get("/welcome?token=used")
    assert expired.status == 410
    for text in (text_of(expired), visitor.page("/sign-in")):
        assert RESTART in text
        assert ADD in text
        assert "Ask the operator" not in text
    people.signed_in("first", operator=True)
    for text in (text_of(visitor.get("/welcome?token=used")), visitor.page("/sign-in")):
        assert RESTART not in text
        assert "Ask the operator" in text
