"""The server process is killed, and the audit finds nothing afterwards; a key is revoked under load."""

import http.client
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from tests.conformance.caller import REFUNDED, Caller
from tests.faults.conftest import at, audited, new_caller
from tests.rig.calls import Answer
from tests.rig.service import Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

CLIENTS = 12
ROUNDS = 5
SWEPT_DEADLINE_S = 60


def ask(caller: Caller, text: str, order: str | None = None) -> Answer | None:
    """The answer, or None if the connection broke."""
    try:
        return caller.chat(text, {"Idempotency-Key": order} if order else None)
    except (OSError, http.client.HTTPException):
        return None


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


def test_a_revocation_is_effective_in_both_processes_when_it_returns(
    two_services: tuple[Service, Service],
) -> None:
    caller = new_caller(two_services[0], units=1_000_000)
    answered: list[tuple[float, int]] = []
    refused: list[int] = []
    revoked = threading.Event()

    def ask(number: int) -> None:
        mine = at(two_services[number % 2], caller)
        while len(refused) < 50:
            began = time.monotonic()
            status = mine.chat("hello").status if number % 4 else mine.get("/me").status
            answered.append((began, status))
            if status == 401 and revoked.is_set():
                refused.append(number)

    with ThreadPoolExecutor(CLIENTS) as pool:
        asking = [pool.submit(ask, number) for number in range(CLIENTS)]
        wait_until(lambda: len(answered) > 50, 60, "calls go through")
        two_services[0].revoke(caller.key)
        returned = time.monotonic()
        revoked.set()
        for asked in asking:
            asked.result(30)
    assert {status for began, status in answered if began > returned} == {401}
    assert {status for _, status in answered} == {200, 401}
    assert audited(two_services[0])
