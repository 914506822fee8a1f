"""The requests of a joined node: hello, lease, beat, fail, reference."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest

from myna.wire.farm import PREFIX, Hello, LeaseProof
from tests.farm.node_client import HEADERS, POLL_S, NodeClient, NodeSite, mp3, new_voice, open_poll, proof_of
from tests.rig.calls import Answer, call
from tests.rig.samples import write_voice
from tests.rig.service import ServiceMaker
from tests.rig.waiting import wait_until

PROMPT_S = 15
"""Far shorter than a poll."""


# ---- hello


def test_hello_returns_the_intervals_of_lease_beat_and_poll(site: NodeSite) -> None:
    node = site.node()
    welcome = node.hello(new_voice())
    assert welcome == {"name": node.name, "lease_s": 30.0, "beat_s": 10.0, "poll_max_s": 25.0}


def test_the_configuration_changes_only_if_a_hello_changes_the_offer(site: NodeSite) -> None:
    voice = new_voice()
    node = site.node(voice)

    def offered() -> int:
        return int(site.sql("SELECT nodes_version FROM site")[0][0])

    def raised(act: Callable[[], object]) -> bool:
        before = offered()
        act()
        return offered() > before

    assert not raised(lambda: node.hello(voice))
    assert not raised(lambda: node.hello(voice, slots=5, version="2", chars_per_s=3))
    assert raised(lambda: node.hello(voice, clones=["zh"]))
    assert not raised(lambda: node.hello(voice, clones=["zh"]))
    assert raised(lambda: node.hello(voice, new_voice(), clones=["zh"]))
    assert not raised(lambda: node.hello(voice, new_voice(), clones=["zh"], leaving=True))
    assert raised(lambda: node.hello(voice))
    assert not raised(lambda: node.lease(wait_s=0))
    site.sql("UPDATE nodes SET heard_at = now_ms() - 40001 WHERE name = $1", node.name)
    assert not raised(lambda: node.lease(wait_s=0))


def test_voices_of_an_offline_node_are_unlisted_until_it_is_online(site: NodeSite, key: str) -> None:
    voice = new_voice()
    node = site.node(voice)
    silent = "UPDATE nodes SET heard_at = now_ms() - $2 WHERE name = $1"
    site.sql(silent, node.name, 20_000)
    assert voice in site.listed(key)
    for back in (lambda: node.lease(wait_s=0), lambda: node.ask("beat", {"beats": []})):
        site.sql(silent, node.name, 40_001)
        wait_until(lambda: voice not in site.listed(key), PROMPT_S, "the voice of a silent node is unlisted")
        back()
        wait_until(lambda: voice in site.listed(key), PROMPT_S, "the voice is back with its node")
    node.hello(voice, leaving=True)
    wait_until(
        lambda: voice not in site.listed(key), PROMPT_S, "the voice of a node that shuts down is unlisted"
    )
    node.ask("beat", {"beats": []})
    assert node.listed["state"] == "offline"
    node.hello(voice)
    wait_until(lambda: voice in site.listed(key), PROMPT_S, "the voice is back with its node")


def test_a_hello_sets_the_speed_of_the_node_if_it_was_measured(site: NodeSite) -> None:
    node = site.node(new_voice())
    for sent, known in ((0, 0), (0.5, 0.5), (99, 99), (0, 99)):
        node.hello(chars_per_s=sent)
        assert node.listed["chars_per_s"] == known


AN = {"voice_id": "a", "name": "A", "gender": "female", "language": "zh"}


@pytest.mark.parametrize(
    "wrong",
    [{"slots": 0}, {"clones": ["zh", "zh"]}, {"voices": [AN] * 2}, {"voices": [AN | {"name": "A\n"}]}],
    ids=lambda wrong: str(wrong)[:40],
)
def test_an_invalid_hello_is_refused_and_changes_nothing(site: NodeSite, wrong: dict[str, Any]) -> None:
    voice = new_voice()
    node = site.node(voice)
    answer = node.ask("hello", {"voices": [], "clones": [], "slots": 1} | wrong)
    assert answer.status == 400, answer
    assert node.listed["voices"] == [voice]


@pytest.mark.parametrize(
    "wrong",
    [
        {"chars_per_s": 1e-310},
        {"voices": [AN | {"name": ""}]},
        {"voices": [AN | {"voice_id": f"clone-{'0' * 32}"}]},
        {"voices": [AN | {"voice_id": "a b"}]},
        {"voices": [AN] * 501},
    ],
    ids=lambda wrong: str(wrong)[:40],
)
def test_a_hello_has_limits(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"voices": [], "clones": [], "slots": 1} | wrong, Hello)


# ---- lease


def test_a_poll_without_a_job_lasts_as_long_as_requested(site: NodeSite) -> None:
    node = site.node(new_voice())
    for wait_s in (0, 0.3):
        began = time.monotonic()
        assert node.lease(wait_s=wait_s) == []
        assert wait_s - 0.01 <= time.monotonic() - began < wait_s + PROMPT_S
    assert node.ask("lease", {"jobs": 1, "wait_s": 26}).status == 400
    assert node.ask("lease", {"jobs": 0, "wait_s": 1}).status == 400


def test_an_open_poll_of_a_disabled_node_ends_at_once(site: NodeSite) -> None:
    node = site.node(new_voice())
    with ThreadPoolExecutor(1) as pool:
        poll = open_poll(node, pool)
        site.service.cli("node", "disable", node.name)
        assert poll.result(PROMPT_S).status == 401


def test_open_polls_do_not_delay_shutdown(make_service: ServiceMaker) -> None:
    site = NodeSite(make_service(chat_url="parrot:", speech="none").start())
    node = site.node(new_voice())
    with ThreadPoolExecutor(1) as pool:
        poll = open_poll(node, pool)
        began = time.monotonic()
        assert site.service.stop() == 0
        assert time.monotonic() - began < PROMPT_S
        assert poll.result(PROMPT_S).json["jobs"] == []


# ---- beat


def test_a_beat_renews_leases_and_names_those_to_cancel(site: NodeSite, key: str) -> None:
    voice = new_voice()
    node = site.node(voice)
    task = site.order(key, voice)
    job = node.take()
    site.sql("UPDATE tasks SET lease_until = now_ms() + 3000 WHERE id = $1", task)
    stale = msgspec.structs.replace(job, epoch=7)
    beats = [{"held": job, "progress": 0.5}, {"held": stale}]
    heard = node.ask("beat", {"beats": beats}).json
    assert heard == {"lease_s": 30.0, "cancel": [msgspec.to_builtins(stale)]}
    ((left_ms, progress),) = site.sql(
        "SELECT lease_until - now_ms(), progress FROM tasks WHERE id = $1", task
    )
    assert 10_000 < left_ms <= 30_000
    assert progress == 50


@pytest.mark.parametrize(
    "wrong", [{"kind": "call"}, {"id": -1}, {"id": 2**63}, {"epoch": 2**64}, {"id": "1"}]
)
def test_a_proof_of_a_lease_has_limits(wrong: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"kind": "task", "id": 1, "epoch": 1, "token": "x"} | wrong, LeaseProof)


# ---- fail


def test_a_final_failure_fails_and_refunds_the_task(site: NodeSite) -> None:
    voice, account = new_voice(), site.service.account(units=5)
    key = account.key().plain
    node = site.node(voice)
    task = site.order(key, voice)
    failure = {"held": node.take(), "reason": "no\x00such\nvoice", "final": True}
    assert node.ask("fail", failure).json == {"ok": 1}
    assert site.task(key, task)["status"] == 3
    assert site.service.cli("account", "show", account.name)["balance"] == 5
    (ended,) = site.service.cli("calls", "--account", account.name)
    assert (ended["state"], ended["reason"]) == ("refunded", "no such voice")
    assert node.ask("fail", failure).status == 409


def test_a_voice_that_failed_without_a_reason_gets_one(site: NodeSite, tmp_path: Path) -> None:
    node = site.node(clones=["vv"])
    voice = clone(site, "vv", tmp_path)
    failure = {"held": node.take(), "reason": "\n", "final": True}
    assert node.ask("fail", failure).status == 200
    ((status, reason),) = site.sql("SELECT status, reason FROM clones WHERE voice_id = $1", voice)
    assert (status, reason) == (3, "the node gave no reason")


# ---- reference


def test_a_reference_is_served_only_under_a_lease_of_its_voice(site: NodeSite, tmp_path: Path) -> None:
    node, other = site.node(clones=["xx"]), site.node(clones=["yy"])
    clone(site, "xx", tmp_path)
    ((name, sha256),) = site.sql("SELECT sample, sample_sha256 FROM clones WHERE language = 'xx'")
    sample = (site.service.folder / "data" / "samples" / name[:2] / name).read_bytes()
    path = f"reference?sha256={sha256.hex()}"
    assert get(node, path).status == 404
    (job,) = node.lease()
    assert job["kind"] == "clone"
    assert job["reference"] == {
        "sha256": sha256.hex(),
        "size_bytes": len(sample),
        "transcript": "what is said",
        "language": "xx",
    }
    answer = get(node, path)
    assert (answer.status, answer.body, answer.headers["content-type"]) == (200, sample, "audio/wav")
    assert get(other, path).status == 404
    failure = {"held": proof_of(job), "reason": "this can't be cloned", "final": True}
    assert node.ask("fail", failure).status == 200
    assert get(node, path).status == 404


def test_the_preview_of_a_new_voice_is_uploaded_like_audio(site: NodeSite, tmp_path: Path) -> None:
    node = site.node(clones=["ww"])
    voice = clone(site, "ww", tmp_path)
    job = node.take()
    assert (job.kind, node.complete(job, mp3()).status, node.complete(job, mp3()).status) == (
        "clone",
        200,
        200,
    )
    ((status, preview),) = site.sql("SELECT status, preview FROM clones WHERE voice_id = $1", voice)
    assert status == 2
    assert call("GET", f"{site.service.root_url}/uploads/{preview}").body == mp3()


@pytest.mark.parametrize("query", ["", "?sha256=../../etc/passwd", "?sha256=" + "G" * 64])
def test_a_reference_without_a_valid_hash_is_400(site: NodeSite, query: str) -> None:
    assert get(site.node(), f"reference{query}").status == 400


def test_a_poll_names_unused_references_at_once(site: NodeSite, tmp_path: Path) -> None:
    node = site.node(new_voice())
    clone(site, "zz", tmp_path)
    ((sha256,),) = site.sql("SELECT sample_sha256 FROM clones WHERE language = 'zz'")
    unused = "ab" * 32
    began = time.monotonic()
    asked = {"jobs": 1, "wait_s": POLL_S, "references": [sha256.hex(), unused]}
    assert node.ask("lease", asked).json == {"jobs": [], "forget": [unused]}
    assert time.monotonic() - began < PROMPT_S


def get(node: NodeClient, path: str) -> Answer:
    url = f"{node.service.root_url}{PREFIX}/{path}"
    return call("GET", url, key=node.credential, headers=HEADERS)


def clone(site: NodeSite, language: str, folder: Path) -> str:
    """Orders a cloned voice in this language and returns its id."""
    sample = write_voice(folder / "sample.wav", seconds=4)
    ordered = site.service.cli(
        *("voice", "clone", site.service.account().name, "--name", "Me", "--language", language),
        *("--sample", str(sample), "--transcript", "what is said", "--consent"),
    )
    return str(ordered["voice_id"])


@pytest.mark.parametrize(
    ("what", "data", "field"),
    [
        ("hello", {"voices": [], "clones": [], "slots": 1, "speed": 1}, "speed"),
        ("lease", {"jobs": 1, "wait_s": 0, "voices": []}, "voices"),
        ("beat", {"beats": [], "load": 1}, "load"),
        ("fail", {"held": {"kind": "task", "id": 1, "epoch": 1, "token": "t", "x": 1}, "reason": "r"}, "x"),
    ],
    ids=["hello", "lease", "beat", "fail"],
)
def test_a_field_that_the_protocol_does_not_have_is_refused(
    site: NodeSite, what: str, data: dict[str, Any], field: str
) -> None:
    answer = site.node().ask(what, data)
    assert answer.status == 400
    assert f"unknown field `{field}`" in answer.json["error"]["message"]


def test_a_new_job_ends_an_open_poll(site: NodeSite, key: str) -> None:
    voice = new_voice()
    node = site.node(voice)
    with ThreadPoolExecutor(1) as pool:
        poll = open_poll(node, pool)
        task = site.order(key, voice)
        assert [job["id"] for job in poll.result(PROMPT_S).json["jobs"]] == [task]


@pytest.mark.parametrize(("more", "tries"), [({}, 2), ({"handed_back": True}, 1)])
def test_a_failed_or_returned_job_is_requeued(
    site: NodeSite, key: str, more: dict[str, bool], tries: int
) -> None:
    voice = new_voice()
    node = site.node(voice)
    task = site.order(key, voice)
    first = node.take()
    assert node.ask("fail", {"held": first, "reason": "busy", **more}).status == 200
    site.sql("UPDATE nodes SET rests_until = 0 WHERE name = $1", node.name)
    second = node.take()
    assert (second.id, second.epoch) == (task, 2)
    assert site.sql("SELECT tries FROM tasks WHERE id = $1", task) == [(tries,)]
    assert node.complete(first, mp3()).status == 409
    assert node.complete(second, mp3()).status == 200
