"""POST /openai/v1/audio/speech in a running service: formats, voices, errors, and openai-python."""

import io
import json
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
import soundfile

from demo import tiny_voices
from myna.engines.audio.encoders import FORMATS, RATE_HZ
from myna.engines.registry import DEFAULT_SPEECH, KOKORO
from myna.wire.openai import DEFAULT_VOICES, SpeechFormat
from tests.audio.test_encoders import heard
from tests.rig.calls import Answer, call
from tests.rig.commands import CommandLine
from tests.rig.compute_node import NodeMaker
from tests.rig.forks import Forks
from tests.rig.service import Service, ServiceMaker
from tests.rig.upstream import Upstream
from tests.rig.waiting import wait_until

NEURAL = ["zf_xiaobei", "af_heart", "af_alloy", "am_echo"]
ESPEAK = "en-us-female-1"
TEXT = "Hello, world. This is the second sentence."
UNITS = 100_000


class Speaker:
    """A key of a service."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.base_url = f"{service.root_url}/openai/v1"
        self.key = service.account(units=UNITS).key().plain

    def post(self, **body: Any) -> Answer:
        given = {"model": "tts-1", "input": TEXT, "voice": "alloy"} | body
        sent = {name: value for name, value in given.items() if value is not None}
        return call("POST", f"{self.base_url}/audio/speech", key=self.key, data=sent)

    def voices(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = call("GET", f"{self.base_url}/audio/voices", key=self.key).json[
            "voices"
        ]
        return found

    def newest(self) -> dict[str, Any]:
        (record,) = call("GET", f"{self.service.base_url}/records?limit=1", key=self.key).json["data"]
        return dict(record)

    def balance(self) -> int:
        answer = call("GET", f"{self.service.base_url}/me", key=self.key)
        return int(answer.headers["x-units-balance"])

    def refusal(self, **body: Any) -> tuple[int, str | None, str]:
        """Status, param and message of a request that is refused, uncharged."""
        before = self.balance()
        answer = self.post(**body)
        error = answer.json["error"]
        assert self.balance() == before
        return answer.status, error["param"], error["message"]


@pytest.fixture(scope="module")
def service(
    commands: CommandLine, forks: Forks | None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    """A service with a tiny neural voice, and espeak's voices."""
    folder = tmp_path_factory.mktemp("speech")
    tiny_voices.neural(folder / "data" / "models" / "kokoro", NEURAL)
    running = Service(folder, commands, chat_url="parrot:", speech="auto", forks=forks).start()
    yield running
    ended = running.command("audit", "--audio", "--json")
    assert ended.code == 0, ended
    assert list((folder / "data" / "spool").iterdir()) == []
    assert running.stop() == 0


@pytest.fixture(scope="module")
def speaker(service: Service) -> Speaker:
    return Speaker(service)


@pytest.mark.parametrize(
    ("kind", "voice"),
    [
        ("mp3", "alloy"),
        ("opus", ESPEAK),
        ("wav", "alloy"),
        ("pcm", ESPEAK),
    ],
)
def test_each_format_is_the_sound_of_the_record(speaker: Speaker, kind: SpeechFormat, voice: str) -> None:
    before = speaker.balance()
    answer = speaker.post(response_format=kind, voice=voice)
    assert (answer.status, answer.headers["content-type"]) == (200, FORMATS[kind].media_type.decode())
    assert answer.headers["transfer-encoding"] == "chunked"
    assert answer.headers["x-myna-channel"] == ("espeak" if voice == ESPEAK else KOKORO)
    assert (answer.headers["x-units-cost"], speaker.balance()) == ("1", before - 1)
    seconds = len(heard(answer.body, kind)) / RATE_HZ
    record = speaker.newest()
    assert (record["text"], record["status"]) == (TEXT, 2)
    stored = len(heard(call("GET", record["audio_url"]).body, "mp3")) / RATE_HZ
    assert seconds > 0.3
    assert abs(seconds - stored) < 0.2


def test_each_of_the_three_models_speaks_with_a_name_an_id_an_object_or_no_voice(speaker: Speaker) -> None:
    for model in ("tts-1-hd", "gpt-4o-mini-tts"):
        assert speaker.post(model=model, response_format="pcm").status == 200
    for voice in ("af_heart", {"id": "af_heart"}, "marin", "", None):
        assert speaker.post(voice=voice, response_format="pcm").status == 200, voice


def test_speed_is_a_number_and_changes_the_length(speaker: Speaker) -> None:
    slow, fast = (speaker.post(response_format="pcm", speed=speed).body for speed in (0.5, 2))
    assert len(slow) > 2 * len(fast)


def test_instructions_are_ignored_and_unknown_fields_are_named(speaker: Speaker) -> None:
    answer = speaker.post(instructions="Speak like a pirate.", style="loud")
    assert (answer.status, answer.headers["x-ignored-fields"]) == (200, "style")


def test_a_text_of_marks_alone_is_a_short_silence_without_a_charge(speaker: Speaker) -> None:
    before, records = speaker.balance(), speaker.newest()
    for text, kind in (("...", "mp3"), ("！？ 🎉", "wav"), ("—", "flac")):
        answer = speaker.post(input=text, response_format=kind)
        samples = heard(answer.body, kind)
        assert (answer.status, answer.headers["x-units-cost"]) == (200, "0")
        assert 0.25 < len(samples) / RATE_HZ < 0.5 and not samples.any()
    assert (speaker.balance(), speaker.newest()) == (before, records)
    wrong = {"model": "tts-1", "input": "..."}
    assert call("POST", f"{speaker.base_url}/audio/speech", key="sk-wrong", data=wrong).status == 401
    assert speaker.post(input="...", model="svc-chat").status == 404


WRONG_FIELDS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"input": " "}, "input"),
    ({"input": None}, "input"),
    ({"input": "x" * 4097}, "input"),
    ({"voice": "nobody"}, "voice"),
    ({"voice": 7}, "voice"),
    ({"speed": "1.0"}, "speed"),
    ({"speed": 4.5}, "speed"),
    ({"response_format": "ogg"}, "response_format"),
    ({"stream_format": "ws"}, "stream_format"),
    ({"model": None}, "model"),
)


def test_a_wrong_field_is_400_and_named(speaker: Speaker) -> None:
    for body, param in WRONG_FIELDS:
        status, found, message = speaker.refusal(**body)
        assert (status, found) == (400, param), message


def test_a_key_without_the_scope_is_403(speaker: Speaker) -> None:
    key = speaker.service.account(units=1).key(scopes=("chat",)).plain
    for method, path in (("POST", "speech"), ("GET", "voices")):
        data = {"model": "tts-1", "input": TEXT} if method == "POST" else None
        answer = call(method, f"{speaker.base_url}/audio/{path}", key=key, data=data)
        assert (answer.status, answer.json["error"]["code"]) == (403, "missing_scope")


def test_the_voices_are_those_of_the_catalogue_and_the_names_that_mean_one(speaker: Speaker) -> None:
    voices = {voice["id"]: voice for voice in speaker.voices()}
    assert list(voices)[: len(NEURAL)] == NEURAL
    assert set(voices["af_heart"]) == {"id", "name", "gender", "language"}
    assert voices["alloy"] == voices["af_alloy"] | {"id": "alloy"}
    assert {"marin", "echo"} <= set(voices)
    assert "onyx" not in voices  # its voice is not there


def test_the_operator_sets_which_voices_the_names_mean(speaker: Speaker) -> None:
    speaker.service.cli("settings", "set", "openai_voices", f"alloy={ESPEAK},mine=af_heart")
    try:
        voices = {voice["id"]: voice for voice in speaker.voices()}
        assert voices["alloy"] == voices[ESPEAK] | {"id": "alloy"}
        assert "marin" not in voices
        for name in ("mine", "marin"):
            assert speaker.post(voice=name, response_format="pcm").status == 200
    finally:
        speaker.service.cli("settings", "set", "openai_voices", DEFAULT_VOICES)
    for value, why in (
        ("alloy", "must be NAME=VOICE_ID"),
        ("alloy=nope", "There is no public voice 'nope'."),
    ):
        ended = speaker.service.command("settings", "set", "openai_voices", value)
        assert ended.code == 1 and why in ended.stderr


def test_a_stored_mp3_is_sent_again_in_the_same_format(speaker: Speaker) -> None:
    for kind in ("mp3", "flac"):
        bodies = []
        for _ in range(2):
            data = {"model": "tts-1", "input": TEXT, "response_format": kind}
            headers = {"Idempotency-Key": f"again-{kind}"}
            answer = call(
                "POST", f"{speaker.base_url}/audio/speech", key=speaker.key, data=data, headers=headers
            )
            assert answer.status == 200
            bodies.append(heard(answer.body, kind))
            if kind == "flac":  # spoken now, and then converted from the record
                samples, _ = soundfile.read(io.BytesIO(answer.body))
                assert len(samples) == len(bodies[-1])
        assert answer.headers["x-units-cost"] == "0"
        assert abs(len(bodies[0]) - len(bodies[1])) < 0.2 * RATE_HZ


def test_openai_python_streams_speech_to_a_file(speaker: Speaker, tmp_path: Path) -> None:
    client = openai.OpenAI(base_url=speaker.base_url, api_key=speaker.key)
    path = tmp_path / "speech.mp3"
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", voice="coral", input=TEXT, instructions="Be glad.", speed=1.25
    ) as response:
        response.stream_to_file(path)
    assert len(heard(path.read_bytes(), "mp3")) > 0.3 * RATE_HZ
    whole = client.audio.speech.create(model="tts-1", voice="marin", input=TEXT, response_format="wav")
    with wave.open(io.BytesIO(whole.content)) as file:
        samples = len(file.readframes(file.getnframes())) // 2
    assert samples == len(heard(whole.content, "wav")) > 0.3 * RATE_HZ


def test_a_route_charges_its_price(speaker: Speaker) -> None:
    service = speaker.service
    service.cli("route", "add", "audiobook", "--kind", "speech", "--units", "7")
    poor = service.account(units=6).key().plain
    try:
        before = speaker.balance()
        answer = speaker.post(model="audiobook")
        assert (answer.status, answer.headers["x-units-cost"]) == (200, "7")
        assert speaker.balance() == before - 7
        assert len(heard(answer.body, "mp3")) > 0.3 * RATE_HZ
        refused = call(
            "POST", f"{speaker.base_url}/audio/speech", key=poor, data={"model": "audiobook", "input": TEXT}
        )
        assert (refused.status, refused.json["error"]["code"]) == (402, "insufficient_quota")
    finally:
        service.cli("route", "remove", "audiobook")
    assert speaker.refusal(model="audiobook")[:2] == (404, None)


@pytest.fixture(scope="module")
def elsewhere(
    commands: CommandLine,
    forks: Forks | None,
    session_upstream: Upstream,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Service]:
    """A service whose voice is that of another server."""
    folder, env = tmp_path_factory.mktemp("elsewhere"), {"MYNA_SPEECH_KEY": session_upstream.key}
    made = Service(folder, commands, speech=session_upstream.url, env=env, forks=forks).start()
    speaker = Speaker(made)
    wait_until(lambda: speaker.voices() != [], 60, "voices are listed")
    yield made
    assert made.stop() == 0


def test_another_servers_mp3_is_sent_or_converted(elsewhere: Service, session_upstream: Upstream) -> None:
    session_upstream.forget()
    speaker = Speaker(elsewhere)
    for kind in ("mp3", "opus"):
        answer = speaker.post(response_format=kind)
        assert (answer.status, answer.headers["x-myna-channel"]) == (200, DEFAULT_SPEECH)
        assert len(heard(answer.body, kind)) > 0.1 * RATE_HZ
    assert speaker.balance() == UNITS - 2


def test_sound_of_another_server_that_cannot_be_converted_is_refunded(elsewhere: Service) -> None:
    speaker = Speaker(elsewhere)
    answer = speaker.post(input="fault=noise", response_format="wav")
    assert answer.status == 500
    assert "refunded" in answer.json["error"]["message"]
    assert speaker.balance() == UNITS


@pytest.mark.parametrize(("status", "expected"), [(402, 429), (401, 500)])
def test_a_failure_for_the_operator_is_no_reason_to_retry(
    elsewhere: Service, status: int, expected: int
) -> None:
    speaker = Speaker(elsewhere)
    answer = speaker.post(input=f"fault=status:{status}")
    assert (answer.status, answer.headers["x-should-retry"]) == (expected, "false")
    assert "Tell the operator" in answer.json["error"]["message"]
    assert speaker.balance() == UNITS


def test_a_refused_text_is_told_what_the_server_says(elsewhere: Service, session_upstream: Upstream) -> None:
    said = {"detail": {"error": "validation_error", "message": "Speed is too high", "type": "invalid_speed"}}
    session_upstream.behave(f"error:400,0 {json.dumps(said)}")
    refused = Speaker(elsewhere).post().json["error"]
    session_upstream.behave("echo")
    assert (refused["type"], "Speed is too high." in refused["message"]) == ("invalid_speed", True)


def test_a_compute_node_speaks_in_the_language_of_the_request(
    make_service: ServiceMaker, make_node: NodeMaker, tmp_path: Path
) -> None:
    model = tiny_voices.neural(tmp_path / "model", NEURAL)
    speaker = Speaker(make_service(speech="none").start())
    token = speaker.service.cli("node", "enroll", "box")["token"]
    toml = f'[[engine]]\nkind = "kokoro"\nfolder = "{model}"\n'
    make_node(toml).join(speaker.service.root_url, token).start()
    wait_until(lambda: speaker.voices() != [], 60, "voices are listed")
    answer = speaker.post(response_format="flac")
    assert (answer.status, answer.headers["x-myna-channel"]) == (200, "node")
    assert len(heard(answer.body, "flac")) > 0.3 * RATE_HZ
    assert speaker.balance() == UNITS - 1
    english, mandarin = (speaker.post(input="好 no", language=code).body for code in ("en", "zh"))
    assert english and mandarin and english != mandarin
    assert speaker.service.command("audit", "--audio").code == 0


def test_without_a_voice_the_answer_is_503_and_uncharged(make_service: ServiceMaker) -> None:
    speaker = Speaker(make_service(speech="none").start())
    assert speaker.refusal()[0] == 503
