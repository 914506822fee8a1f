"""The embedded neural voice in a running service, with the tiny model."""

import io
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import soundfile

from demo import tiny_voices
from tests.rig.calls import Answer, Wire, call
from tests.rig.disks import BlockedFile
from tests.rig.office import People
from tests.rig.processes import children, proc_file
from tests.rig.service import Service, ServiceMaker
from tests.rig.waiting import SOON_S, wait_until

VOICE_IDS = ["zf_xiaobei", "af_heart"]
MANDARIN, ENGLISH = VOICE_IDS
TEXT = "你好，世界。"
VOICE_FIELDS = {"voice_id", "name", "gender", "language", "source"}
UNITS = 20


class Site:
    """A service with the tiny model in its data folder, not started, and a client of it."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.model = tiny_voices.neural(service.folder / "data" / "models" / "kokoro", VOICE_IDS)
        self._key = ""

    def start(self) -> "Site":
        self.service.start()
        self._key = self.service.account(units=UNITS).key().plain
        return self

    def get(self, path: str) -> Answer:
        return call("GET", self.service.base_url + path, key=self._key)

    def speak(self, text: str, voice_id: str) -> Answer:
        url = f"{self.service.base_url}/tts"
        return call("POST", url, key=self._key, data={"text": text, "voice_id": voice_id})

    def order_and_disconnect(self, text: str, voice_id: str) -> None:
        """Sends a request and closes the connection."""
        body = json.dumps({"text": text, "voice_id": voice_id}).encode()
        with Wire(self.service.root_url) as wire:
            lines = f"Authorization: Bearer {self._key}", f"Content-Length: {len(body)}"
            wire.head("POST /v1/tts HTTP/1.1", *lines, "Content-Type: application/json")
            wire.send(body)

    def voice_ids(self) -> list[str]:
        return [voice["voice_id"] for voice in self.get("/voices").json["data"]]

    def balance(self) -> int:
        ((account,)) = self.service.cli("account", "list")
        return int(account["balance"])

    def model_processes(self) -> list[int]:
        """The child processes that have loaded the model."""
        program = "\0myna.engines.kokoro.child\0"
        return [pid for pid in children(self.service.pid) if program in proc_file(pid, "cmdline")]


@pytest.fixture
def site(make_service: ServiceMaker) -> Iterator[Site]:
    """A site with the default MYNA_SPEECH, auto. Its books are audited at the end."""
    site = Site(make_service(chat_url="parrot:"))
    yield site
    assert site.service.stop() == 0
    assert site.service.command("audit", "--audio").code == 0


@pytest.mark.parametrize("voice_id", VOICE_IDS)
def test_a_text_is_spoken_in_a_neural_voice(site: Site, voice_id: str) -> None:
    site.start()
    assert site.voice_ids()[: len(VOICE_IDS)] == VOICE_IDS
    answer = site.speak(TEXT, voice_id)
    assert (answer.status, answer.json["mode"]) == (200, "sync")
    audio = call("GET", answer.json["audio_url"])
    assert (audio.status, audio.headers["content-type"]) == (200, "audio/mpeg")
    assert site.balance() == UNITS - 1


def test_espeak_alone_speaks_if_the_neural_voice_does_not_start(site: Site) -> None:
    (site.model / "model.onnx").write_bytes(b"damaged")
    site.start()
    assert "default-kokoro does not start, so only espeak speaks" in site.service.stderr
    voices = site.voice_ids()
    assert voices and not set(voices) & set(VOICE_IDS)
    assert site.speak(TEXT, voices[0]).status == 200


def test_emoji_alone_are_400_before_the_charge(site: Site) -> None:
    site.start()
    answer = site.speak("🎉🎉", MANDARIN)
    assert answer.status == 400
    assert answer.json["error"]["message"].startswith("text: holds nothing that can be spoken")
    assert site.get("/me").json["stats"]["calls"] == 0
    assert site.balance() == UNITS


def test_letters_that_the_neural_voice_cannot_speak_are_400_and_refunded(site: Site) -> None:
    site.start()
    answer = site.speak("ภาษาไทย", MANDARIN)
    assert answer.status == 400
    assert answer.json["error"]["message"].startswith("text: holds nothing that this voice can speak")
    assert site.get("/me").json["stats"]["calls"] == 1
    assert site.balance() == UNITS


def test_a_text_is_refunded_if_its_process_is_killed_and_the_next_one_is_spoken(site: Site) -> None:
    site.start()
    voice = BlockedFile(site.model / "voices" / f"{MANDARIN}.bin")
    with ThreadPoolExecutor(1) as thread:
        answering = thread.submit(site.speak, TEXT, MANDARIN)
        wait_until(voice.blocks, SOON_S, "a process speaks the text")
        for pid in site.model_processes():
            os.kill(pid, signal.SIGKILL)
        answer = answering.result()
    voice.release()
    assert (answer.status, answer.json["error"]["type"]) == (500, "upstream_error")
    assert "the units were refunded" in answer.json["error"]["message"]
    assert site.balance() == UNITS
    wait_until(lambda: MANDARIN in site.voice_ids(), SOON_S, "the processes are replaced")
    assert site.speak(TEXT, MANDARIN).status == 200
    assert site.balance() == UNITS - 1


def test_a_text_is_refunded_if_its_processes_hang_and_the_next_one_is_spoken(
    make_service: ServiceMaker,
) -> None:
    """Each sentence has a process, so that none of the stopped ones is left for the next text."""
    site = Site(make_service(chat_url="parrot:", env={"MYNA_UPSTREAM_IDLE_S": "5"})).start()
    for pid in site.model_processes():
        os.kill(pid, signal.SIGSTOP)
    answer = site.speak("你好。" * len(site.model_processes()), MANDARIN)
    assert (answer.status, answer.json["error"]["type"]) == (500, "upstream_error")
    assert "the units were refunded" in answer.json["error"]["message"]
    assert site.balance() == UNITS
    wait_until(lambda: MANDARIN in site.voice_ids(), SOON_S, "the processes are replaced")
    assert site.speak(TEXT, MANDARIN).status == 200
    assert site.balance() == UNITS - 1


def test_clients_that_disconnect_harm_no_other(site: Site) -> None:
    site.start()
    speaking = TEXT * 5
    with ThreadPoolExecutor(6) as threads:
        answers = [threads.submit(site.speak, speaking, MANDARIN) for _ in range(6)]
        for _ in range(4):
            site.order_and_disconnect(speaking, MANDARIN)
        assert [answer.result().status for answer in answers] == [200] * 6
    assert site.speak(TEXT, MANDARIN).status == 200
    assert UNITS - 11 <= site.balance() <= UNITS - 7


def test_a_preview_of_a_neural_voice_can_be_heard(site: Site) -> None:
    site.start()
    visitor = People(site.service).signed_in("listener", units=0)
    for voice_id in VOICE_IDS:
        assert f"/voices/{voice_id}/preview" in visitor.get("/voices").body.decode()
        heard = visitor.get(f"/voices/{voice_id}/preview")
        assert (heard.status, heard.headers["content-type"]) == (200, "audio/mpeg")
        assert soundfile.info(io.BytesIO(heard.body)).duration > 1
    assert all(voice.keys() == VOICE_FIELDS for voice in site.get("/voices").json["data"])


def test_kokoro_alone_has_no_fallback(make_service: ServiceMaker) -> None:
    site = Site(make_service(chat_url="parrot:", speech="kokoro")).start()
    assert site.voice_ids() == VOICE_IDS
    site.service.stop()
    (site.model / "model.onnx").unlink()
    refused = site.service.command("serve")
    assert refused.code == 2
    assert "MYNA_SPEECH: folder: there is no model.onnx in" in refused.stderr
    assert "myna models get kokoro" in refused.stderr


def test_a_text_that_takes_longer_than_a_call_is_503_without_a_retry(make_service: ServiceMaker) -> None:
    site = Site(make_service(chat_url="parrot:", env={"MYNA_UPSTREAM_IDLE_S": "0.5"})).start()
    answer = site.speak("好" * 1000, MANDARIN)
    assert answer.status == 503
    assert answer.json["error"]["message"].startswith("This text takes longer to speak than a call may take")
    assert "retry-after" not in answer.headers
    assert site.balance() == UNITS
