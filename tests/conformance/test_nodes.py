"""Speech by compute nodes, as the caller sees it: /tts, /task, /voices and chat.

The node is a client of the real protocol in the test; the service has no speech channel.
"""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.caller import DELIVERED, REFUNDED, Caller, check_error, make_caller
from tests.farm.node_client import NodeClient, NodeSite, mp3, new_voice
from tests.rig.calls import call
from tests.rig.samples import write_voice
from tests.rig.service import RunningService, ServiceMaker

PATIENCE_S = 60
CHAT_WAIT_S = 30
QUICK = {"MYNA_SWEEP_EVERY_S": "0.1", "MYNA_CHAT_SPEECH_WAIT_S": str(CHAT_WAIT_S)}


@pytest.fixture(scope="module")
def site(serving: RunningService) -> Iterator[NodeSite]:
    """A service whose chats wait for a node for at most CHAT_WAIT_S."""
    with serving(chat_url="parrot:", speech="none", env=QUICK) as service:
        yield NodeSite(service)
        assert service.command("audit", "--audio", "--json").code == 0


@pytest.fixture
def caller(site: NodeSite) -> Caller:
    return make_caller(site.service)


@pytest.fixture
def voice() -> str:
    return new_voice()


@pytest.fixture
def node(site: NodeSite, voice: str) -> Iterator[NodeClient]:
    """An online node with the voice. The node is removed after the test."""
    node = site.node(voice)
    yield node
    site.service.cli("node", "remove", node.name)


def speak(node: NodeClient, audio: bytes = mp3()) -> None:
    """Completes the next job."""
    answer = node.complete(node.take(), audio)
    assert answer.status == 200, answer


def the_task(caller: Caller, task_id: int) -> dict[str, object]:
    return dict(caller.get(f"/task?id={task_id}").json["data"])


def test_a_task_is_queued_processing_then_completed(caller: Caller, node: NodeClient, voice: str) -> None:
    text = "你好，世界"
    ordered = caller.speak(text, voice_id=voice)
    assert ordered.status == 200
    assert ordered.json.keys() == {"ok", "mode", "id", "tip", "cost"}
    assert (ordered.json["ok"], ordered.json["mode"], ordered.json["cost"]) == (1, "async", 1)
    assert "GET /task" in ordered.json["tip"]
    task_id = ordered.json["id"]
    queued = {"id": task_id, "status": 0, "status_text": "排队中", "text": text, "chars": 5, "audio_url": ""}
    assert the_task(caller, task_id) == queued
    job = node.take()
    assert the_task(caller, task_id) == queued | {"status": 1, "status_text": "处理中"}
    node.ask("beat", {"beats": [{"held": job, "progress": 0.4}]})
    assert the_task(caller, task_id)["status_text"] == "处理中 40%"
    audio = mp3(0.7)
    assert node.complete(job, audio).status == 200
    done = the_task(caller, task_id)
    assert (done["status"], done["status_text"]) == (2, "已完成")
    assert call("GET", str(done["audio_url"])).body == audio
    record = caller.get("/records").json["data"][0]
    assert {name: record[name] for name in done} == done
    assert caller.stats() == DELIVERED


def test_a_retried_order_gets_the_same_task_uncharged(caller: Caller, node: NodeClient, voice: str) -> None:
    named = {"Idempotency-Key": "the order"}
    first = caller.speak("你好", named, voice_id=voice)
    assert caller.speak("你好", named, voice_id=voice).json == first.json
    speak(node)
    assert caller.speak("你好", named, voice_id=voice).json == first.json
    assert caller.stats() == DELIVERED


def test_a_chat_waits_for_the_node_and_returns_the_audio_url(
    site: NodeSite, caller: Caller, node: NodeClient, voice: str
) -> None:
    site.service.cli("voice", "order", voice)  # the first is the default of chats
    named = {"Idempotency-Key": "the chat"}
    audio = mp3(0.6)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(caller.chat, "请朗读：春眠不觉晓", named) for _ in range(2)]
        speak(node, audio)
        first, copy = (future.result(PATIENCE_S) for future in asked)
    assert first.status == copy.status == 200, (first, copy)
    assert first.json == copy.json
    url = first.json["choices"][0]["message"]["content"]
    assert re.fullmatch(r"http://[^/]+/uploads/[0-9a-f]{32}\.mp3", url)
    order = {"mode": "async", "voice_id": voice, "text": "春眠不觉晓", "chars": 5}
    assert first.json["audio"] == {"url": url, "task_id": first.json["audio"]["task_id"], **order}
    assert call("GET", url).body == audio
    assert caller.stats() == DELIVERED


def test_a_chat_whose_speech_times_out_is_500_and_refunded(
    new_database: Callable[[], str | None], make_service: ServiceMaker, voice: str
) -> None:
    env = QUICK | {"MYNA_CHAT_SPEECH_WAIT_S": "0.5"}
    database_url = new_database()
    service = make_service(database_url=database_url, chat_url="parrot:", speech="none", env=env).start()
    caller, node = make_caller(service), NodeSite(service).node(voice)
    check_error(caller.chat("请朗读：春眠不觉晓"), 500)
    assert node.lease(wait_s=0) == []
    assert caller.get("/records").json["data"][0]["status"] == 3
    assert caller.stats() == REFUNDED


def test_a_cloned_voice_is_private_to_its_account(site: NodeSite, caller: Caller, tmp_path: Path) -> None:
    cloner = site.node(clones=["zh"])
    other_caller = make_caller(site.service)
    sample = write_voice(tmp_path / "sample.wav")
    made = site.service.cli(
        "voice", "clone", caller.account.name, "--name", "我", "--language", "zh", "--sample", str(sample),
        "--transcript", "你好", "--consent",
    )  # fmt: skip
    own = made["voice_id"]
    check_error(caller.speak("你好", voice_id=own), 400)  # not cloned yet
    speak(cloner)
    assert site.listed(caller.key.plain)[own] == {
        "voice_id": own, "name": "我", "gender": "neutral", "language": "zh", "source": "clone"
    }  # fmt: skip
    assert own not in site.listed(other_caller.key.plain)
    foreign, unknown = (other_caller.speak("你好", voice_id=other) for other in (own, "clone-" + "0" * 32))
    check_error(foreign, 400)
    assert foreign.body == unknown.body
    ordered = caller.speak("你好", voice_id=own)
    (job,) = cloner.lease()
    assert job["reference"]["transcript"] == "你好"
    site.service.cli("voice", "delete", own)
    assert the_task(caller, ordered.json["id"])["status"] == 3
    assert caller.stats() == REFUNDED
    check_error(caller.speak("你好", voice_id=own), 400)
    site.service.cli("node", "remove", cloner.name)
