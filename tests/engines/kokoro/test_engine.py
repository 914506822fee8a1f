"""The embedded neural voice with a tiny model and the real runtime."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import soundfile

from demo import tiny_voices
from myna.engines.audio import word_times
from myna.engines.interface import (
    Client,
    EngineFailed,
    EngineLimits,
    EngineUnavailable,
    NothingSpoken,
    SoundTooLong,
    SpeechResult,
    Utterance,
)
from myna.engines.kokoro.engine import Kokoro, KokoroConfig
from myna.engines.kokoro.job import RATE_HZ, PieceJob, PieceSound
from myna.engines.pool.pool import Pool
from myna.errors import ConfigError
from tests.engines.conftest import kokoro, mean_hz, names, started
from tests.engines.kokoro.test_text import pieces

pytestmark = pytest.mark.anyio

VOICE_IDS = ["zf_xiaobei", "af_heart"]
LIMITS = EngineLimits(processes=2, queue_max=4, job_deadline_s=60)
SENTENCES = "你好，世界。今天天气很好！我们去公园吧。"
DEADLINE_S = 60.0
SYMBOL_S = 0.08  # the tiny model speaks each symbol and both ends for this long
TRIMMED_S = 0.1  # silence that is cut off a piece, at most


def said(text: str = SENTENCES, voice_id: str = "zf_xiaobei", **more: float) -> Utterance:
    speed = more.pop("speed", 1.0)
    return Utterance(text=text, voice_id=voice_id, speed=speed, **more)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_voices.neural(tmp_path_factory.mktemp("models") / "小 kokoro", VOICE_IDS)


@pytest.fixture(scope="module")
async def engine(model: Path, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Kokoro]:
    async with started(kokoro(model, 2, queue_max=30), writes=(tmp_path_factory.mktemp("audio"),)) as engine:
        yield engine


async def test_the_voices_are_those_whose_files_are_there(engine: Kokoro) -> None:
    assert [voice.voice_id for voice in engine.voices] == VOICE_IDS
    assert [voice.language for voice in engine.voices] == ["zh-CN", "en-US"]


async def test_a_text_becomes_an_mp3_of_24_khz(engine: Kokoro, tmp_path: Path) -> None:
    spoken = await engine.speak(said(), tmp_path / "a.mp3", DEADLINE_S)
    info = soundfile.info(tmp_path / "a.mp3")
    assert (info.samplerate, info.channels, info.format) == (RATE_HZ, 1, "MP3")
    assert spoken.seconds == pytest.approx(info.duration, abs=0.1)
    assert spoken.size_bytes == (tmp_path / "a.mp3").stat().st_size
    assert spoken.work_s > 0
    assert names(tmp_path) == ["a.mp3"]


async def test_the_parts_of_a_sound_come_in_the_order_of_the_text(engine: Kokoro) -> None:
    whole = [
        await _pcm(engine, sentence) for sentence in ("你好，世界。", "今天天气很好！", "我们去公园吧。")
    ]
    async with aclosing(engine.sound(said(), DEADLINE_S)) as parts:
        heard = [part.pcm async for part in parts]
    assert [len(_stripped(pcm)) for pcm in heard] == [len(_stripped(pcm)) for pcm in whole]


@pytest.mark.parametrize("speed", [0.5, 1.0, 2.0])
async def test_the_times_of_words_are_those_of_their_tokens(
    engine: Kokoro, tmp_path: Path, speed: float
) -> None:
    """A token of the tiny model takes 0.08 s."""
    path = tmp_path / "a.mp3"
    await engine.speak(said("你好，世界。我。", speed=speed), path, DEADLINE_S)
    words = word_times.read(path)
    assert [word.text for word in words] == ["你好，", "世界。", "我。"]
    token_s = 0.08 / speed
    begins = [word.begin_s for word in words]
    assert 0 <= begins[0] <= token_s
    assert begins[1] - begins[0] == pytest.approx(len("ni↗xau↓, ") * token_s, abs=0.05)
    assert words[0].end_s - begins[0] == pytest.approx(len("ni↗xau↓") * token_s, abs=0.05)
    assert begins[1] < words[1].end_s < begins[2] < words[2].end_s < soundfile.info(path).duration


async def _pcm(engine: Kokoro, text: str) -> bytes:
    async with aclosing(engine.sound(said(text), DEADLINE_S)) as parts:
        return b"".join([part.pcm async for part in parts])


def _stripped(pcm: bytes) -> bytes:
    """Without the pause at its end."""
    return pcm.rstrip(b"\0")


@pytest.mark.parametrize("speed", [0.25, 1.25, 4.0])
async def test_the_speed_changes_the_duration(engine: Kokoro, tmp_path: Path, speed: float) -> None:
    plain = await engine.speak(said(), tmp_path / "plain.mp3", DEADLINE_S)
    changed = await engine.speak(said(speed=speed), tmp_path / "changed.mp3", DEADLINE_S)
    assert changed.seconds * speed == pytest.approx(plain.seconds, rel=0.1)


async def test_a_mandarin_voice_speaks_english_in_a_style_between_both(
    engine: Kokoro, tmp_path: Path
) -> None:
    """The tiny model's English voice hums 2,000 Hz higher than its Mandarin voice, by the first half of its
    style, of which the mixture has 0.6."""
    for voice_id in VOICE_IDS:
        await engine.speak(said("Hello.", voice_id), tmp_path / f"{voice_id}.mp3", DEADLINE_S)
    low, high = (mean_hz(tmp_path / f"{voice_id}.mp3") for voice_id in VOICE_IDS)
    assert high - low == pytest.approx(800, rel=0.1)


async def test_progress_ends_at_1(engine: Kokoro, tmp_path: Path) -> None:
    fractions: list[float] = []
    await engine.speak(said(), tmp_path / "a.mp3", DEADLINE_S, Client(progress=fractions.append))
    assert fractions == sorted(fractions)
    assert len(fractions) == 3
    assert fractions[-1] == 1


@pytest.mark.parametrize("text", ["ภาษาไทย", "🎉🎉", "..."])
async def test_a_text_without_a_sound_fails(engine: Kokoro, tmp_path: Path, text: str) -> None:
    with pytest.raises(NothingSpoken):
        await engine.speak(said(text), tmp_path / "a.mp3", DEADLINE_S)
    assert not names(tmp_path)


async def test_a_sound_over_the_limit_fails_and_leaves_no_file(engine: Kokoro, tmp_path: Path) -> None:
    with pytest.raises(SoundTooLong):
        await engine.speak(said(sound_max_s=1.0), tmp_path / "a.mp3", DEADLINE_S)
    assert not names(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\x08\x08" + bytes(1000)])
async def test_a_damaged_model_is_unavailable(model: Path, tmp_path: Path, content: bytes) -> None:
    damaged = tiny_voices.neural(tmp_path / "kokoro", VOICE_IDS)
    (damaged / "model.onnx").write_bytes(content)
    engine = kokoro(damaged)
    with pytest.raises(EngineUnavailable, match="get it again: myna models get kokoro"):
        await engine.start()
    assert not engine.up()


async def test_without_onnxruntime_the_engine_is_unavailable(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onnxruntime.py").write_text("raise ImportError('libstdc++.so.6: version not found')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    engine = kokoro(model)
    with pytest.raises(EngineUnavailable, match=r"^onnxruntime can't be loaded; it has wheels for"):
        await engine.start()
    assert not engine.up() and not engine.pids()


async def test_a_damaged_voice_fails_alone(tmp_path: Path) -> None:
    model = tiny_voices.neural(tmp_path / "kokoro", VOICE_IDS)
    (model / "voices" / "af_heart.bin").write_bytes(b"short")
    async with started(kokoro(model)) as engine:
        with pytest.raises(EngineFailed, match="the voice af_heart is missing or damaged"):
            await engine.speak(said("Hello.", "af_heart"), tmp_path / "a.mp3", DEADLINE_S)
        assert (await engine.speak(said(), tmp_path / "b.mp3", DEADLINE_S)).seconds > 0


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no model\.onnx in .*: myna models get kokoro"):
        KokoroConfig("nowhere").build(LIMITS, tmp_path)


def test_a_voice_that_is_not_there_is_refused(model: Path) -> None:
    with pytest.raises(ConfigError, match="there is no 'zf_xiaoni'; there are zf_xiaobei, af_heart"):
        KokoroConfig(str(model), voices=["zf_xiaoni"]).build(LIMITS, Path())


async def test_the_first_piece_for_a_listener_is_spoken_alone(
    engine: Kokoro, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    run = Pool.run

    async def speak(pool: Pool[PieceSound], job: Any, *limits: Any, **more: Any) -> PieceSound:
        if not isinstance(job, PieceJob):
            return await run(pool, job, *limits, **more)
        begun.append(job.phonemes)
        await asyncio.sleep(0.01)
        return PieceSound(bytes(2), 0.0)

    monkeypatch.setattr(Pool, "run", speak)
    async with aclosing(engine.sound(said(), DEADLINE_S, Client(relay=lambda parts: parts))) as sound:
        await anext(sound)
        assert len(begun) == 1
        await anext(sound)
        assert len(begun) == 3


def expected_s(text: str) -> float:
    """The length of the tiny model's sound of all symbols of the text, with the pauses."""
    found = pieces(text)
    return sum((len(piece.phonemes) + 2) * SYMBOL_S + piece.pause_s for piece in found)


async def test_a_sound_of_many_minutes_is_written_to_its_end(engine: Kokoro, tmp_path: Path) -> None:
    text = "今天天气很好，我们去公园吧。" * 70
    expected = expected_s(text)
    spoken = await engine.speak(said(text), tmp_path / "long.mp3", DEADLINE_S)
    assert expected > 300
    assert expected - len(pieces(text)) * TRIMMED_S < spoken.seconds <= expected + 0.1
    assert soundfile.info(tmp_path / "long.mp3").duration == pytest.approx(spoken.seconds, abs=0.1)


async def test_requests_that_are_cancelled_in_the_middle_harm_no_other(
    engine: Kokoro, tmp_path: Path
) -> None:
    async def speak(number: int) -> SpeechResult:
        text = "今天天气很好。我们去公园吧！" * 3
        return await engine.speak(said(text), tmp_path / f"{number}.mp3", DEADLINE_S)

    speaking = [asyncio.create_task(speak(number)) for number in range(9)]
    await asyncio.sleep(0)
    for task in speaking[::3]:
        task.cancel()
    results = await asyncio.gather(*speaking, return_exceptions=True)
    assert all(isinstance(result, asyncio.CancelledError) for result in results[::3])
    others = [result for number, result in enumerate(results) if number % 3]
    assert not [result for result in others if isinstance(result, EngineFailed)]
    assert names(tmp_path) == [f"{number}.mp3" for number in range(9) if number % 3]
