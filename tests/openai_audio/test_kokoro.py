"""The real neural voice: Whisper understands it in every format, and its first sentence leaves early."""

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from myna.engines.audio.encoders import FORMATS
from myna.wire.openai import SpeechFormat
from tests.rig.commands import CommandLine
from tests.rig.service import Service

pytestmark = pytest.mark.slow

TEXT = "The train to London leaves from platform two."
WORDS = {"train", "london", "platform"}
LONG = (
    "This is the first sentence. The second one is about the weather, which is fine today, and about the sea."
    " The third sentence tells how the ships leave the harbour in the morning and come back in the evening."
    " The fourth sentence is the last one, and it ends this text of three hundred characters."
)


@pytest.fixture(scope="module")
def service(
    commands: CommandLine, tmp_path_factory: pytest.TempPathFactory, kokoro_model: Path, whisper_model: Path
) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("kokoro")
    models = folder / "data" / "models"
    models.mkdir(parents=True)
    (models / "kokoro").symlink_to(kokoro_model)
    (models / "whisper").symlink_to(whisper_model)
    running = Service(folder, commands, chat_url="parrot:", speech="kokoro").start()
    yield running
    assert running.command("audit", "--audio").code == 0
    assert running.stop() == 0


@pytest.fixture(scope="module")
def client(service: Service) -> openai.OpenAI:
    key = service.account(units=1000).key().plain
    return openai.OpenAI(base_url=f"{service.root_url}/openai/v1", api_key=key, timeout=280)


READABLE = [one for one in FORMATS if one != "pcm"]
"""What a recording may be. Raw samples are not among it."""


@pytest.mark.parametrize("kind", READABLE)
def test_whisper_understands_each_format(client: openai.OpenAI, kind: SpeechFormat) -> None:
    speech = client.audio.speech.create(model="tts-1", voice="alloy", input=TEXT, response_format=kind)
    heard = client.audio.transcriptions.create(
        model="whisper-1", file=(f"speech.{kind}", speech.content), language="en"
    )
    assert {word.strip(".,").lower() for word in heard.text.split()} >= WORDS


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("zh-CN", "今天天气很好，我们一起去公园散步吧。"),
        ("zh-TW", "今天天氣很好，我們一起去公園散步吧。"),
        (None, "今天天气很好，我们一起去公园散步吧。"),
    ],
)
def test_mandarin_is_in_the_requested_script(client: openai.OpenAI, language: str | None, text: str) -> None:
    speech = client.audio.speech.create(
        model="tts-1", voice="zf_xiaobei", input="今天天气很好，我们一起去公园散步吧。"
    )
    heard = client.audio.transcriptions.create(
        model="whisper-1", file=("speech.mp3", speech.content), language=language or openai.omit
    )
    assert heard.text == text


def test_the_first_sentence_of_a_long_text_leaves_before_the_others_are_spoken(
    service: Service, client: openai.OpenAI
) -> None:
    body = json.dumps({"model": "tts-1", "voice": "alloy", "input": LONG, "response_format": "pcm"})
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=280)
    headers = {"Authorization": f"Bearer {client.api_key}"}
    began = time.monotonic()
    connection.request("POST", "/openai/v1/audio/speech", body, headers)
    response = connection.getresponse()
    assert response.read(1)
    first_s = time.monotonic() - began
    assert response.read()
    whole_s = time.monotonic() - began
    connection.close()
    assert first_s < whole_s / 2
