"""The server process is killed, its disk is full, or a key is revoked under load: the audit finds nothing
afterwards. Calls that a full disk can't store are refused uncharged, and served again when there is space.
"""

import http.client
import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.caller import DELIVERED, REFUNDED, UNCHARGED, Caller, check_error, make_caller
from tests.faults.conftest import ServiceOn, audited
from tests.rig.calls import Answer, call
from tests.rig.service import Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

CLIENTS = 12
SWEPT_DEADLINE_S = 60


def ask(caller: Caller, text: str) -> Answer | None:
    """The answer, or None if the connection broke."""
    try:
        return caller.chat(text)
    except (OSError, http.client.HTTPException):
        return None


def test_a_process_refunds_open_calls_of_another_killed_process(
    two_services: tuple[Service, Service], upstream: Upstream
) -> None:
    """Calls in progress in the other process are not refunded."""
    dying, living = two_services
    caller = make_caller(dying, units=1)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask, caller, "fault=hang")
        upstream.wait_for_requests(1)
        dying.kill()
        assert asked.result(60) is None
    left = caller.at(living)
    assert left.chat("the unit is still spent").status == 402
    wait_until(lambda: left.stats() == REFUNDED, SWEPT_DEADLINE_S, "the other process sweeps")
    assert left.chat("the unit is back").status == 200
    assert audited(living)


def test_a_revocation_is_effective_in_both_processes_when_it_returns(
    two_services: tuple[Service, Service],
) -> None:
    caller = make_caller(two_services[0], units=1_000_000)
    answered: list[tuple[float, int]] = []
    refused: list[int] = []
    revoked = threading.Event()

    def ask(number: int) -> None:
        mine = caller.at(two_services[number % 2])
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


def fill_disk(service: Service) -> None:
    """Limits the size of files of the process, so that every write fails as on a full disk. The process must
    not cache modules, which would be cut."""
    resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))


def empty_disk(service: Service) -> None:
    resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def stored(service: Service) -> bool:
    """The state of the storage in GET /readyz, which may be a second old."""
    answer = call("GET", f"{service.root_url}/readyz")
    storage = answer.json["checks"]["storage"]
    assert answer.status == (200 if storage else 503)
    return bool(storage)


def test_on_a_full_disk_calls_are_refused_uncharged_and_reads_are_served(service_on: ServiceOn) -> None:
    service = service_on(None, MYNA_CHARGE_WAIT_S="0.5", PYTHONDONTWRITEBYTECODE="1").start()
    caller = make_caller(service, units=5)
    fill_disk(service)
    check_error(caller.chat("hello"), 503, "service_unavailable")
    assert caller.stats() == UNCHARGED
    assert caller.get("/models").status == 200
    wait_until(lambda: not stored(service), 60, "readiness tells of the disk")
    assert not list((service.folder / "data").rglob("probe-*"))
    empty_disk(service)
    wait_until(lambda: stored(service), 60, "the service is ready again")

    def writable() -> bool:
        return caller.chat("hello").status == 200

    wait_until(writable, 60, "calls go through again")
    wait_until(lambda: caller.stats() == DELIVERED, 60, "only one call costs")
    assert service.cli("account", "show", caller.account.name)["balance"] == 4
    assert audited(service)
    assert service.stop() == 0


def test_a_call_that_fails_on_a_full_disk_is_refunded_when_there_is_space(
    service_on: ServiceOn, upstream: Upstream
) -> None:
    """A 500 states the refund, so there is no answer while the refund cannot be written."""
    service = service_on(None, MYNA_CHARGE_WAIT_S="0.5", PYTHONDONTWRITEBYTECODE="1").start()
    caller = make_caller(service, units=1)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(caller.chat, "fault=block:500")
        upstream.wait_for_requests(1)
        fill_disk(service)
        upstream.release()
        with pytest.raises(http.client.RemoteDisconnected):
            asked.result(30)
    empty_disk(service)
    wait_until(lambda: caller.stats() == REFUNDED, 60, "the refund arrives")
    wait_until(lambda: stored(service), 60, "the service is ready")
    assert audited(service)
