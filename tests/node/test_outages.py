"""Outages and invalid answers of the service: the node retries and logs each outage once."""

import asyncio

import pytest

from tests.node.local_node import LocalNode, happens
from tests.rig.disks import read_only
from tests.rig.farm_site import FarmSite, key_of

pytestmark = pytest.mark.anyio

RECOVERED = "it answers again"
Log = pytest.LogCaptureFixture


def logged(caplog: Log, part: str) -> list[str]:
    """The messages with this part."""
    return [message for message in caplog.messages if part in message]


async def restart(site: FarmSite) -> None:
    await asyncio.to_thread(site.stop)
    site.start()


async def completed(site: FarmSite) -> None:
    """Waits until a new job is completed."""
    job = site.order()
    await happens(lambda: key_of(job) in site.completed, "the job is completed")


async def test_a_node_reconnects_to_a_restarted_service(
    farm_site: FarmSite, local: LocalNode, caplog: Log
) -> None:
    await asyncio.to_thread(farm_site.stop)
    await happens(lambda: bool(logged(caplog, "Trying again.")), "the node tries again")
    farm_site.start()
    await completed(farm_site)
    await happens(lambda: bool(logged(caplog, RECOVERED)), "the outage has ended")
    assert logged(caplog, "connected to") == []


async def test_an_outage_is_logged_once(farm_site: FarmSite, local: LocalNode, caplog: Log) -> None:
    local.engine.hold()
    job = farm_site.order()
    await happens(lambda: bool(farm_site.beats_of(job)), "the job is leased")
    farm_site.unavailable = True
    tries = farm_site.requests
    await happens(lambda: farm_site.requests > tries + 8, "requests are tried again")
    local.engine.resume()
    farm_site.unavailable = False
    await happens(lambda: key_of(job) in farm_site.completed, "the job is completed")
    await happens(lambda: bool(logged(caplog, RECOVERED)), "the outage has ended")
    assert logged(caplog, "Trying again.") == ["the service: The database is unavailable. Trying again."]


@pytest.mark.parametrize("fault", ["cut", "status:500", "garbled", "not-json", "status:429", "lose"])
async def test_a_failed_completion_is_retried(
    farm_site: FarmSite, local: LocalNode, caplog: Log, fault: str
) -> None:
    """With `lose` the service has the audio, so a beat meanwhile asks the node to cancel the job."""
    farm_site.faults["complete"] += [fault, fault]
    job = farm_site.order()
    await happens(lambda: bool(logged(caplog, f"task {job.id}: 3 characters")), "the job is done")
    brought = farm_site.uploads_of(job)
    assert brought == [brought[0]] * (3 if fault == "lose" else 1)
    assert farm_site.failures_of(job) == []
    assert logged(caplog, "dropped") == []


@pytest.mark.parametrize("fault", ["cut", "status:500", "garbled", "redirect", "status:400"])
async def test_a_failed_lease_is_retried(farm_site: FarmSite, local: LocalNode, fault: str) -> None:
    """The open poll gets the first job. The next two requests fail."""
    await happens(lambda: bool(farm_site.leases), "a poll is open")
    farm_site.faults["lease"] += [fault, fault]
    for _ in range(2):
        await completed(farm_site)
    assert farm_site.faults["lease"] == []


async def test_a_failure_report_is_retried(farm_site: FarmSite, local: LocalNode) -> None:
    farm_site.faults["fail"] += ["cut", "status:500"]
    job = farm_site.order(voice_id="somebody-else")
    await happens(lambda: bool(farm_site.failures_of(job)), "the failure is reported")
    assert farm_site.faults["fail"] == []


async def test_a_completion_is_retried_across_a_restart_of_the_service(
    farm_site: FarmSite, local: LocalNode
) -> None:
    farm_site.faults["complete"] += ["hang"]
    job = farm_site.order()
    await happens(lambda: not farm_site.faults["complete"], "the audio is on its way")
    await restart(farm_site)
    await happens(lambda: key_of(job) in farm_site.completed, "the job is completed")
    assert len(farm_site.uploads_of(job)) == 1


async def test_a_disabled_node_drops_its_jobs(farm_site: FarmSite, local: LocalNode, caplog: Log) -> None:
    farm_site.faults["complete"] += ["hang"]
    job = farm_site.order()
    await happens(lambda: not farm_site.faults["complete"], "the audio is on its way")
    farm_site.admits = False
    farm_site.notify()
    dropped = f"task {job.id}: dropped: the service refuses this node's credential"
    for part in (dropped, "The operator has disabled this node."):
        await happens(lambda part=part: bool(logged(caplog, part)), part)


async def test_an_enabled_node_works_again(farm_site: FarmSite, local: LocalNode, caplog: Log) -> None:
    farm_site.admits = False
    farm_site.notify()
    await happens(lambda: farm_site.requests > 4, "the node tries again")
    farm_site.admits = True
    await completed(farm_site)
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


async def test_a_node_that_cannot_remove_files_continues(
    farm_site: FarmSite, local: LocalNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pathlib.Path.unlink", read_only)
    job = farm_site.order(voice_id="somebody-else")
    await happens(lambda: bool(farm_site.failures_of(job)), "the failure is reported")
    await completed(farm_site)
