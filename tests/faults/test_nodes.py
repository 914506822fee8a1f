"""Compute nodes and the service as processes, while one of them is killed, stopped or disconnected in a job.

A task always ends once, with one audio or with a refund, and the audit finds nothing.
"""

import io
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import soundfile

from tests.conformance.caller import DELIVERED, REFUNDED, Caller, Stats, make_caller
from tests.faults.conftest import DATABASES
from tests.rig.calls import call
from tests.rig.compute_node import ComputeNode, NodeMaker, Voices, VoicesOf
from tests.rig.service import RunningService, Service
from tests.rig.waiting import wait_until

TEXT = "春眠不觉晓，处处闻啼鸟。"
VOICE = "zh-female-1"
ESPEAK = 'slots = 1\nshutdown_grace_s = 0.2\n[[engine]]\nkind = "espeak"\n'
UNITS = 5
LEASE_S, BEAT_S = 1.5, 0.2
LIMITS = {"MYNA_LEASE_S": str(LEASE_S), "MYNA_BEAT_S": str(BEAT_S), "MYNA_SWEEP_EVERY_S": "0.2"}
DEADLINE_S = 40


@dataclass
class Farm:
    """A service without a speech channel, a caller, and nodes on demand."""

    service: Service
    caller: Caller
    make_node: NodeMaker
    voices: VoicesOf
    names: list[str] = field(default_factory=list)
    before: set[Path] = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.audio()

    def node(self, name: str, url: str = "") -> ComputeNode:
        """Makes a node that has joined, by `url` if given."""
        token = self.service.cli("node", "enroll", name)["token"]
        self.names.append(name)
        return self.make_node(ESPEAK).join(url or self.service.root_url, token)

    def order(self) -> int:
        answer = self.caller.speak(TEXT, voice_id=VOICE)
        assert (answer.status, answer.json.get("mode")) == (200, "async"), answer
        return int(answer.json["id"])

    def task(self, number: int) -> dict[str, Any]:
        data: dict[str, Any] = self.caller.get(f"/task?id={number}").json["data"]
        return data

    def wait_status(self, number: int, status: int) -> dict[str, Any]:
        wait_until(
            lambda: self.task(number)["status"] == status, DEADLINE_S, f"status {status}", every_s=0.05
        )
        return self.task(number)

    def stall_job(self, node: ComputeNode) -> tuple[int, Voices]:
        """Stops the engines of this node and orders a task, which it leases and cannot complete."""
        speaking = self.voices(node)
        speaking.stop()
        number = self.order()
        self.wait_status(number, 1)
        return number, speaking

    def audio(self) -> set[Path]:
        """The audio files of the service."""
        return {path for path in (self.service.folder / "data" / "audio").rglob("*.*") if path.is_file()}

    def check_delivered(self, number: int) -> None:
        """Checks that the task is completed, with the only new audio, and charged once."""
        done = self.wait_status(number, 2)
        audio = call("GET", done["audio_url"])
        assert (audio.status, audio.headers["content-type"]) == (200, "audio/mpeg")
        found = soundfile.info(io.BytesIO(audio.body))
        assert found.format == "MP3"
        assert 1 < found.duration < 10
        assert len(self.audio() - self.before) == 1
        self.check_books(DELIVERED)

    def check_refunded(self, number: int) -> None:
        """Checks that the task failed, left no file and was refunded."""
        assert self.wait_status(number, 3)["audio_url"] == ""
        assert self.audio() == self.before
        self.check_books(REFUNDED)

    def check_books(self, stats: Stats) -> None:
        assert self.caller.stats() == stats
        account = self.service.cli("account", "show", self.caller.account.name)
        assert account["balance"] == UNITS - stats.cost
        assert self.service.command("audit", "--audio").code == 0


@pytest.fixture(scope="module", params=DATABASES)
def service(request: pytest.FixtureRequest, running_service: RunningService) -> Iterator[Service]:
    """A service without a speech channel. A test that kills it starts it again."""
    url = None if request.param == "sqlite" else request.getfixturevalue("postgres").fresh_database()
    with running_service(database_url=url, env=LIMITS) as made:
        yield made


@pytest.fixture
def farm(service: Service, make_node: NodeMaker, voices: VoicesOf) -> Iterator[Farm]:
    """A farm with its own nodes, which are removed after the test."""
    farm = Farm(service=service, caller=make_caller(service, units=UNITS), make_node=make_node, voices=voices)
    yield farm
    for name in farm.names:
        service.cli("node", "remove", name)


def test_the_job_of_a_killed_node_is_completed_by_another(farm: Farm) -> None:
    """The other node completes it within the length of the lease and five seconds."""
    dying = farm.node("dying").start()
    number, _ = farm.stall_job(dying)
    farm.node("living").start()
    dying.kill()
    killed = time.monotonic()
    farm.wait_status(number, 2)
    assert time.monotonic() - killed < LEASE_S + 5
    farm.check_delivered(number)


def test_the_job_of_a_node_whose_engine_hangs_is_completed_by_another_in_time(farm: Farm) -> None:
    """The node itself sends heartbeats to the end of its lease, and its engine speaks again after it."""
    farm.service.cli("settings", "set", "task_deadline_s", "20")
    try:
        hung = farm.node("hung").start()
        number, _ = farm.stall_job(hung)
    finally:
        farm.service.cli("settings", "set", "task_deadline_s", "120")
    other = farm.node("other").start()
    farm.check_delivered(number)
    hung.wait_logged(f"task {number}: dropped")
    assert other.stop() == 0
    farm.wait_status(farm.order(), 2)


def test_a_job_past_its_deadline_is_refunded_and_dropped_by_its_node(farm: Farm) -> None:
    node = farm.node("slow").start()
    farm.service.cli("settings", "set", "task_deadline_s", "3")
    try:
        number, speaking = farm.stall_job(node)
    finally:
        farm.service.cli("settings", "set", "task_deadline_s", "120")
    farm.check_refunded(number)
    node.wait_logged(f"task {number}: dropped")
    speaking.resume()
    farm.check_refunded(number)
