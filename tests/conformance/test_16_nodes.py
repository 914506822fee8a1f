"""Speech that only a compute node can do, as its account holder sees it: over /tts, /task, /voices and chat.

The node is a program of the test that speaks the real protocol; the site has no voice of its own.
"""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.asking import DELIVERED, REFUNDED, UNCHARGED, Caller, Stats, check_error
from tests.conformance.conftest import make_caller
from tests.farm.machines import Machine, Yard, mp3, new_voice
from tests.rig.calls import Answer, call
from tests.rig.commands import CommandLine
from tests.rig.postgres import Postgres
from tests.rig.samples import write_voice
from tests.rig.service import Service
from tests.rig.waiting import wait_until

PATIENCE_S = 20
TASK_DEADLINE_S = 2
CHAT_WAIT_S = 2
QUICK = {"MYNA_SWEEP_EVERY_S": "0.1", "MYNA_CHAT_SPEECH_WAIT_S": str(CHAT_WAIT_S)}


@pytest.fixture(scope="module")
def yard(
    new_database: Callable[[], str | None],
    commands: CommandLine,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Yard]:
    """A service whose chats wait for a node no longer than CHAT_WAIT_S."""
    folder = tmp_path_factory.mktemp("nodes")
    service = Service(
        folder, commands, database_url=new_database(), chat_url="parrot:", speech="none", env=QUICK
    ).start()
    yield Yard(service)
    assert service.command("audit", "--audio", "--json").code == 0
    assert service.stop() == 0


@pytest.fixture
def caller(yard: Yard) -> Caller:
    return make_caller(yard.service)


@pytest.fixture
def voice() -> str:
    return new_voice()


@pytest.fixture
def machine(yard: Yard, voice: str) -> Iterator[Machine]:
    """A node online that has the voice; its voice leaves with the test."""
    machine = yard.machine(voice)
    yield machine
    yard.service.cli("node", "remove", machine.name)


@pytest.fixture
def meanwhile() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def speak(machine: Machine, audio: bytes = mp3()) -> None:
    """Does the next job."""
    answer = machine.complete(machine.take(), audio)
    assert answer.status == 200, answer


def the_task(caller: Caller, task_id: int) -> dict[str, object]:
    return dict(caller.get(f"/task?id={task_id}").json["data"])


def test_without_a_node_online_speech_is_a_503_that_costs_nothing(yard: Yard, caller: Caller) -> None:
    check_error(caller.speak("你好"), 503)
    check_error(caller.chat("请朗读：你好"), 503)
    assert caller.get("/voices").json == {"object": "list", "data": [], "default": ""}
    assert caller.stats() == UNCHARGED


def test_an_order_is_queued_then_processing_then_completed(
    caller: Caller, machine: Machine, voice: str
) -> None:
    text = "你好，世界"
    ordered = caller.speak(text, voice_id=voice)
    assert ordered.status == 200
    assert ordered.json.keys() == {"ok", "mode", "id", "tip", "cost"}
    assert (ordered.json["ok"], ordered.json["mode"], ordered.json["cost"]) == (1, "async", 1)
    assert "GET /task" in ordered.json["tip"]
    task_id = ordered.json["id"]
    queued = {"id": task_id, "status": 0, "status_text": "排队中", "text": text, "chars": 5, "audio_url": ""}
    assert the_task(caller, task_id) == queued
    job = machine.take()
    assert the_task(caller, task_id) == queued | {"status": 1, "status_text": "处理中"}
    machine.ask("beat", {"beats": [{"held": job.held, "progress": 0.4}]})
    assert the_task(caller, task_id)["status_text"] == "处理中 40%"
    audio = mp3(0.7)
    assert machine.complete(job, audio).status == 200
    done = the_task(caller, task_id)
    assert (done["status"], done["status_text"]) == (2, "已完成")
    assert call("GET", str(done["audio_url"])).body == audio
    record = caller.get("/records").json["data"][0]
    assert {name: record[name] for name in done} == done
    assert caller.stats() == DELIVERED


def test_a_node_sees_the_text_the_voice_and_the_speed_and_nothing_of_the_account(
    caller: Caller, machine: Machine, voice: str
) -> None:
    caller.speak("你好", voice_id=voice, speed="1.5")
    (job,) = machine.lease()
    assert job.keys() == {
        "kind", "id", "epoch", "token", "lease_s", "text", "voice_id", "speed", "reference"
    }  # fmt: skip
    assert (job["text"], job["voice_id"], job["speed"], job["reference"]) == ("你好", voice, 1.5, None)


def test_a_task_that_failed_for_good_is_refunded(caller: Caller, machine: Machine, voice: str) -> None:
    task_id = caller.speak("你好", voice_id=voice).json["id"]
    failure = {"held": machine.take().held, "reason": "no such sound", "final": True}
    assert machine.ask("fail", failure).status == 200
    failed = the_task(caller, task_id)
    said = "失败：无法合成，已退还所扣点数"  # and not in the node's words
    assert (failed["status"], failed["status_text"], failed["audio_url"]) == (3, said, "")
    assert caller.stats() == REFUNDED


def test_a_task_nobody_does_before_its_deadline_fails_and_is_refunded(
    yard: Yard, caller: Caller, machine: Machine, voice: str
) -> None:
    yard.service.cli("settings", "set", "task_deadline_s", str(TASK_DEADLINE_S))
    try:
        task_id = caller.speak("你好", voice_id=voice).json["id"]
    finally:
        yard.service.cli("settings", "set", "task_deadline_s", "120")
    wait_until(lambda: the_task(caller, task_id)["status"] == 3, PATIENCE_S, "the deadline has passed")
    assert caller.stats() == REFUNDED
    assert machine.lease(wait_s=0) == []


def test_a_voice_whose_only_node_left_is_a_503_and_an_unknown_one_a_400(
    yard: Yard, caller: Caller, machine: Machine, voice: str
) -> None:
    assert voice in yard.listed(caller.key.plain)
    machine.hello(voice, leaving=True)
    assert voice not in yard.listed(caller.key.plain)
    check_error(caller.speak("你好", voice_id=voice), 503)
    yard.machine(new_voice())  # somebody can speak, but not this
    check_error(caller.speak("你好", voice_id=voice), 503)
    check_error(caller.speak("你好", voice_id=new_voice()), 400)
    assert caller.stats() == UNCHARGED


def test_a_copy_of_an_order_gets_the_same_task_and_pays_nothing(
    caller: Caller, machine: Machine, voice: str
) -> None:
    named = {"Idempotency-Key": "the order"}
    first = caller.speak("你好", named, voice_id=voice)
    assert caller.speak("你好", named, voice_id=voice).json == first.json
    speak(machine)
    assert caller.speak("你好", named, voice_id=voice).json == first.json
    assert caller.stats() == DELIVERED


def test_a_copy_of_an_order_that_failed_is_a_new_order(caller: Caller, machine: Machine, voice: str) -> None:
    named = {"Idempotency-Key": "the order"}
    first = caller.speak("你好", named, voice_id=voice)
    machine.ask("fail", {"held": machine.take().held, "reason": "no", "final": True})
    second = caller.speak("你好", named, voice_id=voice)
    assert second.json["id"] > first.json["id"]
    speak(machine)
    assert caller.stats() == Stats(calls=2, cost=1, ok_calls=1)


def test_a_chat_waits_for_the_node_and_answers_with_the_address(
    yard: Yard, caller: Caller, machine: Machine, voice: str, meanwhile: ThreadPoolExecutor
) -> None:
    only(yard, voice)
    named = {"Idempotency-Key": "the chat"}
    asked = [meanwhile.submit(caller.chat, "请朗读：春眠不觉晓", named) for _ in range(2)]
    audio = mp3(0.6)
    speak(machine, audio)
    first, copy = (answered(future) for future in asked)
    assert first.json == copy.json
    url = first.json["choices"][0]["message"]["content"]
    assert re.fullmatch(r"http://[^/]+/uploads/[0-9a-f]{32}\.mp3", url)
    assert first.json["audio"] == {
        "url": url,
        "task_id": first.json["audio"]["task_id"],
        "mode": "async",
        "voice_id": voice,
        "text": "春眠不觉晓",
        "chars": 5,
    }
    assert call("GET", url).body == audio
    assert caller.stats() == DELIVERED


def test_a_chat_whose_speech_is_not_done_in_time_is_a_500_and_refunded(
    yard: Yard, caller: Caller, machine: Machine, voice: str
) -> None:
    only(yard, voice)
    check_error(caller.chat("请朗读：春眠不觉晓"), 500)
    assert machine.lease(wait_s=0) == []
    assert caller.get("/records").json["data"][0]["status"] == 3
    assert caller.stats() == REFUNDED


def test_a_clone_is_its_accounts_alone(yard: Yard, caller: Caller, tmp_path: Path) -> None:
    cloner = yard.machine(clones=["zh"])
    stranger = make_caller(yard.service)
    sample = write_voice(tmp_path / "sample.wav")
    made = yard.service.cli(
        "voice", "clone", caller.account.name, "--name", "我", "--language", "zh", "--sample", str(sample),
        "--transcript", "你好", "--consent",
    )  # fmt: skip
    own = made["voice_id"]
    check_error(caller.speak("你好", voice_id=own), 400)  # not cloned yet
    speak(cloner)
    assert yard.listed(caller.key.plain)[own] == {
        "voice_id": own, "name": "我", "gender": "neutral", "language": "zh", "source": "clone"
    }  # fmt: skip
    assert own not in yard.listed(stranger.key.plain)
    foreign, unknown = (stranger.speak("你好", voice_id=other) for other in (own, "clone-" + "0" * 32))
    check_error(foreign, 400)
    assert foreign.body == unknown.body
    ordered = caller.speak("你好", voice_id=own)
    (job,) = cloner.lease()
    assert job["reference"]["transcript"] == "你好"
    yard.service.cli("voice", "delete", own)
    assert the_task(caller, ordered.json["id"])["status"] == 3
    assert caller.stats() == REFUNDED
    check_error(caller.speak("你好", voice_id=own), 400)
    yard.service.cli("node", "remove", cloner.name)


def test_more_than_the_nodes_can_speak_in_time_is_refused_before_it_costs(
    yard: Yard, caller: Caller, machine: Machine, voice: str
) -> None:
    machine.hello(voice, slots=1, chars_per_s=10)  # 1,200 characters in the 120 s that a task may take
    text = "一" * 500
    tasks = [caller.speak(text, voice_id=voice) for _ in range(2)]
    assert [answer.status for answer in tasks] == [200, 200]
    check_error(caller.speak(text, voice_id=voice), 503)
    other = make_caller(yard.service)
    assert other.speak("一" * 50, voice_id=voice).status == 200  # its first one is the next but one
    assert caller.stats().calls == 2


def test_what_one_process_orders_a_node_at_another_one_gets_at_once(
    postgres: Postgres, commands: CommandLine, tmp_path_factory: pytest.TempPathFactory, voice: str
) -> None:
    url, data = postgres.fresh_database(), tmp_path_factory.mktemp("pair")
    first, second = (
        Service(
            tmp_path_factory.mktemp("process"), commands, database_url=url, chat_url="parrot:", speech="none",
            env=QUICK | {"MYNA_DATA": str(data)},
        ).start()
        for _ in range(2)
    )  # fmt: skip
    caller = make_caller(first)
    machine = replace(Yard(first).machine(voice), service=second)
    with ThreadPoolExecutor(2) as pool:
        taken = pool.submit(machine.take)
        ordered = caller.speak("你好", voice_id=voice)
        job = taken.result(PATIENCE_S)
    assert job.id == ordered.json["id"]
    assert machine.complete(job, mp3()).status == 200
    assert the_task(caller, job.id)["status"] == 2
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(caller.chat, "请朗读：春眠不觉晓")
        speak(machine)
        answered(asked)
    assert first.command("audit", "--audio", "--json").code == 0
    assert (first.stop(), second.stop()) == (0, 0)


def only(yard: Yard, voice: str) -> None:
    """Puts the voice first in the list: a chat takes that one."""
    yard.service.cli("voice", "order", voice)


def answered(future: "Future[Answer]") -> Answer:
    answer = future.result(PATIENCE_S)
    assert answer.status == 200, answer
    return answer
