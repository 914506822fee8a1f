"""Graceful shutdown of a node: it takes no more jobs, completes what it can and requeues the rest."""

import signal

import pytest

from tests.node.conftest import ONE_SLOT, NodeWith
from tests.rig.compute_node import VoicesOf
from tests.rig.farm_site import FarmSite

LONG_GRACE = 'slots = 1\nshutdown_grace_s = 60\n[[engine]]\nkind = "espeak"\n'


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_node_says_that_it_shuts_down_and_exits_with_0(
    farm_site: FarmSite, joined: NodeWith, number: signal.Signals
) -> None:
    node = joined(ONE_SLOT).start()
    node.signal(number)
    assert node.exit_code() == 0
    assert [hello.shutting_down for hello in farm_site.hellos] == [False, True]


def test_a_stopping_node_completes_its_jobs_and_takes_no_more(
    farm_site: FarmSite, joined: NodeWith, voices: VoicesOf
) -> None:
    node = joined(LONG_GRACE).start()
    speaking = voices(node)
    speaking.stop()
    job = farm_site.order()
    farm_site.wait(lambda: bool(farm_site.beats_of(job)), "the job is leased")
    node.signal(signal.SIGTERM)
    farm_site.wait(lambda: farm_site.hellos[-1].shutting_down, "the node says that it shuts down")
    before = len(farm_site.beats_of(job))
    left = farm_site.order()
    farm_site.wait(lambda: len(farm_site.beats_of(job)) > before + 3, "beats go on")
    speaking.resume()
    assert node.exit_code() == 0
    assert farm_site.wait_completed(job)
    assert ("task", left.id, 1) not in farm_site.completed
    assert farm_site.failed == []


def test_jobs_unfinished_after_the_grace_period_are_requeued(
    farm_site: FarmSite, joined: NodeWith, voices: VoicesOf
) -> None:
    node = joined(ONE_SLOT).start()
    voices(node).stop()
    job = farm_site.order()
    farm_site.wait(lambda: bool(farm_site.beats_of(job)), "the job is leased")
    assert node.stop() == 0
    (failure,) = farm_site.failed
    assert (failure.lease.id, failure.returned, failure.final) == (job.id, True, False)
    assert node.messages(f"task {job.id}: requeued")


def test_a_second_signal_requeues_jobs_at_once(
    farm_site: FarmSite, joined: NodeWith, voices: VoicesOf
) -> None:
    node = joined(LONG_GRACE).start()
    voices(node).stop()
    job = farm_site.order()
    farm_site.wait(lambda: bool(farm_site.beats_of(job)), "the job is leased")
    node.signal(signal.SIGTERM)
    farm_site.wait(lambda: farm_site.hellos[-1].shutting_down, "the node says that it shuts down")
    node.signal(signal.SIGTERM)
    assert node.exit_code(20) == 0
    assert farm_site.failed[0].returned


def test_a_node_stops_in_time_while_its_service_is_unavailable(
    farm_site: FarmSite, joined: NodeWith, voices: VoicesOf
) -> None:
    node = joined(ONE_SLOT).start()
    voices(node).stop()
    job = farm_site.order()
    farm_site.wait(lambda: bool(farm_site.beats_of(job)), "the job is leased")
    farm_site.stop()
    assert node.stop() == 0
    assert node.messages("not requeued")
    assert "Traceback" not in node.stderr


def test_a_signal_while_the_engines_start_stops_the_node(joined: NodeWith) -> None:
    node = joined(ONE_SLOT).spawn()
    node.wait(lambda: (node.data / "work").is_dir(), "the node has started")
    assert node.stop() == 0
    assert "Traceback" not in node.stderr
