"""A node that is told to end: no more jobs, what can be finished is, the rest is handed back."""

import signal

import pytest

from tests.node.conftest import ONE_SLOT, NodeWith
from tests.rig.compute_node import VoicesOf
from tests.rig.farm_site import FarmSite

PATIENT = 'slots = 1\nshutdown_grace_s = 60\n[[engine]]\nkind = "espeak"\n'


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_idle_node_says_goodbye_and_ends_with_0(
    farm_site: FarmSite, joined: NodeWith, number: signal.Signals
) -> None:
    node = joined(ONE_SLOT).start()
    node.signal(number)
    assert node.exit_code() == 0
    assert [hello.leaving for hello in farm_site.hellos] == [False, True]


def test_what_is_held_is_finished_within_the_grace_and_nothing_more_is_taken(
    farm_site: FarmSite, joined: NodeWith, voices: VoicesOf
) -> None:
    node = joined(PATIENT).start()
    speaking = voices(node)
    speaking.stop()
    job = farm_site.order()
    farm_site.wait(lambda: bool(farm_site.beats_of(job)), "the job is held")
    node.signal(signal.SIGTERM)
    farm_site.wait(lambda: farm_site.hellos[-1].leaving, "the node says goodbye")
    heard = len(farm_site.beats_of(job))
    left = farm_site.order()
    farm_site.wait(lambda: len(farm_site.beats_of(job)) > heard + 3, "beats go on")
    speaking.go_on()
    assert node.exit_code() == 0
    assert farm_site.wait_completed(job)
    assert ("task", left.id, 1) not in farm_site.completed
    assert farm_site.failed == []


def test_what_is_not_finished_within_the_grace_is_handed_back(
    farm_site: FarmSite, joined: NodeWith, voices: VoicesOf
) -> None:
    node = joined(ONE_SLOT).start()
    voices(node).stop()
    job = farm_site.order()
    farm_site.wait(lambda: bool(farm_site.beats_of(job)), "the job is held")
    assert node.stop() == 0
    (failure,) = farm_site.failed
    assert (failure.held.id, failure.handed_back, failure.final) == (job.id, True, False)
    assert node.messages(f"task {job.id}: requeued")


def test_a_second_signal_hands_back_at_once(farm_site: FarmSite, joined: NodeWith, voices: VoicesOf) -> None:
    node = joined(PATIENT).start()
    voices(node).stop()
    job = farm_site.order()
    farm_site.wait(lambda: bool(farm_site.beats_of(job)), "the job is held")
    node.signal(signal.SIGTERM)
    farm_site.wait(lambda: farm_site.hellos[-1].leaving, "the node says goodbye")
    node.signal(signal.SIGTERM)
    assert node.exit_code(20) == 0
    assert farm_site.failed[0].handed_back


def test_a_node_ends_in_time_while_its_site_is_away(
    farm_site: FarmSite, joined: NodeWith, voices: VoicesOf
) -> None:
    node = joined(ONE_SLOT).start()
    voices(node).stop()
    job = farm_site.order()
    farm_site.wait(lambda: bool(farm_site.beats_of(job)), "the job is held")
    farm_site.stop()
    assert node.stop() == 0
    assert node.messages("not requeued")
    assert "Traceback" not in node.stderr


def test_a_signal_while_the_engines_start_ends_the_node(joined: NodeWith) -> None:
    node = joined(ONE_SLOT).spawn()
    node.wait(lambda: (node.data / "work").is_dir(), "the node is on its way")
    assert node.stop() == 0
    assert "Traceback" not in node.stderr
