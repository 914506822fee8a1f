"""The audio of a finished job on its way from the node into the audio store."""

import pytest

from myna.wire.farm import AUDIO_MAX_BYTES, JOB_HEADER, PREFIX, SHA256_HEADER
from tests.farm.machines import Job, Machine, Yard, mp3, new_voice
from tests.rig.calls import Wire, call
from tests.rig.waiting import wait_until

PROMPT_S = 30


@pytest.fixture(scope="session")
def key(yard: Yard) -> str:
    return yard.service.account(units=100_000).key().plain


@pytest.fixture
def held(yard: Yard, key: str) -> tuple[Machine, Job]:
    """A machine and the job it holds."""
    voice = new_voice()
    machine = yard.machine(voice)
    task = yard.order(key, voice)
    job = machine.take()
    assert job.id == task
    return machine, job


def test_the_audio_is_what_the_node_sent_and_the_call_is_kept(yard: Yard) -> None:
    account, voice = yard.service.account(units=1), new_voice()
    key = account.key().plain
    machine = yard.machine(voice)
    task = yard.order(key, voice)
    answer = machine.complete(machine.take(), mp3())
    assert (answer.status, answer.json) == (200, {"ok": 1})
    shown = yard.task(key, task)
    assert shown["status"] == 2
    assert call("GET", shown["audio_url"]).body == mp3()
    assert call("GET", f"{yard.service.base_url}/me", key=key).json["stats"]["ok_calls"] == 1
    assert yard.service.cli("account", "show", account.name)["balance"] == 0
    assert machine.listed["chars_per_s"] > 0


def test_the_same_again_is_fine_and_leaves_one_file(yard: Yard, key: str, held: tuple[Machine, Job]) -> None:
    machine, job = held
    before = yard.audio()
    assert machine.complete(job, mp3()).status == 200
    kept = yard.audio() - before
    assert [path.suffix for path in kept] == [".mp3"]
    assert machine.complete(job, mp3()).json == {"ok": 1}
    assert yard.audio() - before == kept
    assert call("GET", yard.task(key, job.id)["audio_url"]).body == mp3()


def test_other_audio_for_a_completed_job_is_stale(yard: Yard, key: str, held: tuple[Machine, Job]) -> None:
    machine, job = held
    machine.complete(job, mp3())
    before = yard.audio()
    answer = machine.complete(job, mp3(hertz=660))
    assert (answer.status, answer.json["error"]["type"]) == (409, "conflict_error")
    assert yard.audio() == before
    assert call("GET", yard.task(key, job.id)["audio_url"]).body == mp3()


def test_who_lost_the_job_is_refused_before_a_byte_of_audio_is_sent(
    yard: Yard, held: tuple[Machine, Job]
) -> None:
    machine, job = held
    yard.sql("UPDATE tasks SET lease_until = now_ms() - 1 WHERE id = $1", job.id)
    before = yard.audio()
    with Wire(yard.service.root_url, deadline_s=PROMPT_S) as wire:
        machine.begin(wire, job, mp3(), size=AUDIO_MAX_BYTES)
        answer = wire.answer()
        assert (answer.status, answer.headers["connection"]) == (409, "close")
    again = machine.take()
    assert (again.id, again.epoch) == (job.id, 2)
    assert machine.complete(job, mp3()).status == 409
    assert yard.audio() == before
    assert machine.complete(again, mp3()).status == 200


def test_who_loses_the_job_during_the_upload_is_stale_and_the_file_goes(
    yard: Yard, held: tuple[Machine, Job]
) -> None:
    machine, job = held
    audio, before = mp3(seconds=60), yard.audio()
    with Wire(yard.service.root_url, deadline_s=PROMPT_S) as wire:
        machine.begin(wire, job, audio)
        wire.send(audio[:1000])
        wait_until(lambda: len(yard.audio() - before) == 1, PROMPT_S, "the upload has begun")
        yard.sql("UPDATE tasks SET lease_until = now_ms() - 1 WHERE id = $1", job.id)
        wire.send(audio[1000:])
        assert wire.answer().status == 409
    assert yard.audio() == before


@pytest.mark.parametrize(
    ("audio", "headers", "said"),
    [
        (mp3(), {SHA256_HEADER: "0" * 64}, "myna-sha256"),
        (b"this is no mp3 " * 1000, {}, "no audio"),
        (b"\xff\xfb\x90\x00" + bytes(5000), {}, "no audio"),
        (mp3()[:3000] + bytes(100_000), {}, "no audio"),
        (mp3(), {SHA256_HEADER: "x"}, "myna-sha256"),
        (mp3(), {SHA256_HEADER: ""}, "myna-sha256"),
        (mp3(), {JOB_HEADER: "task 1 1"}, "myna-job"),
        (mp3(), {JOB_HEADER: "song 1 1 x"}, "myna-job"),
        (mp3(), {JOB_HEADER: "task 99999999999999999999 1 x"}, "myna-job"),
        (mp3(), {JOB_HEADER: "task 1 1 x y"}, "myna-job"),
        (b"", {}, "Content-Length"),
    ],
    ids=["other hash", "noise", "a header", "half", "bad hash", "no hash", *["bad job"] * 4, "nothing"],
)
def test_what_is_wrong_is_refused_and_the_job_stays_the_nodes(
    yard: Yard, held: tuple[Machine, Job], audio: bytes, headers: dict[str, str], said: str
) -> None:
    machine, job = held
    before = yard.audio()
    answer = machine.complete(job, audio, **headers)
    assert answer.status == 400, answer
    assert said in answer.json["error"]["message"]
    assert yard.audio() == before
    assert machine.complete(job, mp3()).status == 200


def test_a_body_that_is_cut_off_leaves_nothing_and_the_job_stays_the_nodes(
    yard: Yard, held: tuple[Machine, Job]
) -> None:
    machine, job = held
    before = yard.audio()
    with Wire(yard.service.root_url) as wire:
        machine.begin(wire, job, mp3())
        wire.send(mp3()[:-1])
        wait_until(lambda: len(yard.audio() - before) == 1, PROMPT_S, "the upload has begun")
    wait_until(lambda: yard.audio() == before, PROMPT_S, "the part is removed")
    assert machine.complete(job, mp3()).status == 200


def test_a_body_without_a_size_or_over_the_limit_is_refused_unread(
    yard: Yard, held: tuple[Machine, Job]
) -> None:
    machine, job = held
    before = yard.audio()
    headers = machine.announcing(job, mp3())
    chunked = call("POST", yard.url("complete"), key=machine.credential, body=iter([mp3()]), headers=headers)
    assert chunked.status == 400
    with Wire(yard.service.root_url, deadline_s=PROMPT_S) as wire:
        machine.begin(wire, job, mp3(), size=AUDIO_MAX_BYTES + 1)
        assert wire.answer().status == 413
    assert yard.audio() == before


def test_the_body_is_not_asked_of_who_waits_to_be_asked_and_is_refused(
    yard: Yard, held: tuple[Machine, Job]
) -> None:
    machine, job = held
    with Wire(yard.service.root_url, deadline_s=PROMPT_S) as wire:
        headers = machine.announcing(job, mp3()) | {
            "Authorization": "Bearer mynanode_" + "0" * 40,
            "Content-Length": "1000000",
            "Expect": "100-continue",
        }
        wire.head(
            f"POST {PREFIX}/complete HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())
        )
        assert wire.answer().status == 401


def test_a_long_upload_holds_nobody_up(yard: Yard, key: str, held: tuple[Machine, Job]) -> None:
    machine, job = held
    audio = mp3(seconds=60)
    with Wire(yard.service.root_url) as wire:
        machine.begin(wire, job, audio)
        wire.send(audio[:-1])
        voice = new_voice()
        other = yard.machine(voice)
        yard.order(key, voice)
        assert other.complete(other.take(), mp3()).status == 200
        wire.send(audio[-1:])
        assert wire.answer().status == 200
    assert call("GET", yard.task(key, job.id)["audio_url"]).body == audio


def test_a_job_has_one_upload_at_a_time(yard: Yard, key: str, held: tuple[Machine, Job]) -> None:
    machine, job = held
    before = yard.audio()
    with Wire(yard.service.root_url) as wire:
        machine.begin(wire, job, mp3())
        wire.send(mp3()[:100])
        wait_until(lambda: yard.audio() != before, PROMPT_S, "the first upload has begun")
        second = machine.complete(job, mp3())
        assert second.status == 503, second
        wire.send(mp3()[100:])
        assert wire.answer().status == 200
    assert machine.complete(job, mp3()).status == 200
    assert yard.task(key, job.id)["status"] == 2


def test_a_node_has_a_bounded_number_of_bytes_on_their_way(yard: Yard, key: str) -> None:
    voice = new_voice()
    machine, other = yard.machine(voice), yard.machine(voice)
    for _ in range(4):
        yard.order(key, voice)
    jobs = [machine.take() for _ in range(3)]
    before = len(yard.audio())
    with Wire(yard.service.root_url) as first, Wire(yard.service.root_url) as second:
        for wire, job in zip((first, second), jobs, strict=False):
            machine.begin(wire, job, mp3(), size=AUDIO_MAX_BYTES)
            wire.send(mp3()[:100])
        wait_until(lambda: len(yard.audio()) == before + 2, PROMPT_S, "both uploads have begun")
        refused = machine.complete(jobs[2], mp3())
        assert refused.status == 503, refused
        assert other.complete(other.take(), mp3()).status == 200
    wait_until(lambda: machine.complete(jobs[2], mp3()).status == 200, PROMPT_S, "there is room again")
