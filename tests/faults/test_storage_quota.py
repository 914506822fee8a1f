"""An account at its storage quota: speech is refused uncharged."""

import pytest

from tests.conformance.caller import DELIVERED, UNCHARGED, check_error
from tests.faults.conftest import audited, new_caller
from tests.rig.calls import Answer
from tests.rig.postgres import Postgres
from tests.rig.service import ServiceMaker
from tests.rig.waiting import wait_until

QUOTA = "account_storage_mib"
OVER_A_MEBIBYTE = {"text": "你好世界" * 75, "speed": "0.25"}


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_speech_over_the_storage_quota_is_refused_uncharged(
    make_service: ServiceMaker, postgres: Postgres, database: str
) -> None:
    url = postgres.fresh_database() if database == "postgresql" else None
    env = {"MYNA_SWEEP_EVERY_S": "0.2"}
    service = make_service(database_url=url, chat_url="parrot:", env=env).start()
    service.cli("settings", "set", QUOTA, "1")
    caller, other = new_caller(service, units=100), new_caller(service, units=1)
    assert caller.speak(**OVER_A_MEBIBYTE).status == 200
    answers: list[Answer] = []

    def refused() -> bool:
        answers.append(caller.speak("你"))
        return answers[-1].status != 200

    wait_until(refused, 60, "the quota is reached")
    before, records = caller.stats(), caller.get("/records").json["count"]
    assert records == len(answers)

    for answer in (answers[-1], caller.speak("你"), caller.chat("配音：你")):
        message = check_error(answer, 402, "insufficient_quota")
        assert "nothing was charged" in message
        assert "may store 1" in message
    assert caller.stats() - before == UNCHARGED
    assert caller.get("/records").json["count"] == records
    assert caller.chat("hello").status == 200
    assert caller.stats() - before == DELIVERED
    assert other.speak("你").status == 200

    service.cli("settings", "set", QUOTA, "0")
    assert caller.speak("你").status == 200
    assert audited(service)
    assert service.stop() == 0
