"""The site goes away, comes back, answers nonsense; the node sees it through and says so once."""

import asyncio
import logging
from pathlib import Path

import pytest

from myna.node.engines import Embedded, Engines
from myna.node.outage import Outage
from myna.node.program import Ending, Program
from myna.node.references import References
from myna.node.site import Site
from myna.node.work import Work
from myna.outbound import Outbound
from tests.node.conftest import NodeWith
from tests.rig.compute_node import ComputeNode, VoicesOf
from tests.rig.farm_site import FarmSite

BACK = "it answers again"


def test_a_site_that_restarts_gets_its_node_back(farm_site: FarmSite, node: ComputeNode) -> None:
    farm_site.stop()
    node.wait_said("Trying again.")
    farm_site.start()
    job = farm_site.order()
    farm_site.wait_completed(job)
    node.wait_said(BACK)
    assert len(node.messages("connected to")) == 1


def test_an_outage_is_one_line_however_many_tries_it_takes(
    farm_site: FarmSite, node: ComputeNode, voices: VoicesOf
) -> None:
    speaking = voices(node)
    speaking.stop()
    job = farm_site.order()
    farm_site.wait(lambda: bool(farm_site.beats_of(job)), "the job is held")
    farm_site.away, tries = True, farm_site.requests
    farm_site.tell()
    farm_site.wait(lambda: farm_site.requests > tries + 8, "polls and beats are tried again")
    speaking.go_on()
    farm_site.away = False
    farm_site.wait_completed(job)
    node.wait_said(BACK)
    assert node.messages("Trying again.") == ["the site: The database is away. Trying again."]


@pytest.mark.parametrize("fault", ["cut", "status:500", "garbled", "not-json", "status:429", "lose"])
def test_a_completion_that_goes_wrong_is_said_again(
    farm_site: FarmSite, node: ComputeNode, fault: str
) -> None:
    farm_site.faults["complete"] += [fault, fault]
    job = farm_site.order()
    farm_site.wait_completed(job)
    node.wait_said(f"task {job.id}: ")
    node.wait_said("real-time factor")
    assert farm_site.completions == 1
    assert farm_site.failed == []


def test_a_beat_that_crosses_a_completion_does_not_stop_it(farm_site: FarmSite, node: ComputeNode) -> None:
    """The site names the job as over, since it has its audio; the node hears of that only later."""
    farm_site.faults["complete"] += ["lose"]
    job = farm_site.order()
    node.wait_said(f"task {job.id}: 3 characters")
    assert farm_site.completions == 1
    assert node.messages("dropped") == []


@pytest.mark.parametrize("fault", ["cut", "status:500", "garbled", "redirect", "status:400"])
def test_a_lease_that_goes_wrong_is_asked_for_again(
    farm_site: FarmSite, joined: NodeWith, fault: str
) -> None:
    farm_site.faults["lease"] += [fault, fault]
    joined("slots = 1\n").start()
    farm_site.wait_completed(farm_site.order())


def test_a_failure_is_reported_until_it_is_noted(farm_site: FarmSite, node: ComputeNode) -> None:
    farm_site.faults["fail"] += ["cut", "status:500"]
    farm_site.order(voice_id="somebody-else")
    farm_site.wait(lambda: bool(farm_site.failed), "the failure is reported")


def test_a_completion_goes_on_over_a_restart_as_long_as_the_lease_does(
    farm_site: FarmSite, node: ComputeNode
) -> None:
    farm_site.faults["complete"] += ["hang"]
    job = farm_site.order()
    farm_site.wait(lambda: bool(farm_site.beats_of(job)), "the job is held")
    farm_site.wait(lambda: not farm_site.faults["complete"], "the audio is on its way")
    farm_site.stop()
    farm_site.start()
    farm_site.wait_completed(job)
    assert farm_site.completions == 1


def test_a_node_that_is_let_in_no_more_drops_its_work(farm_site: FarmSite, node: ComputeNode) -> None:
    farm_site.faults["complete"] += ["hang"]
    job = farm_site.order()
    farm_site.wait(lambda: not farm_site.faults["complete"], "the audio is on its way")
    farm_site.admits = False
    farm_site.tell()
    node.wait_said(f"task {job.id}: dropped: the site doesn't let this node in")
    node.wait_said("The operator has disabled this node.")


@pytest.mark.anyio
async def test_a_node_that_is_let_in_again_works_again(
    farm_site: FarmSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In this process, for it knocks rarely: here more often."""
    caplog.set_level(logging.INFO)
    outbound, engines = Outbound(connections_max=4), Engines([Embedded(1)])
    site, outage, references = (
        Site(farm_site.url, farm_site.credential, outbound),
        Outage(),
        References(tmp_path / "r"),
    )
    work = Work(site, engines, references, outage, tmp_path / "w")
    program = Program(site, engines, work, references, outage, slots=1, chars_per_s=1, knock_every_s=0.1)
    await engines.start()
    try:
        ending = Ending()
        running = asyncio.create_task(program.run(ending, 0.0))
        farm_site.admits = False
        await asyncio.to_thread(farm_site.wait, lambda: farm_site.requests > 4, "it knocks")
        farm_site.admits = True
        await asyncio.to_thread(farm_site.wait_completed, farm_site.order())
        ending.tell()
        await running
    finally:
        await engines.close()
        await outbound.close()
    assert [record.levelname for record in caplog.records].count("WARNING") == 1
