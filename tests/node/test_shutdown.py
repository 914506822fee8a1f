"""Graceful shutdown of a node: it takes no more jobs, completes what it can and requeues the rest."""

import asyncio
import logging
import signal
from pathlib import Path

import pytest

from myna.wire.farm import Job
from tests.node.conftest import ONE_SLOT, NodeWith
from tests.node.local_node import LocalNode, happens, local_node
from tests.rig.farm_site import FarmSite, key_of
from tests.rig.waiting import SOON_S

LONG_GRACE_S = 60.0


def test_an_idle_node_says_that_it_shuts_down_and_exits_with_0(farm_site: FarmSite, joined: NodeWith) -> None:
    node = joined(ONE_SLOT).start()
    node.signal(signal.SIGTERM)
    assert node.exit_code() == 0
    assert [hello.shutting_down for hello in farm_site.hellos] == [False, True]


def test_a_signal_while_the_engines_start_stops_the_node(joined: NodeWith) -> None:
    node = joined(ONE_SLOT).spawn()
    node.wait(lambda: (node.data / "work").is_dir(), "the node has started")
    node.signal(signal.SIGINT)
    assert node.exit_code() == 0
    assert "Traceback" not in node.stderr


async def at_work(site: FarmSite, node: LocalNode) -> Job:
    """A job that the node has leased and can't finish."""
    node.engine.hold()
    job = site.order()
    await happens(lambda: bool(site.beats_of(job)), "the job is leased")
    return job


@pytest.mark.anyio
async def test_a_stopping_node_completes_its_jobs_and_takes_no_more(
    farm_site: FarmSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("myna.node.main.LAST_LEASE_S", 0.05)
    async with local_node(farm_site, tmp_path, grace_s=LONG_GRACE_S) as node:
        job = await at_work(farm_site, node)
        node.signals.receive()
        await happens(lambda: farm_site.hellos[-1].shutting_down, "the node says that it shuts down")
        before = len(farm_site.beats_of(job))
        left = farm_site.order()
        await happens(lambda: len(farm_site.beats_of(job)) > before + 3, "beats go on")
        node.engine.resume()
        await asyncio.wait_for(node.running, SOON_S)
    assert key_of(job) in farm_site.completed
    assert key_of(left) not in farm_site.completed
    assert farm_site.failed == []


@pytest.mark.anyio
@pytest.mark.parametrize("signals", [1, 2])
async def test_jobs_unfinished_after_the_grace_period_or_a_second_signal_are_requeued(
    farm_site: FarmSite, tmp_path: Path, signals: int
) -> None:
    async with local_node(farm_site, tmp_path, grace_s=0.05 if signals == 1 else LONG_GRACE_S) as node:
        job = await at_work(farm_site, node)
        node.signals.receive()
        if signals == 2:
            await happens(lambda: farm_site.hellos[-1].shutting_down, "the node says that it shuts down")
            node.signals.receive()
        await asyncio.wait_for(node.running, SOON_S)
    (failure,) = farm_site.failed
    assert (failure.lease.id, failure.returned, failure.final) == (job.id, True, False)


@pytest.mark.anyio
async def test_a_node_stops_in_time_while_its_service_is_unavailable(
    farm_site: FarmSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "myna.node")
    async with local_node(farm_site, tmp_path, grace_s=0.05) as node:
        job = await at_work(farm_site, node)
        await asyncio.to_thread(farm_site.stop)
        node.signals.receive()
        await asyncio.wait_for(node.running, SOON_S)
    assert [line for line in caplog.messages if line.startswith(f"task {job.id}: not requeued")]
