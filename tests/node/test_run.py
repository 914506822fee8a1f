"""A running node: its jobs, its hello, its log and its limits."""

import io
import os
import signal
from collections.abc import Callable

import soundfile

from myna.engines.espeak.engine import VOICES
from tests.node.conftest import ONE_SLOT, NodeWith, Pair
from tests.rig.compute_node import ComputeNode, VoicesOf
from tests.rig.farm_site import FarmSite

SECRET_TEXT = "这句话谁也不该在日志里看到。"
LONG_TEXT = "春眠不觉晓，处处闻啼鸟。" * 3000


def seconds_of(mp3: bytes) -> float:
    found = soundfile.info(io.BytesIO(mp3))
    assert found.format == "MP3"
    return float(found.duration)


def test_a_job_is_spoken_and_uploaded_as_an_mp3(pair: Pair) -> None:
    job = pair.site.order("今天是2026年5月1日，天气很好。", "zh-male-1")
    assert 2 < seconds_of(pair.site.wait_completed(job)) < 10
    pair.node.wait_logged(f"task {job.id}: 18 characters")
    pair.node.wait(lambda: pair.node.files("work") == [], "its files are removed")


def test_speed_and_voice_are_those_of_the_job(pair: Pair) -> None:
    text = "The weather is lovely today."
    jobs = [pair.site.order(text, "en-gb-male-1", speed=speed) for speed in (1.0, 2.0)]
    plain, fast = (seconds_of(pair.site.wait_completed(job)) for job in jobs)
    assert 0.4 < fast / plain < 0.65


def test_hello_has_the_capabilities_of_the_node(pair: Pair) -> None:
    hello = pair.site.hellos[-1]
    assert [voice.voice_id for voice in hello.voices] == [voice.voice_id for voice in VOICES]
    assert (hello.slots, hello.clones, hello.shutting_down) == (1, [], False)
    assert hello.chars_per_s > 0
    assert hello.version


def test_only_the_voices_that_node_toml_names_are_offered(farm_site: FarmSite, joined: NodeWith) -> None:
    node = joined('slots = 1\n[[engine]]\nkind = "espeak"\nvoices = ["yue-male-1", "en-us-male-1"]\n').start()
    (hello,) = farm_site.hellos
    assert [voice.voice_id for voice in hello.voices] == ["yue-male-1", "en-us-male-1"]
    assert node.wait_logged("connected to").startswith(f"connected to {farm_site.url} as box: 2 voices")


def test_as_many_jobs_run_concurrently_as_there_are_slots(
    farm_site: FarmSite, joined: NodeWith, voices: VoicesOf
) -> None:
    stopped = voices(joined("slots = 2\n").start())
    stopped.stop()
    jobs = [farm_site.order()]
    farm_site.wait(lambda: len(farm_site.leases) == 2, "another job is requested")
    jobs += [farm_site.order(), farm_site.order()]
    farm_site.wait(lambda: all(farm_site.beats_of(job) for job in jobs[:2]), "two jobs are leased")
    assert [lease.jobs for lease in farm_site.leases] == [2, 1]
    assert not farm_site.beats_of(jobs[2])
    stopped.resume()
    for job in jobs:
        assert seconds_of(farm_site.wait_completed(job)) > 0


def test_the_log_has_neither_texts_nor_the_credential(pair: Pair) -> None:
    pair.site.faults["complete"].append("status:400")
    refused = pair.site.order(SECRET_TEXT)
    pair.site.wait_failed(refused)
    fine = pair.site.order(SECRET_TEXT)
    pair.site.wait_completed(fine)
    pair.node.wait_logged("real-time factor")
    assert SECRET_TEXT not in pair.node.stderr
    assert SECRET_TEXT[:6] not in "".join(pair.node.messages())
    assert pair.site.credential not in pair.node.stderr
    assert all(job.token not in pair.node.stderr for job in (refused, fine))


def test_a_text_without_sound_is_a_final_failure(pair: Pair) -> None:
    failure = pair.site.wait_failed(pair.site.order("…"))
    assert (failure.final, failure.returned) == (True, False)
    assert "…" not in failure.reason


def test_an_unsupported_speed_is_a_final_failure(pair: Pair) -> None:
    assert pair.site.wait_failed(pair.site.order(speed=9.0)).final


def test_a_missing_voice_is_no_final_failure(pair: Pair) -> None:
    assert not pair.site.wait_failed(pair.site.order(voice_id="somebody-else")).final


def test_audio_refused_by_the_service_is_no_final_failure(pair: Pair) -> None:
    pair.site.faults["complete"].append("status:400")
    failure = pair.site.wait_failed(pair.site.order())
    assert not failure.final
    assert "This is fault 400." in failure.reason


def test_a_stale_job_is_dropped_without_a_failure_report(pair: Pair) -> None:
    pair.site.faults["complete"].append("status:409")
    lost = pair.site.order()
    pair.node.wait_logged(f"task {lost.id}: dropped")
    pair.site.wait_completed(pair.site.order())
    assert pair.site.failures_of(lost) == []


def test_a_killed_engine_process_fails_one_job_not_finally(
    farm_site: FarmSite, joined: NodeWith, voices: VoicesOf
) -> None:
    node = joined(ONE_SLOT).start()
    killed = farm_site.order(LONG_TEXT)
    farm_site.wait(lambda: len(farm_site.beats_of(killed)) > 2, "the job is under way")
    for pid in voices(node).pids():
        os.kill(pid, signal.SIGKILL)
    assert not farm_site.wait_failed(killed).final
    farm_site.wait_completed(farm_site.order())


def test_a_cancelled_job_is_stopped_at_once(farm_site: FarmSite, joined: NodeWith, voices: VoicesOf) -> None:
    node = joined(ONE_SLOT).start()
    speaking = voices(node).stop()
    job = farm_site.order()
    farm_site.wait(lambda: bool(farm_site.beats_of(job)), "the job is leased")
    farm_site.cancelled.add(("task", job.id, job.epoch))
    node.wait_logged(f"task {job.id}: dropped: the service cancelled it")
    assert not set(speaking) & set(voices(node).pids())
    farm_site.wait_completed(farm_site.order())
    assert farm_site.failed == []
    node.wait(lambda: node.files("work") == [], "its files are removed")


def test_without_beats_a_job_is_dropped_when_its_lease_expires(
    farm_site: FarmSite, joined: NodeWith, voices: VoicesOf
) -> None:
    farm_site.lease_s = 1.0
    node = joined(ONE_SLOT).start()
    voices(node).stop()
    job = farm_site.order()
    farm_site.faults["beat"] += ["status:500"] * 100
    node.wait_logged(f"task {job.id}: dropped: its lease expired")
    farm_site.faults["beat"].clear()
    farm_site.lease_s = 30.0
    farm_site.wait_completed(farm_site.order())


def test_beats_renew_the_lease_of_a_long_job(farm_site: FarmSite, joined: NodeWith, voices: VoicesOf) -> None:
    farm_site.lease_s = 3.0
    node = joined(ONE_SLOT).start()
    speaking = voices(node)
    speaking.stop()
    job = farm_site.order()
    farm_site.wait(lambda: len(farm_site.beats_of(job)) > 40, "more beats than a lease lasts")
    speaking.resume()
    farm_site.wait_completed(job)
    assert node.messages("dropped") == []


def test_a_data_folder_is_locked_by_one_node(pair: Pair) -> None:
    ended = pair.node.command("run")
    assert ended.code == 1
    assert ended.stderr.startswith("myna: Another node runs from ")


def test_a_node_that_has_not_joined_exits_with_the_command_to_join(
    joined: NodeWith, make_node: Callable[[], ComputeNode]
) -> None:
    ended = make_node().command("run")
    assert ended.code == 1
    assert "myna node join" in ended.stderr


def test_a_node_with_an_old_protocol_exits_with_the_message_of_the_service(
    farm_site: FarmSite, joined: NodeWith
) -> None:
    node = joined(ONE_SLOT).start()
    farm_site.protocol = 2
    farm_site.order()
    assert node.exit_code() == 1
    assert "myna: The site speaks another protocol; install its version of Myna." in node.stderr
    assert "Traceback" not in node.stderr


def test_a_node_whose_hello_is_refused_exits_with_the_message_of_the_service(
    farm_site: FarmSite, joined: NodeWith
) -> None:
    node = joined(ONE_SLOT)
    farm_site.faults["hello"].append("status:400")
    ended = node.command("run")
    assert ended.code == 1
    last = ended.stderr.splitlines()[-1]
    assert last == "myna: The service doesn't take what this node offers: This is fault 400."
    assert "Traceback" not in ended.stderr
    assert farm_site.hellos == []


def test_files_left_by_a_killed_node_are_removed(
    farm_site: FarmSite, joined: NodeWith, voices: VoicesOf
) -> None:
    node = joined(ONE_SLOT).start()
    (node.data / "work" / "left.mp3").write_bytes(b"of an earlier job")
    node.signal(signal.SIGKILL)
    assert node.exit_code() == -signal.SIGKILL
    node.start()
    assert node.files("work") == []
