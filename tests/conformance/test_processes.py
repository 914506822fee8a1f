"""Processes: the programs of an operator, and two that serve, which are one service on PostgreSQL."""

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import pytest

from tests.conformance.caller import DELIVERED, Caller, Stats, check_error, make_caller
from tests.conformance.conftest import LIMITS
from tests.rig.postgres import Postgres
from tests.rig.service import RunningService, Service
from tests.rig.upstream import Upstream


@dataclass(frozen=True)
class Pair:
    """Two processes with the same database and audio folder."""

    first: Service
    second: Service

    def callers(self, units: int = 1000) -> tuple[Caller, Caller]:
        """Callers of both processes with the same key."""
        caller = make_caller(self.first, units=units)
        return caller, replace(caller, service=self.second)


@pytest.fixture(scope="module")
def pair(
    postgres: Postgres,
    session_upstream: Upstream,
    running_service: RunningService,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Pair]:
    given = {
        "database_url": postgres.fresh_database(),
        "chat_url": session_upstream.url,
        "chat_key": session_upstream.key,
        "speech": session_upstream.url,
        "env": {**LIMITS, "MYNA_DATA": str(tmp_path_factory.mktemp("pair"))},
    }
    with running_service(**given) as first, running_service(**given) as second:
        yield Pair(first, second)
        assert first.command("audit", "--json").code == 0


def test_both_processes_spend_one_balance_to_zero(pair: Pair) -> None:
    callers = pair.callers(units=60)
    with ThreadPoolExecutor(120) as pool:
        answers = list(pool.map(lambda number: callers[number % 2].chat("hello"), range(120)))
    assert Counter(answer.status for answer in answers) == {200: 60, 402: 60}
    for caller in callers:
        assert caller.stats() == Stats(calls=60, cost=60, ok_calls=60)


@pytest.mark.parametrize("option", ["--rpm", "--units-per-day"])
def test_both_processes_share_one_limit(pair: Pair, option: str) -> None:
    callers = pair.callers()
    pair.first.cli("account", "limit", callers[0].account.name, option, "60")
    with ThreadPoolExecutor(60) as pool:
        answers = list(pool.map(lambda number: callers[number % 2].chat("hello"), range(120)))
    assert Counter(answer.status for answer in answers) == {200: 60, 429: 60}
    assert callers[0].stats() == Stats(calls=60, cost=60, ok_calls=60)


def test_a_revoked_key_or_one_of_a_disabled_account_is_refused_by_both_processes_at_once(pair: Pair) -> None:
    for by in ("key", "account"):
        first, second = pair.callers()
        assert (first.chat("hello").status, second.chat("hello").status) == (200, 200)
        first.service.revoke(first.key) if by == "key" else first.account.disable()
        for caller in (first, second):
            check_error(caller.get("/me"), 401)
            check_error(caller.chat("hello"), 401)


def test_a_retry_at_another_process_waits_for_the_stored_answer(pair: Pair, chat_upstream: Upstream) -> None:
    callers = pair.callers()
    once = {"Idempotency-Key": "across"}
    with ThreadPoolExecutor(8) as pool:
        copies = [pool.submit(callers[n % 2].chat, "fault=block", once) for n in range(8)]
        chat_upstream.wait_for_requests(1)
        chat_upstream.release()
        answers = [copy.result(60) for copy in copies]
    assert {answer.status for answer in answers} == {200}
    assert len({answer.json["id"] for answer in answers}) == 1
    assert callers[1].stats() == DELIVERED
    assert len(chat_upstream.requests) == 1


def test_a_task_of_one_process_is_shown_by_the_other(pair: Pair) -> None:
    first, second = pair.callers()
    first.wait_for_voices()
    assert first.speak("你好").status == 200
    [record] = second.get("/records").json["data"]
    assert second.get(f"/task?id={record['id']}").json["data"]["status"] == 2
