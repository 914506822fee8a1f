"""The embedded neural voice and blends of its voices, with a tiny model and the real runtime."""

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
    UnsupportedUtterance,
    Utterance,
)
from myna.engines.kokoro.engine import Kokoro, KokoroConfig
from myna.engines.kokoro.job import RATE_HZ, PieceJob, PieceSound
from myna.engines.pool.pool import Pool
from myna.engines.voices import BlendPart, can_make, parts_of
from myna.errors import ConfigError
from tests.engines.conftest import kokoro, mean_hz, names, started
from tests.engines.kokoro.test_text import pieces

VOICE_IDS = ["zf_xiaobei", "zf_xiaoxiao", "af_heart"]
VOICE_HZ = 2000
MANDARIN, MIXED, NUMBER = "你好，世界。", "这个 project 很好。", "1,234,567"
LIMITS = EngineLimits(processes=2, queue_max=4, job_deadline_s=60)
SENTENCES = "你好，世界。今天天气很好！我们去公园吧。"
DEADLINE_S = 60.0
SYMBOL_S = 0.08  # the tiny model speaks each symbol for this long
KEPT_S = 0.06  # silence that is kept at the ends of a piece
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


async def spoken(engine: Kokoro, folder: Path, text: str, voice_id: str) -> Path:
    path = folder / "spoken.mp3"
    await engine.speak(said(text, voice_id), path, DEADLINE_S)
    return path


async def pitch_hz(engine: Kokoro, folder: Path, text: str, voice_id: str) -> float:
    """The mean pitch of a text in a voice or a blend: the tiny model adds VOICE_HZ for each place in
    VOICE_IDS."""
    return mean_hz(await spoken(engine, folder, text, voice_id))


async def seconds(engine: Kokoro, folder: Path, text: str, voice_id: str) -> float:
    return float(soundfile.info(await spoken(engine, folder, text, voice_id)).duration)


async def test_the_voices_are_those_whose_files_are_there(engine: Kokoro) -> None:
    assert [voice.voice_id for voice in engine.voices] == VOICE_IDS
    assert [voice.language for voice in engine.voices] == ["zh-CN", "zh-CN", "en-US"]


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


async def test_a_model_whose_values_have_other_names_speaks_the_same_without_times(
    engine: Kokoro, tmp_path: Path
) -> None:
    """The pitch of the tiny model rises with the share of silence, which is not decoded by their names."""
    other = tiny_voices.neural(tmp_path / "kokoro", VOICE_IDS) / "model.onnx"
    other.write_bytes(other.read_bytes().replace(b"/encoder/Clip_output_0", b"/encoder/Clip_output_1"))
    by_names = await spoken(engine, tmp_path, MANDARIN, "zf_xiaobei")
    hz, length = mean_hz(by_names), soundfile.info(by_names).duration
    assert word_times.read(by_names)
    async with started(kokoro(other.parent)) as whole:
        path = await spoken(whole, tmp_path, MANDARIN, "zf_xiaobei")
    assert (mean_hz(path), soundfile.info(path).duration) == pytest.approx((hz, length), rel=0.005)
    assert not word_times.read(path)


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


async def test_english_words_among_mandarin_ones_are_slower(engine: Kokoro, tmp_path: Path) -> None:
    lengths_s = []
    for text in ("responsibility 国际", "responsibility"):
        await engine.speak(said(text), tmp_path / "a.mp3", DEADLINE_S)
        first, *_ = word_times.read(tmp_path / "a.mp3")
        lengths_s.append(first.end_s - first.begin_s)
    assert lengths_s[0] == pytest.approx(lengths_s[1] / 0.85, abs=0.05)


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


async def test_a_mandarin_voice_speaks_english_in_a_style_of_both(engine: Kokoro, tmp_path: Path) -> None:
    """By the first half of its style, of which the mixture has 0.4."""
    low, high = [await pitch_hz(engine, tmp_path, "Hello.", one) for one in ("zf_xiaobei", "af_heart")]
    assert high - low == pytest.approx(2 * VOICE_HZ * 0.4, rel=0.1)


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


@pytest.mark.parametrize("content", [b"", b"\x08\x08" + bytes(1000), b"\xff" * 1000])
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


def test_a_voice_that_is_not_there_is_refused(model: Path) -> None:
    with pytest.raises(ConfigError, match="there is no 'zf_xiaoni'; there are zf_xiaobei, zf_xiaoxiao"):
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
    return sum(len(piece.phonemes) * SYMBOL_S + KEPT_S + piece.pause_s for piece in found)


async def test_a_sound_of_many_minutes_is_written_to_its_end(engine: Kokoro, tmp_path: Path) -> None:
    text = "今天天气很好，我们去公园吧。" * 70
    expected = expected_s(text)
    spoken = await engine.speak(said(text), tmp_path / "long.mp3", DEADLINE_S)
    assert expected > 300
    assert expected - len(pieces(text)) * TRIMMED_S < spoken.seconds <= expected + 0.1
    assert soundfile.info(tmp_path / "long.mp3").duration == pytest.approx(spoken.seconds, abs=0.1)


async def test_requests_cancelled_in_the_middle_harm_no_other(engine: Kokoro, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("recipe", "number"),
    [
        ("zf_xiaobei:1+zf_xiaoxiao:3", 0.75),
        ("zf_xiaobei:50+zf_xiaoxiao:150", 0.75),
        ("zf_xiaobei+zf_xiaoxiao", 0.5),
        ("zf_xiaobei:2+zf_xiaoxiao:1+af_heart:1", 0.75),
    ],
)
async def test_a_blend_is_the_average_of_its_voices_by_weight(
    engine: Kokoro, tmp_path: Path, recipe: str, number: float
) -> None:
    alone = await pitch_hz(engine, tmp_path, MANDARIN, "zf_xiaobei")
    blended = await pitch_hz(engine, tmp_path, MANDARIN, recipe)
    assert blended - alone == pytest.approx(VOICE_HZ * number, rel=0.05)


async def test_a_mandarin_blend_speaks_english_words_with_a_share_of_the_english_voice(
    engine: Kokoro, tmp_path: Path
) -> None:
    """0.4 of the blend, which is 0.75, and 0.6 of the English voice, which is 2."""
    plain = await pitch_hz(engine, tmp_path, MIXED, "zf_xiaobei")
    blended = await pitch_hz(engine, tmp_path, MIXED, "zf_xiaobei:1+zf_xiaoxiao:3")
    assert blended - plain == pytest.approx(VOICE_HZ * 0.4 * 0.75, rel=0.05)
    english = await pitch_hz(engine, tmp_path, MIXED, "zf_xiaobei:2+af_heart:1")
    assert english - plain == pytest.approx(VOICE_HZ * 0.4 * 2 / 3, rel=0.05)


async def test_the_language_is_that_of_the_largest_part(engine: Kokoro, tmp_path: Path) -> None:
    """A number has other words, and so another length, in each language."""
    mandarin_s = await seconds(engine, tmp_path, NUMBER, "zf_xiaobei")
    english_s = await seconds(engine, tmp_path, NUMBER, "af_heart")
    largest_second_s = await seconds(engine, tmp_path, NUMBER, "af_heart:1+zf_xiaobei:2")
    equal_s = await seconds(engine, tmp_path, NUMBER, "af_heart+zf_xiaobei")
    assert abs(mandarin_s - english_s) > 0.5
    assert (largest_second_s, equal_s) == pytest.approx((mandarin_s, english_s), abs=0.1)


@pytest.mark.parametrize(
    "recipe", ["zf_nobody", "zf_xiaobei+zf_nobody", "zf_xiaobei:0+af_heart:1", "zf_xiaobei:1", "+"]
)
async def test_an_unknown_voice_and_a_recipe_that_cant_be_made_are_refused(
    engine: Kokoro, tmp_path: Path, recipe: str
) -> None:
    with pytest.raises(UnsupportedUtterance, match="does not have this voice"):
        await spoken(engine, tmp_path, MANDARIN, recipe)


@pytest.mark.parametrize(
    ("recipe", "shares"),
    [
        ("a:2+b:1", {"a": 2 / 3, "b": 1 / 3}),
        ("b:1+a:3", {"a": 0.75, "b": 0.25}),
        ("a(2)+b(1)", {"a": 2 / 3, "b": 1 / 3}),
        ("b+a", {"b": 0.5, "a": 0.5}),
        ("a:0.5+b:0.25+c:0.25", {"a": 0.5, "b": 0.25, "c": 0.25}),
        ("a:999.99+b:0.01", {"a": 0.99999, "b": 0.00001}),
        ("a+b+c+d+e", dict.fromkeys("abcde", 0.2)),
    ],
)
def test_the_shares_add_up_to_1_and_the_largest_is_first(recipe: str, shares: dict[str, float]) -> None:
    parts = parts_of(recipe)
    assert [part.voice_id for part in parts] == list(shares)
    assert [part.share for part in parts] == pytest.approx(list(shares.values()))


@pytest.mark.parametrize(
    ("recipe", "reason"),
    [
        ("", "must be voices with their weights, like zf_xiaoxiao:2+zf_xiaobei:1"),
        ("a:1+", "must be voices with their weights"),
        (":1+b:1", "must be voices with their weights"),
        ("a:1", "must be of 2 to 5 voices"),
        ("a+b+c+d+e+f", "must be of 2 to 5 voices"),
        ("a:1+b:1+a:2", "a must be named once"),
        *(
            (f"a:{weight}+b:1", "the weight of a must be a number from 0.01 to 999.99")
            for weight in ("", "0", "0.00", "-1", "1000", "0.001", "1e2", "nan", "１", " 1", "1:1", "1\n")
        ),
    ],
)
def test_a_wrong_recipe_is_explained(recipe: str, reason: str) -> None:
    with pytest.raises(ValueError, match="^" + reason.replace("+", r"\+")):
        parts_of(recipe)


def test_a_recipe_can_be_made_of_the_voices_that_it_names() -> None:
    assert can_make("a:2+b:1", {"a", "b", "c"})
    assert not can_make("a:2+b:1", {"a", "c"})
    assert not can_make("a", {"a"})
    assert parts_of("a+b")[0] == BlendPart("a", 0.5)
