"""The embedded neural voices and models in a running service, with tiny models."""

import base64
import io
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import soundfile
from playwright.sync_api import expect

from demo import tiny_voices
from tests.conformance.caller import DELIVERED, Caller, check_error, make_caller
from tests.rig.browser import OpenContext, signed_in_page
from tests.rig.calls import Wire, call
from tests.rig.commands import CommandLine
from tests.rig.disks import BlockedFile
from tests.rig.forks import Forks
from tests.rig.office import People
from tests.rig.processes import children, proc_file
from tests.rig.service import Account, Service, ServiceMaker
from tests.rig.waiting import SOON_S, wait_until

VOICES = ["zf_xiaobei", "zf_xiaoxiao", "zf_xiaoni", "af_heart"]
MANDARIN, OTHER, SPOKEN_ONCE, ENGLISH = VOICES
BLEND, RECIPE = "xiao", f"{OTHER}:3+{MANDARIN}:1"
TEXT = "你好，世界。"
VOICE_FIELDS = {"voice_id", "name", "gender", "language", "source"}


@pytest.fixture(scope="module")
def site(commands: CommandLine, forks: Forks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with the default MYNA_SPEECH, auto, and the tiny model in its data folder. Its books are
    audited at the end."""
    service = Service(tmp_path_factory.mktemp("site"), commands, chat_url="parrot:", forks=forks)
    tiny_voices.neural(model_of(service), VOICES)
    yield service.start()
    assert service.stop() == 0
    assert service.command("audit", "--audio").code == 0


@pytest.fixture
def caller(site: Service) -> Caller:
    return make_caller(site, units=20)


def model_of(service: Service) -> Path:
    return service.folder / "data" / "models" / "kokoro"


def model_processes(service: Service) -> list[int]:
    """The child processes that have loaded the model."""
    program = "\0myna.engines.kokoro.child\0"
    return [pid for pid in children(service.pid) if program in proc_file(pid, "cmdline")]


def order_and_disconnect(caller: Caller, text: str) -> None:
    """Sends a request and closes the connection."""
    body = json.dumps({"text": text, "voice_id": MANDARIN}).encode()
    with Wire(caller.service.root_url) as wire:
        lines = f"Authorization: Bearer {caller.key.plain}", f"Content-Length: {len(body)}"
        wire.head("POST /v1/tts HTTP/1.1", *lines, "Content-Type: application/json")
        wire.send(body)


def pitch_hz(caller: Caller, voice_id: str) -> float:
    """The mean pitch of a text in this voice: the tiny model adds 2,000 Hz for each place in VOICES."""
    answer = caller.speak(TEXT, voice_id=voice_id)
    assert (answer.status, answer.json["mode"]) == (200, "sync"), answer
    audio = call("GET", answer.json["audio_url"])
    assert (audio.status, audio.headers["content-type"]) == (200, "audio/mpeg")
    samples, rate_hz = soundfile.read(io.BytesIO(audio.body))
    power = np.abs(np.fft.rfft(samples)) ** 2
    return float((np.fft.rfftfreq(len(samples), 1 / rate_hz) * power).sum() / power.sum())


def test_a_text_is_spoken_in_each_voice_and_in_a_blend_from_the_next_call_on(caller: Caller) -> None:
    site = caller.service
    assert caller.voice_ids()[: len(VOICES)] == VOICES
    low, higher, english = (pitch_hz(caller, voice_id) for voice_id in (MANDARIN, OTHER, ENGLISH))
    assert [higher - low, english - low] == pytest.approx([2000, 6000], rel=0.1)

    site.cli("voice", "blend", BLEND, RECIPE, "--name", "小")
    (voice,) = (one for one in caller.get("/voices").json["data"] if one["voice_id"] == BLEND)
    assert (voice["name"], voice["source"], voice["gender"], voice["language"]) == (
        *("小", "public", "female", "zh-CN"),
    )
    assert pitch_hz(caller, BLEND) - low == pytest.approx(1500, rel=0.05)
    assert caller.balance() == 16

    site.cli("voice", "delete", BLEND)
    assert BLEND not in caller.voice_ids()
    assert caller.speak(TEXT, voice_id=BLEND).status == 400
    message = check_error(caller.speak(TEXT, voice_id=RECIPE), 400)
    assert message.startswith("voice_id: there is no")
    assert caller.balance() == 16

    site.cli("settings", "set", "voice_recipes", "accept")
    assert pitch_hz(caller, f"{OTHER}(3)+{MANDARIN}(1)") - low == pytest.approx(1500, rel=0.05)
    site.cli("settings", "set", "voice_recipes", "refuse")


def test_words_of_the_account_change_the_sound_and_what_is_not_spoken_is_named(caller: Caller) -> None:
    espeak = caller.speak("<speak>世界<prosody>😀</prosody></speak>", voice_id="zh-female-1")
    assert espeak.headers["x-unspoken"] == "<prosody> 1, Emoji 1"
    text = "<speak>世界<prosody rate='slow'>สวัสดี</prosody></speak>"
    seconds = []
    for reading in ("世界你好你好", "世"):
        caller.service.cli("voice", "word", "add", "世界", reading, "--account", caller.account.name)
        answer = caller.speak(text, voice_id=MANDARIN)
        assert answer.headers["x-unspoken"] == "<prosody> 1, Thai 4"
        body = {"model": "tts-1", "input": text, "voice": MANDARIN, "response_format": "pcm"}
        url = f"{caller.service.root_url}/openai/v1/audio/speech"
        streamed = call("POST", url, key=caller.key.plain, data=body)
        assert streamed.headers["x-unspoken"] == "<prosody> 1, Thai 4"
        seconds.append((len(call("GET", answer.json["audio_url"]).body), len(streamed.body)))
    (long, long_streamed), (short, short_streamed) = seconds
    assert long > short
    assert long_streamed > short_streamed


def test_a_text_whose_process_is_killed_is_spoken_again(caller: Caller) -> None:
    voice = BlockedFile(model_of(caller.service) / "voices" / f"{SPOKEN_ONCE}.bin")
    with ThreadPoolExecutor(1) as thread:
        answering = thread.submit(caller.speak, TEXT, voice_id=SPOKEN_ONCE)
        wait_until(voice.blocks, SOON_S, "a process speaks the text")
        for pid in model_processes(caller.service):
            os.kill(pid, signal.SIGKILL)
        voice.release()
        assert answering.result().status == 200
    assert caller.balance() == 19


def test_clients_that_disconnect_harm_no_other(caller: Caller) -> None:
    speaking = TEXT * 5
    with ThreadPoolExecutor(6) as threads:
        answers = [threads.submit(caller.speak, speaking, voice_id=MANDARIN) for _ in range(6)]
        for _ in range(4):
            order_and_disconnect(caller, speaking)
        assert [answer.result().status for answer in answers] == [200] * 6
    assert caller.speak(TEXT, voice_id=MANDARIN).status == 200
    assert 9 <= caller.balance() <= 13


def test_a_preview_of_a_neural_voice_can_be_heard(caller: Caller) -> None:
    visitor = People(caller.service).signed_in("listener", units=0)
    assert f"/voices/{MANDARIN}/preview" in visitor.get("/voices").body.decode()
    heard = visitor.get(f"/voices/{MANDARIN}/preview")
    assert (heard.status, heard.headers["content-type"]) == (200, "audio/mpeg")
    assert soundfile.info(io.BytesIO(heard.body)).duration > 1
    assert all(voice.keys() == VOICE_FIELDS for voice in caller.get("/voices").json["data"])


def test_espeak_alone_speaks_if_the_neural_voice_does_not_start(make_service: ServiceMaker) -> None:
    service = make_service(chat_url="parrot:")
    tiny_voices.neural(model_of(service), [MANDARIN])
    (model_of(service) / "model.onnx").write_bytes(b"damaged")
    caller = make_caller(service.start())
    assert "default-kokoro does not start: " in service.stderr
    ready = call("GET", f"{service.root_url}/readyz")
    assert ready.status == 200 and "default-kokoro" in ready.json["reasons"]
    voices = caller.voice_ids()
    assert voices and MANDARIN not in voices
    assert caller.speak(TEXT, voice_id=voices[0]).status == 200


def test_texts_are_refunded_if_their_processes_hang_and_refused_if_they_are_too_long(
    make_service: ServiceMaker, tmp_path: Path
) -> None:
    """Each sentence has a process, so that none of the stopped ones is left for the next text."""
    model = tiny_voices.neural(tmp_path / "model", [MANDARIN, ENGLISH])
    env = {"MYNA_UPSTREAM_IDLE_S": "1"}
    service = make_service(chat_url="parrot:", speech=f"kokoro:{model}", env=env).start()
    caller = make_caller(service, units=20)
    assert caller.voice_ids() == [MANDARIN, ENGLISH]  # without espeak's
    answer = caller.speak("好" * 1000, voice_id=MANDARIN)
    assert check_error(answer, 503).startswith("This text takes longer to speak than a call may take")
    assert "retry-after" not in answer.headers

    for pid in model_processes(service):
        os.kill(pid, signal.SIGSTOP)
    answer = caller.speak("你好。" * len(model_processes(service)), voice_id=MANDARIN)
    assert "the units were refunded" in check_error(answer, 500, "upstream_error")
    assert caller.balance() == 20
    wait_until(
        lambda: caller.speak(TEXT, voice_id=MANDARIN).status == 200,
        SOON_S, "the processes are replaced, and speak within the second", every_s=0.2,
    )  # fmt: skip
    assert caller.balance() == 19


def test_a_site_speaks_with_a_model_in_a_folder(make_service: ServiceMaker, tmp_path: Path) -> None:
    folder = tiny_voices.vits(tmp_path / "tiny")
    caller = make_caller(make_service(chat_url="parrot:", speech=f"sherpa:{folder}").start())
    assert caller.voice_ids() == ["tiny-0", "tiny-1"]
    answer = caller.speak("你好", voice_id="tiny-1")
    assert (answer.status, answer.json["mode"]) == (200, "sync")
    assert call("GET", answer.json["audio_url"]).status == 200
    assert caller.stats() == DELIVERED


def test_a_folder_without_a_model_is_refused_in_one_line(make_service: ServiceMaker, tmp_path: Path) -> None:
    ended = make_service(speech=f"sherpa:{tmp_path}").command("serve")
    assert (ended.code, len(ended.stderr.splitlines())) == (2, 1)
    assert f"MYNA_SPEECH: {tmp_path} has no model in it" in ended.stderr


def test_the_times_of_words_are_told_kept_with_the_sound_and_shown(caller: Caller) -> None:
    body = {"model": "tts-1", "input": TEXT + "好", "voice": MANDARIN, "timestamps": True}
    url = f"{caller.service.root_url}/openai/v1/audio/speech"
    key = caller.key.plain
    whole = call("POST", url, key=key, data=body).json
    assert whole["audio_format"] == "audio/mpeg"
    assert [word["word"] for word in whole["timestamps"]] == ["你好，", "世界。", "好"]
    lines = call("POST", url, key=key, data=body | {"stream": True, "response_format": "pcm"})
    parts = [json.loads(line) for line in lines.body.splitlines()]
    sound_s = sum(len(base64.b64decode(part["audio"])) for part in parts) / 48_000
    assert [word for part in parts for word in part["timestamps"]] == whole["timestamps"]
    assert whole["timestamps"][1]["end_time"] < whole["timestamps"][2]["start_time"] < sound_s

    (record, *_) = caller.get("/records").json["data"]
    captions = record["audio_url"].removesuffix("mp3")
    assert call("GET", f"{captions}json").json == whole["timestamps"]
    vtt = call("GET", f"{captions}vtt")
    assert vtt.headers["content-type"] == "text/vtt; charset=utf-8"
    assert vtt.body.decode().startswith("WEBVTT\n\n00:00:00.")
    assert call("GET", f"{captions}srt").body.decode().count(" --> ") == 2
    assert call("GET", f"{captions[:-5]}.srt").status == 404


def test_a_request_says_its_volume_and_its_language(caller: Caller) -> None:
    def sound(**more: object) -> bytes:
        body = {"model": "tts-1", "input": "你好 no", "response_format": "pcm", **more}
        answer = call(
            "POST", f"{caller.service.root_url}/openai/v1/audio/speech", key=caller.key.plain, data=body
        )
        assert answer.status == 200 or answer.json["error"]["param"] == "language", answer
        return answer.body if answer.status == 200 else b""

    def rms(pcm: bytes) -> float:
        return float(np.sqrt((np.frombuffer(pcm, "<i2").astype(float) ** 2).mean()))

    plain = sound(voice=MANDARIN)
    assert rms(sound(voice=MANDARIN, volume=0.5)) == pytest.approx(rms(plain) / 2, rel=0.02)
    assert rms(sound(voice=MANDARIN, volume_multiplier=3)) > rms(plain) * 1.5
    assert rms(sound(voice=MANDARIN, volume=0)) == 0
    for mandarin in ("zh-CN", "zh_CN", "cmn", "cmn-CN", "chinese", "Chinese"):
        assert sound(language=mandarin) == plain
    assert sound(lang_code="z") == plain
    assert sound(language="en") == sound(language="English") == sound(voice=ENGLISH) != plain
    assert sound(voice=MANDARIN, language="en") != plain
    assert sound(language="xx") == b""


@pytest.mark.slow
@pytest.mark.browser
def test_the_word_that_is_being_said_is_lit(site: Service, open_context: OpenContext) -> None:
    visitor = People(site).signed_in("reader")
    key = Account(site, "reader").key().plain
    call("POST", f"{site.base_url}/tts", key=key, data={"text": TEXT * 3, "voice_id": MANDARIN})
    page = signed_in_page(open_context(), visitor)
    page.goto(f"{site.root_url}/office/records")
    page.get_by_role("link", name=TEXT).click()
    text = page.locator("[data-spoken-by]")
    expect(text).to_have_text(TEXT * 3)
    expect(page.get_by_role("link", name="SRT")).to_be_visible()
    page.locator("#sound").evaluate("(sound) => { sound.muted = true; sound.play(); }")
    for word in ("你好，", "世界。"):
        expect(text.locator(".lit")).to_have_text(word, timeout=20_000)
    page.locator("#sound").evaluate("(sound) => { sound.currentTime = sound.duration; }")
    expect(text.locator(".lit")).to_have_count(0)
