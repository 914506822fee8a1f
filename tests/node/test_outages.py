"""Outages and invalid answers of the service: the node retries and logs each outage once."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from myna.engines.espeak.engine import Espeak
from myna.http_client import HttpClient
from myna.node.engines import Engines
from myna.node.main import NodeProgram, StopSignals
from myna.node.references import References
from myna.node.retry import OutageLog
from myna.node.server_client import ServerClient
from myna.node.work import Work
from myna.sandbox.confinement import AllowedPaths
from tests.node.conftest import ONE_SLOT, NodeWith, Pair
from tests.rig.compute_node import VoicesOf
from tests.rig.disks import read_only
from tests.rig.farm_site import FarmSite

RECOVERED = "it answers again"


def test_a_node_reconnects_to_a_restarted_service(pair: Pair) -> None:
    pair.site.stop()
    pair.node.wait_logged("Trying again.")
    pair.site.start()
    pair.site.wait_completed(pair.site.order())
    pair.node.wait_logged(RECOVERED)
    assert pair.node.messages("connected to") == []


def test_an_outage_is_logged_once(pair: Pair, voices: VoicesOf) -> None:
    site = pair.site
    speaking = voices(pair.node)
    speaking.stop()
    job = site.order()
    site.wait(lambda: bool(site.beats_of(job)), "the job is leased")
    site.unavailable = True
    tries = site.requests
    site.notify()
    site.wait(lambda: site.requests > tries + 8, "polls and beats are tried again")
    speaking.resume()
    site.unavailable = False
    site.wait_completed(job)
    pair.node.wait_logged(RECOVERED)
    assert pair.node.messages("Trying again.") == ["the service: The database is unavailable. Trying again."]


@pytest.mark.parametrize("fault", ["cut", "status:500", "garbled", "not-json", "status:429", "lose"])
def test_a_failed_completion_is_retried(pair: Pair, fault: str) -> None:
    pair.site.faults["complete"] += [fault, fault]
    job = pair.site.order()
    pair.node.wait_logged(f"task {job.id}: 3 characters")
    brought = pair.site.uploads_of(job)
    assert brought == [brought[0]] * (3 if fault == "lose" else 1)
    assert pair.site.failures_of(job) == []


def test_a_beat_concurrent_with_a_completion_does_not_cancel_it(pair: Pair) -> None:
    """The service has the audio, so it cancels the job before the node has got the answer to its upload."""
    pair.site.faults["complete"] += ["lose"]
    job = pair.site.order()
    pair.node.wait_logged(f"task {job.id}: 3 characters")
    assert len(pair.site.uploads_of(job)) == 2
    assert pair.node.messages("dropped") == []


@pytest.mark.parametrize("fault", ["cut", "status:500", "garbled", "redirect", "status:400"])
def test_a_failed_lease_is_retried(pair: Pair, fault: str) -> None:
    """The open poll gets the first job. The next two requests fail."""
    pair.site.faults["lease"] += [fault, fault]
    for job in (pair.site.order(), pair.site.order()):
        pair.site.wait_completed(job)
    assert pair.site.faults["lease"] == []


def test_a_failure_report_is_retried(pair: Pair) -> None:
    pair.site.faults["fail"] += ["cut", "status:500"]
    pair.site.wait_failed(pair.site.order(voice_id="somebody-else"))
    assert pair.site.faults["fail"] == []


def test_a_completion_is_retried_across_a_restart_of_the_service(pair: Pair) -> None:
    pair.site.faults["complete"] += ["hang"]
    job = pair.site.order()
    pair.site.wait(lambda: not pair.site.faults["complete"], "the audio is on its way")
    pair.site.stop()
    pair.site.start()
    pair.site.wait_completed(job)
    assert len(pair.site.uploads_of(job)) == 1


def test_a_disabled_node_drops_its_jobs(farm_site: FarmSite, joined: NodeWith) -> None:
    node = joined(ONE_SLOT).start()
    farm_site.faults["complete"] += ["hang"]
    job = farm_site.order()
    farm_site.wait(lambda: not farm_site.faults["complete"], "the audio is on its way")
    farm_site.admits = False
    farm_site.notify()
    node.wait_logged(f"task {job.id}: dropped: the service refuses this node's credential")
    node.wait_logged("The operator has disabled this node.")


@asynccontextmanager
async def _node_in_process(farm_site: FarmSite, folder: Path) -> AsyncIterator[None]:
    """Runs a node in this process, with short pauses while its credential is refused."""
    outbound = HttpClient(connections_max=4)
    engines = Engines([Espeak(processes=1, queue_max=1, job_deadline_s=60)])
    server = ServerClient(farm_site.url, farm_site.credential, outbound)
    outages, references = OutageLog(), References(folder / "r")
    work = Work(server=server, engines=engines, references=references, outages=outages, folder=folder / "w")
    program = NodeProgram(
        server=server,
        engines=engines,
        work=work,
        references=references,
        outages=outages,
        slots=1,
        chars_per_s=1,
        refused_retry_s=0.1,
    )
    (folder / "w").mkdir(exist_ok=True)
    await engines.start(AllowedPaths.of(writes=(folder / "w",)))
    try:
        signals = StopSignals()
        running = asyncio.create_task(program.run(signals, 0.0))
        yield
        signals.receive()
        await running
    finally:
        await engines.close()
        await outbound.close()


@pytest.mark.anyio
async def test_an_enabled_node_works_again(
    farm_site: FarmSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with _node_in_process(farm_site, tmp_path):
        farm_site.admits = False
        await asyncio.to_thread(farm_site.wait, lambda: farm_site.requests > 4, "the node retries")
        farm_site.admits = True
        await asyncio.to_thread(farm_site.wait_completed, farm_site.order())
    assert [record.levelname for record in caplog.records].count("WARNING") == 1


@pytest.mark.anyio
async def test_a_node_that_cannot_remove_files_continues(
    farm_site: FarmSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pathlib.Path.unlink", read_only)
    async with _node_in_process(farm_site, tmp_path):
        await asyncio.to_thread(farm_site.wait_failed, farm_site.order(voice_id="somebody-else"))
        await asyncio.to_thread(farm_site.wait_completed, farm_site.order())
