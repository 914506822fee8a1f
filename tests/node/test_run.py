"""A running node: its jobs, its hello, its log and its limits."""

import io
import os
import signal
from pathlib import Path

import pytest
import soundfile

from myna.errors import CommandError
from tests.node.conftest import ONE_SLOT, NodeWith, Pair
from tests.node.local_node import LocalNode, happens, local_node
from tests.rig.compute_node import NodeMaker, VoicesOf
from tests.rig.farm_site import FarmSite, key_of
from tests.rig.processes import cpu_ticks

SECRET_TEXT = "这句话谁也不该在日志里看到。"
LONG_TEXT = "春眠不觉晓，处处闻啼鸟。" * 3000
WORKING_TICKS = 100
"""Of CPU time, 10 ms each: more than a process takes to start, and far more than an idle one."""


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


def test_the_log_has_neither_texts_nor_the_credential(pair: Pair) -> None:
    pair.site.faults["complete"].append("status:400")
    refused = pair.site.order(SECRET_TEXT)
    failure = pair.site.wait_failed(refused)
    assert (failure.final, "This is fault 400." in failure.reason) == (False, True)
    fine = pair.site.order(SECRET_TEXT)
    pair.site.wait_completed(fine)
    pair.node.wait_logged("real-time factor")
    assert SECRET_TEXT not in pair.node.stderr
    assert SECRET_TEXT[:6] not in "".join(pair.node.messages())
    assert pair.site.credential not in pair.node.stderr
    assert all(job.token not in pair.node.stderr for job in (refused, fine))


@pytest.mark.parametrize(
    ("text", "voice_id", "speed", "final"),
    [
        ("…", "zh-female-1", 1.0, True),
        ("你好。", "zh-female-1", 9.0, True),
        ("你好。", "somebody-else", 1.0, False),
    ],
    ids=["no sound", "speed", "voice"],
)
def test_a_failure_is_final_if_other_nodes_would_fail_as_well(
    pair: Pair, text: str, voice_id: str, speed: float, final: bool
) -> None:
    failure = pair.site.wait_failed(pair.site.order(text, voice_id, speed=speed))
    assert (failure.final, failure.returned) == (final, False)
    assert text not in failure.reason


def test_a_stale_job_is_dropped_without_a_failure_report(pair: Pair) -> None:
    pair.site.faults["complete"].append("status:409")
    lost = pair.site.order()
    pair.node.wait_logged(f"task {lost.id}: dropped")
    pair.site.wait_completed(pair.site.order())
    assert pair.site.failures_of(lost) == []


def test_a_job_fails_not_finally_if_two_processes_of_it_are_killed(pair: Pair, voices: VoicesOf) -> None:
    killed = pair.site.order(LONG_TEXT)
    first = speaking(pair, voices)
    os.kill(first, signal.SIGKILL)
    second = speaking(pair, voices, but=first)
    assert pair.site.failures_of(killed) == []
    os.kill(second, signal.SIGKILL)
    assert not pair.site.wait_failed(killed).final
    pair.site.wait_completed(pair.site.order())


def speaking(pair: Pair, voices: VoicesOf, but: int = 0) -> int:
    """The engine's process that works, other than this one, once it does."""
    idle: dict[int, int] = {}
    working: list[int] = []

    def works() -> bool:
        for pid in set(voices(pair.node).pids()) - {but}:
            ticks = cpu_ticks(pid)
            working.extend([pid] if ticks > idle.setdefault(pid, ticks) + WORKING_TICKS else [])
        return bool(working)

    pair.site.wait(works, "a process speaks")
    return working[0]


def test_a_cancelled_job_is_stopped_at_once(pair: Pair, voices: VoicesOf) -> None:
    speaking = list(voices(pair.node).stop())
    job = pair.site.order()
    pair.site.wait(lambda: bool(pair.site.beats_of(job)), "the job is leased")
    pair.site.cancelled.add(key_of(job))
    pair.node.wait_logged(f"task {job.id}: dropped: the service cancelled it")
    assert not set(speaking) & set(voices(pair.node).pids())
    pair.site.wait_completed(pair.site.order())
    assert pair.site.failures_of(job) == []
    pair.node.wait(lambda: pair.node.files("work") == [], "its files are removed")


def test_a_data_folder_is_locked_by_one_node(pair: Pair) -> None:
    ended = pair.node.command("run")
    assert ended.code == 1
    assert ended.stderr.startswith("myna: Another node runs from ")


def test_a_node_that_has_not_joined_exits_with_the_command_to_join(make_node: NodeMaker) -> None:
    ended = make_node().command("run")
    assert ended.code == 1
    assert "myna node join" in ended.stderr


def test_a_node_with_an_old_protocol_exits_with_the_message_of_the_service(
    farm_site: FarmSite, joined: NodeWith
) -> None:
    node = joined(ONE_SLOT)
    farm_site.protocol = 2
    ended = node.command("run")
    assert ended.code == 1
    assert "myna: The site speaks another protocol; install its version of Myna." in ended.stderr
    assert "Traceback" not in ended.stderr


def test_files_left_by_a_killed_node_are_removed(joined: NodeWith) -> None:
    node = joined(ONE_SLOT)
    (node.data / "work").mkdir()
    (node.data / "work" / "left.mp3").write_bytes(b"of an earlier job")
    node.spawn().wait(lambda: node.files("work") == [], "the file is removed")


# ---- with an engine that waits


async def test_without_beats_a_job_is_dropped_when_its_lease_expires(
    farm_site: FarmSite, local: LocalNode, caplog: pytest.LogCaptureFixture
) -> None:
    farm_site.lease_s = 0.3
    local.engine.hold()
    farm_site.faults["beat"] += ["status:500"] * 100
    job = farm_site.order()
    said = f"task {job.id}: dropped: its lease expired"
    await happens(lambda: said in caplog.messages, "the job is dropped")
    assert local.engine.cancelled == 1
    assert local.files("work") == []


async def test_beats_renew_the_lease_of_a_long_job(
    farm_site: FarmSite, local: LocalNode, caplog: pytest.LogCaptureFixture
) -> None:
    """A lease lasts as long as ten beats; each beat counts from its answer, however late it is sent."""
    farm_site.lease_s = 1.0
    local.engine.hold()
    job = farm_site.order()
    farm_site.lease_s = 60.0  # in the answers to beats
    await happens(lambda: len(farm_site.beats_of(job)) > 12, "more beats than the first lease lasts")
    local.engine.resume()
    await happens(lambda: key_of(job) in farm_site.completed, "the job is completed")
    assert not [line for line in caplog.messages if "dropped" in line]


async def test_a_node_whose_hello_is_refused_ends_with_the_message_of_the_service(
    farm_site: FarmSite, tmp_path: Path
) -> None:
    farm_site.faults["hello"].append("status:400")
    async with local_node(farm_site, tmp_path) as node:
        with pytest.raises(CommandError) as refused:
            await node.running
    assert str(refused.value) == "The service doesn't take what this node offers: This is fault 400."
    assert farm_site.hellos == []
