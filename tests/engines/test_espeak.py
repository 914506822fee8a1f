"""The real engine: every voice speaks at the requested speed, into a file that is complete or missing."""

import asyncio
import os
import signal
from pathlib import Path

import pytest
import soundfile

from myna.engines.espeak.engine import VOICES, Espeak
from myna.engines.interface import (
    Client,
    EngineCrashed,
    EngineLimits,
    EngineTimedOut,
    NothingSpoken,
    SoundTooLong,
    SpeechResult,
    UnsupportedUtterance,
    Utterance,
)
from tests.engines.conftest import names, started
from tests.rig.processes import cpu_ticks, runs
from tests.rig.waiting import until

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
async def test_a_silent_text_is_refused_and_leaves_no_file(espeak: Espeak, tmp_path: Path, text: str) -> None:
    with pytest.raises(NothingSpoken):
        await _say(espeak, tmp_path / "said.mp3", text)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("text", "voice_id", "unspoken"),
    [
        ("你好😀😀 → привет ★ ᏣᎳᎩ，5€，½，C#。", _PLAIN, {"Emoji": 2, "Sign": 2, "Cherokee": 3}),
        ("Hello 😀 → ★ 你好☆", "en-us-male-1", {"Sign": 2}),
        ("你好，hello。", _PLAIN, {}),
    ],
)
async def test_characters_without_a_sound_are_counted(
    espeak: Espeak, tmp_path: Path, text: str, voice_id: str, unspoken: dict[str, int]
) -> None:
    counted: dict[str, int] = {}
    utterance = Utterance(text, voice_id, 1.0)
    await espeak.speak(utterance, tmp_path / "a.mp3", 60, Client(unspoken=counted.update))
    assert counted == unspoken


async def test_an_unknown_voice_or_speed_never_reaches_the_engine(espeak: Espeak, tmp_path: Path) -> None:
    for utterance in (
        Utterance("你好", "cmn+f3", 1.0),
        Utterance("你好", _PLAIN, 0.2),
        Utterance("你好", _PLAIN, 4.1),
        Utterance("你好", _PLAIN, float("nan")),
    ):
        with pytest.raises(UnsupportedUtterance):
            await espeak.speak(utterance, tmp_path / "said.mp3", 10)


async def _speaking(espeak: Espeak, path: Path, times: int = 140) -> "asyncio.Task[SpeechResult]":
    """A long job whose file is being written."""
    job = asyncio.create_task(_say(espeak, path, "今天天气很好，" * times))
    await until(lambda: bool(names(path.parent)))
    return job


async def test_children_killed_while_speaking_leave_no_file_and_the_next_job_works(tmp_path: Path) -> None:
    async with started(Espeak(EngineLimits(processes=1, queue_max=5, job_deadline_s=60))) as espeak:
        job = await _speaking(espeak, tmp_path / "said.mp3", times=5000)
        [first] = espeak.pids()

        os.kill(first, signal.SIGKILL)
        # More CPU time than a process takes to start.
        await until(lambda: first not in espeak.pids() and any(cpu_ticks(pid) > 100 for pid in espeak.pids()))
        os.kill(espeak.pids()[0], signal.SIGKILL)

        with pytest.raises(EngineCrashed):
            await job
        assert names(tmp_path) == []
        assert (await _say(espeak, tmp_path / "said.mp3", "你好")).seconds > 0.3


async def test_a_job_over_its_deadline_or_cancelled_leaves_no_file(tmp_path: Path) -> None:
    async with started(Espeak(EngineLimits(processes=1, queue_max=5, job_deadline_s=60))) as espeak:
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


@pytest.mark.parametrize("voice", _ONE_OF_EACH, ids=lambda v: v.voice_id)
async def test_every_voice_speaks_digits_in_any_form(espeak: Espeak, tmp_path: Path, voice) -> None:  # type: ignore[no-untyped-def]
    for text in ("１２３", "①②", "٣٤", "ⅷ", "½", "¾", "⅛", "²", "❶", "〣", "⼀"):
        said = await _say(espeak, tmp_path / "said.mp3", text, voice.voice_id)
        assert said.seconds > 0.3, text


@pytest.mark.parametrize(
    "odd",
    [
        "你好\0，今天天气很好",
        "你好\x01\x1b，今天天气很好\x7f",
        "你好\ud800，今天天气很好👍",
        "你\u200b好，今天天气很好",
    ],
)
async def test_an_unspeakable_character_drops_no_other_text(espeak: Espeak, tmp_path: Path, odd: str) -> None:
    plain = await _say(espeak, tmp_path / "plain.mp3", "你好，今天天气很好")
    said = await _say(espeak, tmp_path / "odd.mp3", odd)
    assert said.seconds == pytest.approx(plain.seconds, rel=0.1)


@pytest.mark.parametrize(
    ("word", "voice_id"),
    [
        ("7", _PLAIN),
        ("1234567, ", "en-us-male-1"),
        ("ж", _PLAIN),
        ("好", "yue-male-1"),
        ("supercalifragilistic", "en-us-male-1"),
        ("fine ", _PLAIN),
        ("今天天气很好", _PLAIN),
    ],
)
async def test_a_text_without_stops_is_spoken_to_its_end(
    espeak: Espeak, tmp_path: Path, word: str, voice_id: str
) -> None:
    few = await _say(espeak, tmp_path / "few.mp3", word * 10, voice_id)
    many = await _say(espeak, tmp_path / "many.mp3", word * 50, voice_id)
    assert many.seconds == pytest.approx(5 * few.seconds, rel=0.2)
