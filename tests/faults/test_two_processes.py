"""Two processes on one PostgreSQL: one balance, one revocation, one answer for each Idempotency-Key."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from tests.conformance.caller import Stats
from tests.faults.conftest import at, audited, new_caller
from tests.rig.service import Service
from tests.rig.waiting import wait_until

CLIENTS = 12


def test_two_processes_spend_one_balance_to_its_last_unit(two_services: tuple[Service, Service]) -> None:
    caller = new_caller(two_services[0], units=40)
    callers = [at(service, caller) for service in two_services] * 50
    with ThreadPoolExecutor(40) as pool:
        statuses = Counter(pool.map(lambda one: one.chat("hello").status, callers))
    assert statuses == {200: 40, 402: 60}
    assert caller.stats() == Stats(calls=40, cost=40, ok_calls=40)
    assert audited(two_services[1])


def test_a_revocation_is_effective_in_both_processes_when_it_returns(
    two_services: tuple[Service, Service],
) -> None:
    caller = new_caller(two_services[0], units=1_000_000)
    answered: list[tuple[float, int]] = []
    refused: list[int] = []

    def ask(number: int) -> None:
        mine = at(two_services[number % 2], caller)
        while len(refused) < 50:
            began = time.monotonic()
            status = mine.chat("hello").status if number % 4 else mine.get("/me").status
            answered.append((began, status))
            if status == 401:
                refused.append(number)

    with ThreadPoolExecutor(CLIENTS) as pool:
        asking = [pool.submit(ask, number) for number in range(CLIENTS)]
        wait_until(lambda: len(answered) > 50, 60, "calls go through")
        two_services[0].revoke(caller.key)
        returned = time.monotonic()
        for asked in asking:
            asked.result(30)
    assert {status for began, status in answered if began > returned} == {401}
    assert {status for _, status in answered} == {200, 401}
    assert audited(two_services[0])


def test_concurrent_retries_at_both_processes_are_charged_once(two_services: tuple[Service, Service]) -> None:
    caller = new_caller(two_services[0], units=10)
    callers = [at(service, caller) for service in two_services] * 6
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(lambda one: one.chat("hello", {"Idempotency-Key": "one"}), callers))
    assert {answer.status for answer in answers} == {200}
    assert len({answer.body for answer in answers}) == 1
    assert caller.stats() == Stats(calls=1, cost=1, ok_calls=1)
    assert audited(two_services[1])
