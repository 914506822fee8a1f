"""A full disk, one with less free space than its reserve, and an account at its storage quota.

Calls that would be stored are refused uncharged, and are served again when there is space.
"""

import http.client
import json
import resource
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.conformance.caller import DELIVERED, REFUNDED, UNCHARGED, check_error
from tests.faults.conftest import ServiceOn, audited, new_caller
from tests.rig.calls import call
from tests.rig.service import Service
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until


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
    caller = new_caller(service, units=5)
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
    caller = new_caller(service, units=1)
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


RESERVE = "MYNA_DISK_RESERVE_BYTES"


def capabilities(service: Service) -> tuple[dict[str, bool], dict[str, str]]:
    answer = call("GET", f"{service.root_url}/readyz")
    assert answer.status == 200
    return answer.json["capabilities"], answer.json["reasons"]


def logged(service: Service) -> list[str]:
    """The levels of the log messages about the reserve."""
    lines = [json.loads(line) for line in service.stderr.splitlines()]
    return [line["level"] for line in lines if line["logger"] == "myna.store.files.storage"]
