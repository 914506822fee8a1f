"""The real engine: every voice speaks at the requested speed, into a file that is complete or missing."""

import asyncio
import hashlib
import os
import signal
from pathlib import Path

import pytest
import soundfile

from myna.engines.espeak.engine import VOICES, Espeak
from myna.engines.interface import (
    EngineTimedOut,
    NothingSpoken,
    SoundTooLong,
    SpeechResult,
    UnsupportedUtterance,
    Utterance,
)
from tests.engines.conftest import names, started, until
from tests.rig.processes import runs

pytestmark = pytest.mark.anyio


_SENTENCES = {
    "zh-CN": "今天天气很好，我们一起去公园散步吧。",
    "zh-HK": "今日天氣好好，我哋一齊去公園散步啦。",
    "en-US": "The weather is lovely today, shall we go for a walk in the park?",
    "en-GB": "The weather is lovely today, shall we go for a walk in the park?",
}
_PLAIN = VOICES[0].voice_id
_ONE_OF_EACH = list({voice.language: voice for voice in VOICES}.values())
"""A voice of each language."""


async def _say(
    espeak: Espeak, path: Path, text: str, voice_id: str = _PLAIN, speed: float = 1.0
) -> SpeechResult:
    return await espeak.speak(Utterance(text, voice_id, speed), path, 60)


def _decoded_seconds(path: Path) -> float:
    """The length as a player finds it; fails when the file is silent, or isn't mono of 22 kHz."""
    sound, rate_hz = soundfile.read(path)
    assert sound.ndim == 1 and rate_hz == 22050
    assert abs(sound).max() > 0.1
    return float(len(sound) / rate_hz)


@pytest.mark.parametrize("voice", _ONE_OF_EACH, ids=lambda voice: voice.voice_id)
async def test_a_voice_speaks_at_the_requested_speed(espeak: Espeak, tmp_path: Path, voice) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "said.mp3"
    text = _SENTENCES[voice.language]
    await _say(espeak, path, text, voice.voice_id)
    plain_s = _decoded_seconds(path)
    assert 2 < plain_s < 8

    for speed in (0.25, 0.75, 1.5, 4):
        await _say(espeak, path, text, voice.voice_id, speed)
        assert _decoded_seconds(path) == pytest.approx(plain_s / speed, rel=0.05), speed


async def test_the_result_has_the_length_size_and_hash_of_the_file(espeak: Espeak, tmp_path: Path) -> None:
    path = tmp_path / "said.mp3"
    said = await _say(espeak, path, "你好，世界。")
    content = path.read_bytes()
    assert said.size_bytes == len(content)
    assert said.sha256 == hashlib.sha256(content).digest()
    assert said.seconds == pytest.approx(_decoded_seconds(path), abs=0.001)
    assert names(tmp_path) == ["said.mp3"]


@pytest.mark.parametrize("language", ["en-US", "en-GB"])
async def test_an_english_voice_speaks_han_with_a_chinese_voice(
    espeak: Espeak, tmp_path: Path, language: str
) -> None:
    """Its own reading, "Chinese letter" ten times, takes some 9 s; ten Han characters take 2 to 4."""
    voice = next(voice for voice in VOICES if voice.language == language)
    said = await _say(espeak, tmp_path / "han.mp3", "今天天气很好出去散步", voice.voice_id)
    assert 1.5 < said.seconds < 4.5
    mixed = await _say(espeak, tmp_path / "mixed.mp3", "She said 今天天气很好 to me.", voice.voice_id)
    assert 2 < mixed.seconds < 4.5


@pytest.mark.parametrize("text", ["", "   ", "👍", "，。！？", "\0\x07\u200b", "…"])
async def test_a_text_without_sound_is_refused_and_leaves_no_file(
    espeak: Espeak, tmp_path: Path, text: str
) -> None:
    with pytest.raises(NothingSpoken):
        await _say(espeak, tmp_path / "said.mp3", text)
    assert names(tmp_path) == []


async def test_an_unknown_voice_or_speed_never_reaches_the_engine(espeak: Espeak, tmp_path: Path) -> None:
    for utterance in (
        Utterance("你好", "cmn+f3", 1.0),
        Utterance("你好", _PLAIN, 0.2),
        Utterance("你好", _PLAIN, 4.1),
        Utterance("你好", _PLAIN, float("nan")),
    ):
        with pytest.raises(UnsupportedUtterance):
            await espeak.speak(utterance, tmp_path / "said.mp3", 10)


async def _speaking(espeak: Espeak, path: Path) -> "asyncio.Task[SpeechResult]":
    """A long job whose file is being written."""
    job = asyncio.create_task(_say(espeak, path, "今天天气很好，" * 140))
    await until(lambda: bool(names(path.parent)))
    return job


async def test_a_text_whose_child_is_killed_is_spoken_by_the_next_one(tmp_path: Path) -> None:
    async with started(Espeak(processes=1, queue_max=5, job_deadline_s=60)) as espeak:
        job = await _speaking(espeak, tmp_path / "said.mp3")

        os.kill(espeak.pids()[0], signal.SIGKILL)

        await job
        assert names(tmp_path) == ["said.mp3"]
        assert (await _say(espeak, tmp_path / "said.mp3", "你好")).seconds > 0.3


async def test_a_job_over_its_deadline_or_cancelled_leaves_no_file(tmp_path: Path) -> None:
    async with started(Espeak(processes=1, queue_max=5, job_deadline_s=60)) as espeak:
        [pid] = espeak.pids()

        job = await _speaking(espeak, tmp_path / "said.mp3")
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        assert names(tmp_path) == [] and not runs(pid)

        await until(lambda: espeak.pids() != [pid])
        with pytest.raises(EngineTimedOut):
            await espeak.speak(Utterance("今天天气很好，" * 140, _PLAIN, 0.25), tmp_path / "said.mp3", 0.5)
        assert names(tmp_path) == []


@pytest.mark.parametrize("speed", [1.0, 0.25])
async def test_a_sound_over_its_limit_is_refused_and_leaves_no_file(
    espeak: Espeak, tmp_path: Path, speed: float
) -> None:
    path = tmp_path / "said.mp3"
    with pytest.raises(SoundTooLong):
        await espeak.speak(Utterance("今天天气很好，" * 10, _PLAIN, speed, sound_max_s=3.0), path, 60)
    assert names(tmp_path) == []
    assert (await espeak.speak(Utterance("你好", _PLAIN, 1.0, sound_max_s=3.0), path, 60)).seconds < 3
