"""The server process is killed, and the audit finds nothing afterwards; a key is revoked under load."""

import http.client
import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.conformance.caller import REFUNDED, Caller
from tests.faults.conftest import ServiceOn, at, audited, new_caller
from tests.rig.calls import Answer
from tests.rig.service import Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

NEVER_S = "60"
CLIENTS = 12
ROUNDS = 5
SWEPT_DEADLINE_S = 60


def ask(caller: Caller, text: str, order: str | None = None) -> Answer | None:
    """The answer, or None if the connection broke."""
    try:
        return caller.chat(text, {"Idempotency-Key": order} if order else None)
    except (OSError, http.client.HTTPException):
        return None


def test_sqlite_refunds_open_calls_of_a_killed_process_at_startup(
    service_on: ServiceOn, upstream: Upstream
) -> None:
    """Neither the deadline nor a periodic sweep comes within the test. A command writes in between."""
    service = service_on(None, MYNA_CALL_DEADLINE_S="3600", MYNA_SWEEP_EVERY_S=NEVER_S).start()
    caller = new_caller(service, units=1)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, caller, "fault=hang")
        upstream.wait_for_requests(1)
        service.kill()
        assert asked.result(60) is None
    caller.account.grant(5)
    service.start()
    assert caller.stats() == REFUNDED
    assert caller.chat("the unit is back").status == 200
    assert service.cli("account", "show", caller.account.name)["balance"] == 5
    assert audited(service)


def test_a_process_refunds_open_calls_of_another_killed_process(
    two_services: tuple[Service, Service], upstream: Upstream
) -> None:
    """Calls in progress in the other process are not refunded."""
    dying, living = two_services
    caller = new_caller(dying, units=1)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, caller, "fault=hang")
        upstream.wait_for_requests(1)
        dying.kill()
        assert asked.result(60) is None
    left = at(living, caller)
    assert left.chat("the unit is still spent").status == 402
    wait_until(lambda: left.stats() == REFUNDED, SWEPT_DEADLINE_S, "the other process sweeps")
    assert left.chat("the unit is back").status == 200
    assert audited(living)


class Load:
    """Clients that send calls without a pause, each with its own Idempotency-Key."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._over = threading.Event()
        self.seen: dict[str, bytes] = {}
        self._clients = [threading.Thread(target=self._ask, args=(number,)) for number in range(CLIENTS)]
        for client in self._clients:
            client.start()

    def end(self) -> dict[str, bytes]:
        """The bodies of the 200 answers that arrived, by their keys."""
        self._over.set()
        for client in self._clients:
            client.join(60)
        return self.seen

    def _ask(self, number: int) -> None:
        count = 0
        while not self._over.is_set():
            count += 1
            order = f"{id(self)}-{number}-{count}"
            answer = ask(self._caller, "fault=status:500" if count % 7 == 0 else f"call {order}", order)
            if answer is not None and answer.status == 200:
                self.seen[order] = answer.body


def test_a_server_killed_under_load_has_every_delivered_answer(
    service_on: ServiceOn, database_url: str | None
) -> None:
    service = service_on(database_url, MYNA_CALL_DEADLINE_S="5", MYNA_SWEEP_EVERY_S="0.3").start()
    caller = new_caller(service, units=1_000_000)
    moments = random.Random()
    delivered: dict[str, bytes] = {}
    for number in range(ROUNDS):
        load = Load(caller)
        enough = moments.randint(1, 150)
        wait_until(lambda load=load, enough=enough: len(load.seen) >= enough, 60, "some answers arrived")  # type: ignore[misc]
        service.kill()
        seen = load.end()
        service.start()
        assert audited(service), f"after round {number}, killed after {enough} answers"
        delivered |= seen
    some = moments.sample(sorted(delivered), min(40, len(delivered)))
    for order in some:
        answer = ask(caller, f"call {order}", order)
        assert answer is not None
        assert answer.body == delivered[order]

    def settled() -> bool:
        stats = caller.stats()
        return stats.cost == stats.ok_calls

    wait_until(settled, SWEPT_DEADLINE_S, "open calls of the killed processes are refunded")
    assert caller.stats().ok_calls >= len(delivered)
    account_row = service.cli("account", "show", caller.account.name)
    assert account_row["balance"] == 1_000_000 - caller.stats().ok_calls
    assert audited(service)


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
