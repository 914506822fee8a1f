"""The embedded Whisper: what it hears, in every format, and what happens when it is killed or too slow."""

import asyncio
import io
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from myna.engines.espeak.engine import Espeak
from myna.engines.interface import EngineLimits, Utterance
from tests.openai_audio.scripted_site import UNITS, Visitor, scripted_site
from tests.openai_audio.test_transcriptions import transcribe
from tests.rig import processes
from tests.rig.processes import proc_file
from tests.rig.samples import RATE_HZ, voice, write_wav
from tests.rig.waiting import until

pytestmark = pytest.mark.slow

SENTENCE = "The train to London leaves from platform two. Please bring your ticket."
WORDS = {"train", "london", "platform", "ticket"}
MODEL = "whisper-1"


@pytest.fixture(scope="module")
async def recording(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """SENTENCE, spoken by espeak."""
    engine = Espeak(EngineLimits(processes=1, queue_max=1, job_deadline_s=60))
    await engine.start()
    path = tmp_path_factory.mktemp("recording") / "a.mp3"
    await engine.speak(Utterance(SENTENCE, "en-us-male-1", 0.9), path, 60)
    await engine.close()
    return path.read_bytes()


@pytest.fixture(scope="module")
async def visitor(tmp_path_factory: pytest.TempPathFactory, whisper_model: Path) -> AsyncIterator[Visitor]:
    folder = tmp_path_factory.mktemp("whisper")
    models = folder / "data" / "models"
    models.mkdir(parents=True)
    (models / "whisper").symlink_to(whisper_model)
    with pytest.MonkeyPatch.context() as patched:
        async with scripted_site(folder, patched) as visitor:
            yield visitor


def words_of(text: str) -> set[str]:
    return {word.strip(".,!?").lower() for word in text.split()}


def children(visitor: Visitor) -> list[int]:
    return [pid for pid in processes.children(os.getpid()) if "engines.media" in proc_file(pid, "cmdline")]


def cpu_s(pid: int) -> float:
    """The processor time of a process."""
    fields = proc_file(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def heard(visitor: Visitor, recording: bytes, *fields: tuple[str, str], **more: Any) -> str:
    answer = await transcribe(visitor, *fields, recording=recording, model=MODEL, **more)
    assert answer.status == 200, answer.body
    assert answer.headers["x-myna-channel"] == "whisper"
    return answer.body.decode()


async def test_a_sentence_is_heard_and_costs_a_unit(visitor: Visitor, recording: bytes) -> None:
    before = await visitor.balance()
    found = json.loads(await heard(visitor, recording))
    assert words_of(found["text"]) >= WORDS
    assert found["usage"]["type"] == "duration" and 2 < found["usage"]["seconds"] < 10
    assert await visitor.balance() == before - 1


async def test_the_verbose_format_has_language_parts_and_words(visitor: Visitor, recording: bytes) -> None:
    fields = (("response_format", "verbose_json"), ("timestamp_granularities[]", "word"))
    found = json.loads(await heard(visitor, recording, *fields))
    assert (found["task"], found["language"]) == ("transcribe", "english")
    assert 2 < found["duration"] < 10
    assert "".join(one["text"] for one in found["segments"]).strip() == found["text"]
    assert words_of(" ".join(one["word"] for one in found["words"])) >= WORDS
    times = [one["start"] for one in found["words"]]
    assert times == sorted(times) and times[-1] < found["duration"]


def noises() -> dict[str, NDArray[np.float32]]:
    """Ten sounds of ten seconds without speech."""
    random = np.random.default_rng(1)
    time = np.arange(10 * RATE_HZ) / RATE_HZ
    white = random.standard_normal(len(time))
    spectrum, hz = np.fft.rfft(white), np.maximum(np.fft.rfftfreq(len(time), 1 / RATE_HZ), 1)
    pink, brown = (np.fft.irfft(spectrum / hz**slope, len(time)) for slope in (0.5, 1.0))
    clicks = white * np.exp(-40 * (time % 0.31))
    found = {
        "silence": np.zeros(len(time)),
        "the last bit": white / 32_768,
        "white": white / 20,
        "pink": pink / abs(pink).max() / 3,
        "brown": brown / abs(brown).max() / 2,
        "hum": sum(np.sin(2 * np.pi * 50 * k * time) for k in (1, 2, 3)) / 10,
        "tone": np.sin(2 * np.pi * 440 * time) / 3,
        "typing": clicks / 10,
        "siren": np.sin(2 * np.pi * 700 * time + 300 * np.sin(np.pi * time)) / 3,
        "noise in the rhythm of speech": pink / abs(pink).max() * np.sin(2 * np.pi * 2 * time) ** 2 / 2,
    }
    return {name: sound.astype(np.float32) for name, sound in found.items()}


async def test_silence_and_noise_have_no_words(visitor: Visitor, tmp_path: Path) -> None:
    for name, sound in noises().items():
        noise = write_wav(tmp_path / "noise.wav", sound).read_bytes()
        assert await heard(visitor, noise, ("response_format", "text")) == "\n", name
    found = json.loads(await heard(visitor, noise, ("response_format", "verbose_json")))
    assert (found["language"], found["duration"], found["segments"]) == ("english", 10.0, [])


async def test_times_are_within_the_recording_and_after_its_silence(
    visitor: Visitor, recording: bytes, tmp_path: Path
) -> None:
    spoken, rate_hz = soundfile.read(io.BytesIO(recording), dtype="float32")
    path = write_wav(
        tmp_path / "late.wav", np.concatenate([np.zeros(6 * rate_hz, np.float32), spoken]), rate_hz
    )
    fields = (("response_format", "verbose_json"), ("timestamp_granularities", "word"))
    found = json.loads(await heard(visitor, path.read_bytes(), *fields))
    assert words_of(found["text"]) >= WORDS
    assert found["duration"] == pytest.approx(6 + len(spoken) / rate_hz, abs=0.01)
    assert 5.5 < found["segments"][0]["start"] < 6.5
    assert max(one["end"] for one in found["segments"] + found["words"]) <= found["duration"]


async def test_a_translation_is_in_english(visitor: Visitor, recording: bytes) -> None:
    fields = (("response_format", "verbose_json"),)
    found = json.loads(await heard(visitor, recording, *fields, path="translations"))
    assert (found["task"], found["language"]) == ("translate", "english")
    assert "London" in found["text"]


@pytest.mark.parametrize(
    ("recording", "fields", "says"),
    [
        (b"<html>" * 99, (), "file: the file is not a recording that Myna can read"),
        (b"ID3\4\0\0\0\0\0\0" + bytes(5000), (), "file: the file breaks off"),
        (None, (("language", "xx"),), "language: Whisper does not know this one"),
    ],
)
async def test_a_recording_that_cannot_be_transcribed_is_400_and_refunded(
    visitor: Visitor, recording: bytes | None, fields: tuple[tuple[str, str], ...], says: str, tmp_path: Path
) -> None:
    before = await visitor.balance()
    sound = recording or write_wav(tmp_path / "a.wav", voice(2)).read_bytes()
    answer = await transcribe(visitor, *fields, recording=sound, model=MODEL)
    assert answer.status == 400
    assert answer.error["message"].startswith(says) and "refunded" in answer.error["message"]
    await visitor.balance_becomes(before)


async def test_a_child_that_is_killed_is_refunded_and_replaced(visitor: Visitor, recording: bytes) -> None:
    await heard(visitor, recording)
    before = await visitor.balance()
    (pid,) = children(visitor)
    idle_s = cpu_s(pid)
    answering = asyncio.create_task(transcribe(visitor, recording=recording, model=MODEL))
    await until(lambda: cpu_s(pid) > idle_s + 0.1)
    os.kill(pid, signal.SIGKILL)
    answer = await answering
    assert (answer.status, answer.error["type"]) == (500, "upstream_error")
    await visitor.balance_becomes(before)
    assert words_of(json.loads(await heard(visitor, recording))["text"]) >= WORDS
    assert children(visitor) != [pid]


async def test_a_recording_that_takes_too_long_is_refunded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whisper_model: Path, recording: bytes
) -> None:
    models = tmp_path / "data" / "models"
    models.mkdir(parents=True)
    (models / "whisper").symlink_to(whisper_model)
    async with scripted_site(tmp_path, monkeypatch, call_deadline_s=0.2) as visitor:
        answer = await transcribe(visitor, recording=recording, model=MODEL)
        assert (answer.status, answer.error["type"]) == (500, "upstream_error")
        await visitor.balance_becomes(UNITS)
