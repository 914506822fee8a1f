"""What a node asks once it is in: hello, lease, beat, reference, fail."""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from myna.wire.farm import PREFIX
from tests.farm.machines import POLL_S, SPOKEN, Machine, Yard, age, mp3, new_voice, polling
from tests.rig.calls import Answer, Wire, call
from tests.rig.samples import write_voice
from tests.rig.service import ServiceMaker
from tests.rig.waiting import wait_until

PROMPT_S = 15
"""Far below the length of a poll."""


@pytest.fixture(scope="session")
def key(yard: Yard) -> str:
    return yard.service.account(units=100_000).key().plain


def within(seconds: float, answer: Future[Answer]) -> Answer:
    return answer.result(timeout=seconds)


# ---- hello


def test_the_voices_of_a_hello_can_be_asked_for_and_go_with_the_next(yard: Yard, key: str) -> None:
    one, two = new_voice(), new_voice()
    machine = yard.machine(one)
    assert yard.listed(key)[one] == {
        "voice_id": one,
        "name": f"Voice {one}",
        "gender": "female",
        "language": "zh-CN",
        "source": "public",
    }
    machine.hello(two)
    assert {one, two} & yard.listed(key).keys() == {two}


def test_a_node_is_told_how_often_to_be_heard(yard: Yard) -> None:
    machine = yard.machine()
    welcome = machine.hello(new_voice())
    assert welcome == {"name": machine.name, "lease_s": 30.0, "beat_s": 10.0, "poll_max_s": 25.0}


def test_the_configuration_is_another_only_when_a_hello_changes_something(yard: Yard) -> None:
    voice = new_voice()
    machine = yard.machine(voice)

    def offered() -> int:
        return int(yard.sql("SELECT nodes_version FROM site")[0][0])

    def raised(act: Callable[[], object]) -> bool:
        before = offered()
        act()
        return offered() > before

    assert not raised(lambda: machine.hello(voice))
    assert not raised(lambda: machine.hello(voice, slots=5, version="2", chars_per_s=3))
    assert raised(lambda: machine.hello(voice, clones=["zh"]))
    assert not raised(lambda: machine.hello(voice, clones=["zh"]))
    assert raised(lambda: machine.hello(voice, new_voice(), clones=["zh"]))
    assert not raised(lambda: machine.hello(voice, new_voice(), clones=["zh"], leaving=True))
    assert raised(lambda: machine.hello(voice))
    assert not raised(lambda: machine.lease(wait_s=0))
    yard.sql("UPDATE nodes SET heard_at = now_ms() - 40001 WHERE name = $1", machine.name)
    assert not raised(lambda: machine.lease(wait_s=0))


def test_the_voices_of_a_node_that_is_silent_or_leaves_go_until_it_is_back(yard: Yard, key: str) -> None:
    voice = new_voice()
    machine = yard.machine(voice)
    silent = "UPDATE nodes SET heard_at = now_ms() - $2 WHERE name = $1"
    yard.sql(silent, machine.name, 39_000)
    assert voice in yard.listed(key)
    for back in (lambda: machine.lease(wait_s=0), lambda: machine.ask("beat", {"beats": []})):
        yard.sql(silent, machine.name, 40_001)
        wait_until(lambda: voice not in yard.listed(key), PROMPT_S, "a silent node's voice goes")
        back()
        wait_until(lambda: voice in yard.listed(key), PROMPT_S, "the voice is back with its node")
    machine.hello(voice, leaving=True)
    wait_until(lambda: voice not in yard.listed(key), PROMPT_S, "a leaving node's voice goes")
    machine.ask("beat", {"beats": []})
    assert machine.listed["state"] == "offline"
    machine.hello(voice)
    wait_until(lambda: voice in yard.listed(key), PROMPT_S, "the voice is back with its node")


def test_a_node_tells_its_speed_anew_at_each_start_if_it_tried(yard: Yard) -> None:
    machine = yard.machine(new_voice())
    for told, known in ((0, 0), (0.5, 0.5), (99, 99), (0, 99)):
        machine.hello(chars_per_s=told)
        assert machine.listed["chars_per_s"] == known


@pytest.mark.parametrize(
    "wrong",
    [
        {"slots": 0},
        {"slots": 65},
        {"clones": ["zh", "zh"]},
        {"clones": ["ZH"]},
        {"clones": ["aa"] * 51},
        {"version": "a\x00b"},
        {"version": "v" * 51},
        {"chars_per_s": -1},
        {"voices": [{"voice_id": "a", "name": "A", "gender": "female", "language": "zh"}] * 2},
        {"voices": [{"voice_id": "a", "name": "A\n", "gender": "female", "language": "zh"}]},
        {"voices": [{"voice_id": "a", "name": "", "gender": "female", "language": "zh"}]},
        {"voices": [{"voice_id": f"clone-{'0' * 32}", "name": "A", "gender": "male", "language": "zh"}]},
        {"voices": [{"voice_id": "a b", "name": "A", "gender": "female", "language": "zh"}]},
        {"voices": [{"voice_id": "a", "name": "A", "gender": "loud", "language": "zh"}]},
        {
            "voices": [
                {"voice_id": f"v{n}", "name": "A", "gender": "male", "language": "zh"} for n in range(501)
            ]
        },
    ],
    ids=lambda wrong: str(wrong)[:40],
)
def test_an_offer_that_cannot_be_is_refused_and_changes_nothing(yard: Yard, wrong: dict[str, Any]) -> None:
    voice = new_voice()
    machine = yard.machine(voice)
    answer = machine.ask("hello", {"voices": [], "clones": [], "slots": 1} | wrong)
    assert answer.status == 400, answer
    assert machine.listed["voices"] == [voice]


# ---- lease


def test_a_job_says_what_to_speak_and_nothing_of_who_pays(yard: Yard, key: str) -> None:
    voice = new_voice()
    machine = yard.machine(voice)
    task = yard.order(key, voice, "春眠不觉晓")
    (job,) = machine.lease()
    assert job.pop("token")
    assert 0 < job.pop("lease_s") <= 30
    assert job == {
        "kind": "task",
        "id": task,
        "epoch": 1,
        "text": "春眠不觉晓",
        "voice_id": voice,
        "speed": 1.0,
        "reference": None,
    }
    assert machine.listed["jobs"] == 1
    assert yard.task(key, task)["status"] == 1


def test_a_job_ordered_during_a_poll_ends_it(yard: Yard, key: str) -> None:
    voice = new_voice()
    machine = yard.machine(voice)
    with ThreadPoolExecutor(1) as pool:
        poll = polling(machine, pool)
        task = yard.order(key, voice)
        assert [job["id"] for job in within(PROMPT_S, poll).json["jobs"]] == [task]


def test_a_poll_without_a_job_is_as_long_as_was_asked(yard: Yard) -> None:
    machine = yard.machine(new_voice())
    for wait_s in (0, 1.5):
        began = time.monotonic()
        assert machine.lease(wait_s=wait_s) == []
        assert wait_s <= time.monotonic() - began < wait_s + PROMPT_S
    assert machine.ask("lease", {"jobs": 1, "wait_s": 26}).status == 400
    assert machine.ask("lease", {"jobs": 0, "wait_s": 1}).status == 400


@pytest.mark.parametrize("verb", ["disable", "remove"])
def test_an_open_poll_of_a_node_that_is_sent_away_ends_at_once(yard: Yard, verb: str) -> None:
    machine = yard.machine(new_voice())
    with ThreadPoolExecutor(1) as pool:
        poll = polling(machine, pool)
        yard.service.cli("node", verb, machine.name)
        assert within(PROMPT_S, poll).status == 401


@pytest.mark.parametrize("verb", ["disable", "remove"])
def test_what_a_node_that_is_sent_away_held_goes_to_another_at_once(yard: Yard, key: str, verb: str) -> None:
    voice = new_voice()
    machine, other = yard.machine(voice), yard.machine(voice)
    task = yard.order(key, voice)
    job = machine.take()
    yard.service.cli("node", verb, machine.name)
    taken = other.take()
    assert (taken.id, taken.epoch) == (task, 2)
    assert machine.complete(job, mp3()).status == 401
    assert other.complete(taken, mp3()).status == 200


def test_a_draining_node_ends_what_it_has_and_gets_nothing_more(yard: Yard, key: str) -> None:
    voice = new_voice()
    machine, other = yard.machine(voice), yard.machine(voice)
    yard.order(key, voice)
    job = machine.take()
    with ThreadPoolExecutor(1) as pool:
        poll = polling(machine, pool)
        yard.service.cli("node", "drain", machine.name)
        assert within(PROMPT_S, poll).json["jobs"] == []
    task = yard.order(key, voice)
    assert machine.lease(wait_s=1) == []
    assert machine.ask("beat", {"beats": [{"held": job.held}]}).json["cancel"] == []
    assert machine.complete(job, mp3()).status == 200
    assert other.take().id == task


def test_a_poll_whose_node_hung_up_takes_no_job(yard: Yard, key: str) -> None:
    voice = new_voice()
    machine, other = yard.machine(voice), yard.machine(voice)
    body, poll = b'{"jobs": 1, "wait_s": 20}', f"poll-of-{machine.name}"
    before = age(machine)
    with Wire(yard.service.root_url) as wire:
        sent = (f"Authorization: Bearer {machine.credential}", f"X-Request-Id: {poll}", "Myna-Farm: 1")
        wire.head(f"POST {PREFIX}/lease HTTP/1.1", *sent, f"Content-Length: {len(body)}")
        wire.send(body)
        wait_until(lambda: machine.listed["heard_at"] > before, PROMPT_S, "the poll has begun")
    wait_until(lambda: poll in yard.service.stderr, PROMPT_S, "the poll is given up")
    task = yard.order(key, voice)
    assert other.take().id == task


def test_open_polls_do_not_hold_the_end_of_the_process_up(make_service: ServiceMaker) -> None:
    yard = Yard(make_service(chat_url="parrot:", speech="none").start())
    machine = yard.machine(new_voice())
    with ThreadPoolExecutor(1) as pool:
        poll = polling(machine, pool)
        began = time.monotonic()
        assert yard.service.stop() == 0
        assert time.monotonic() - began < PROMPT_S
        assert within(PROMPT_S, poll).json["jobs"] == []


# ---- beat


def test_a_beat_lets_a_lease_go_on_and_names_what_to_drop(yard: Yard, key: str) -> None:
    voice = new_voice()
    machine = yard.machine(voice)
    task = yard.order(key, voice)
    job = machine.take()
    yard.sql("UPDATE tasks SET lease_until = now_ms() + 3000 WHERE id = $1", task)
    strange = job.held | {"epoch": 7}
    beats = [{"held": job.held, "progress": 0.5}, {"held": strange}]
    heard = machine.ask("beat", {"beats": beats}).json
    assert heard == {"lease_s": 30.0, "cancel": [strange]}
    ((left_ms, progress),) = yard.sql(
        "SELECT lease_until - now_ms(), progress FROM tasks WHERE id = $1", task
    )
    assert 25_000 < left_ms <= 30_000
    assert progress == 50


def test_another_node_cannot_beat_complete_or_fail_what_this_one_holds(yard: Yard, key: str) -> None:
    voice = new_voice()
    machine, other = yard.machine(voice), yard.machine(voice)
    yard.order(key, voice)
    job = machine.take()
    assert other.ask("beat", {"beats": [{"held": job.held}]}).json["cancel"] == [job.held]
    assert other.ask("fail", {"held": job.held, "reason": "no", "final": True}).status == 409
    assert other.complete(job, mp3()).status == 409
    assert machine.complete(job, mp3()).status == 200


@pytest.mark.parametrize(
    "wrong", [{"kind": "call"}, {"id": -1}, {"id": 2**63}, {"epoch": 2**64}, {"id": "1"}]
)
def test_a_job_that_cannot_be_is_refused(yard: Yard, wrong: dict[str, Any]) -> None:
    machine = yard.machine()
    held = {"kind": "task", "id": 1, "epoch": 1, "token": "x"} | wrong
    assert machine.ask("beat", {"beats": [{"held": held}]}).status == 400
    assert machine.ask("fail", {"held": held, "reason": "x"}).status == 400


# ---- fail


def test_a_final_failure_ends_the_task_and_gives_the_units_back(yard: Yard) -> None:
    voice, account = new_voice(), yard.service.account(units=5)
    key = account.key().plain
    machine = yard.machine(voice)
    task = yard.order(key, voice)
    failure = {"held": machine.take().held, "reason": "no\x00such\nvoice", "final": True}
    assert machine.ask("fail", failure).json == {"ok": 1}
    assert yard.task(key, task)["status"] == 3
    assert yard.service.cli("account", "show", account.name)["balance"] == 5
    assert machine.ask("fail", failure).status == 409


@pytest.mark.parametrize(("more", "tries"), [({}, 2), ({"handed_back": True}, 1)])
def test_a_job_that_one_node_fails_or_hands_back_is_queued_again(
    yard: Yard, key: str, more: dict[str, bool], tries: int
) -> None:
    voice = new_voice()
    machine = yard.machine(voice)
    task = yard.order(key, voice)
    first = machine.take()
    assert machine.ask("fail", {"held": first.held, "reason": "busy", **more}).status == 200
    second = machine.take()
    assert (second.id, second.epoch) == (task, 2)
    assert yard.sql("SELECT tries FROM tasks WHERE id = $1", task) == [(tries,)]
    assert machine.complete(first, mp3()).status == 409
    assert machine.complete(second, mp3()).status == 200


def test_a_voice_that_failed_without_a_word_has_a_reason_all_the_same(yard: Yard, tmp_path: Path) -> None:
    machine = yard.machine(clones=["vv"])
    voice = clone(yard, "vv", tmp_path)
    failure = {"held": machine.take().held, "reason": "\n", "final": True}
    assert machine.ask("fail", failure).status == 200
    ((status, reason),) = yard.sql("SELECT status, reason FROM clones WHERE voice_id = $1", voice)
    assert (status, reason) == (3, "the node gave no reason")


# ---- reference


def test_a_reference_is_for_the_node_that_holds_a_job_in_that_voice(yard: Yard, tmp_path: Path) -> None:
    machine, other = yard.machine(clones=["xx"]), yard.machine(clones=["yy"])
    clone(yard, "xx", tmp_path)
    ((name, sha256),) = yard.sql("SELECT sample, sample_sha256 FROM clones WHERE language = 'xx'")
    sample = (yard.service.folder / "data" / "samples" / name[:2] / name).read_bytes()
    path = f"reference?sha256={sha256.hex()}"
    assert get(machine, path).status == 404
    (job,) = machine.lease()
    assert job["kind"] == "clone"
    assert job["reference"] == {
        "sha256": sha256.hex(),
        "size_bytes": len(sample),
        "transcript": "what is said",
        "language": "xx",
    }
    answer = get(machine, path)
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, sample, "audio/wav")
    assert get(other, path).status == 404
    held = {name: job[name] for name in ("kind", "id", "epoch", "token")}
    assert machine.ask("fail", {"held": held, "reason": "this can't be cloned", "final": True}).status == 200
    assert get(machine, path).status == 404


def test_the_preview_of_a_new_voice_is_taken_like_any_audio(yard: Yard, tmp_path: Path) -> None:
    machine = yard.machine(clones=["ww"])
    voice = clone(yard, "ww", tmp_path)
    job = machine.take()
    assert (job.kind, machine.complete(job, mp3()).status, machine.complete(job, mp3()).status) == (
        "clone",
        200,
        200,
    )
    ((status, preview),) = yard.sql("SELECT status, preview FROM clones WHERE voice_id = $1", voice)
    assert status == 2
    assert call("GET", f"{yard.service.root_url}/uploads/{preview}").body == mp3()


@pytest.mark.parametrize("query", ["", "?sha256=", "?sha256=../../etc/passwd", "?sha256=" + "G" * 64])
def test_a_reference_goes_by_its_hash_alone(yard: Yard, query: str) -> None:
    assert get(yard.machine(), f"reference{query}").status == 400


def test_a_node_is_told_at_once_to_forget_what_no_voice_is_made_of(yard: Yard, tmp_path: Path) -> None:
    machine = yard.machine(new_voice())
    clone(yard, "zz", tmp_path)
    ((sha256,),) = yard.sql("SELECT sample_sha256 FROM clones WHERE language = 'zz'")
    gone = "ab" * 32
    began = time.monotonic()
    asked = {"jobs": 1, "wait_s": POLL_S, "references": [sha256.hex(), gone]}
    assert machine.ask("lease", asked).json == {"jobs": [], "forget": [gone]}
    assert time.monotonic() - began < PROMPT_S


def get(machine: Machine, path: str) -> Answer:
    url = f"{machine.service.root_url}{PREFIX}/{path}"
    return call("GET", url, key=machine.credential, headers=SPOKEN)


def clone(yard: Yard, language: str, folder: Path) -> str:
    """Orders a voice from a sample in this language; its id."""
    sample = write_voice(folder / "sample.wav", seconds=4)
    ordered = yard.service.cli(
        *("voice", "clone", yard.service.account().name, "--name", "Me", "--language", language),
        *("--sample", str(sample), "--transcript", "what is said", "--consent"),
    )
    return str(ordered["voice_id"])
