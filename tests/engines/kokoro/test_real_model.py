"""What users of other Kokoro servers report, and what a caller may ask for, with the real model: Whisper
transcribes what it speaks. Without one of the two models these tests fail with the reason."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from msgspec import structs

from listen import sound
from listen.ear import Ear, fetch
from listen.score import score, units
from myna.engines.audio import word_times
from myna.engines.interface import Utterance
from myna.engines.kokoro.child import LoadedModel
from myna.engines.kokoro.engine import Kokoro, has_vnni
from myna.engines.kokoro.job import KokoroModel, PieceJob, StyleShare
from myna.engines.kokoro.symbols import NUMBERS
from tests.engines.conftest import kokoro, started

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]

VOICE_ID = "zf_xiaobei"
DEADLINE_S = 600.0
UNPUNCTUATED = (
    "昨天下午我和几个朋友一起去湖边散步看见许多老人坐在树下聊天孩子们在草地上放风筝"
    "后来天慢慢黑了我们走进一家小饭馆点了几个菜吃完以后才坐地铁回家休息"
)
SENTENCES = "下班以后我想去超市买一点水果。图书馆里非常安静，适合看书学习。外面下雨了，出门记得带伞。"
PAUSES_S = (0.15, 0.7)
"""Silence between two sentences: 0.4 s, with the soft end of one and the soft beginning of the next."""
_FRAME_S = 0.01
_SILENT_DB = -50.0
_LOUD_DB = -38.0


@pytest.fixture(scope="module")
def ear() -> Ear:
    return Ear(fetch(), threads=2)


@pytest.fixture(scope="module")
async def engine(kokoro_model: Path) -> AsyncIterator[Kokoro]:
    async with started(kokoro(kokoro_model, 2, deadline_s=DEADLINE_S)) as engine:
        yield engine


async def spoken(engine: Kokoro, folder: Path, text: str, voice_id: str = VOICE_ID, speed: float = 1) -> Path:
    path = folder / "spoken.mp3"
    await engine.speak(Utterance(text, voice_id, speed), path, DEADLINE_S)
    return path


def silences_s(path: Path) -> list[float]:
    """The lengths of the silences within the sound, not at its ends."""
    samples, rate_hz = sound.read(path)
    size = round(_FRAME_S * rate_hz)
    frames = samples[: len(samples) // size * size].reshape(-1, size)
    loud = np.flatnonzero(np.abs(frames).max(axis=1) > 10 ** (_SILENT_DB / 20))
    return [float(gap - 1) * _FRAME_S for gap in np.diff(loud) if gap > 1]


async def test_a_long_text_without_punctuation_is_heard_to_its_end_without_a_pause(
    engine: Kokoro, ear: Ear, tmp_path: Path
) -> None:
    path = await spoken(engine, tmp_path, UNPUNCTUATED)
    heard = ear.hear(path, "zh")
    assert score(UNPUNCTUATED, heard).rate <= 0.1, heard
    assert units(heard)[-2:] == units(UNPUNCTUATED)[-2:], heard
    assert max(silences_s(path)) < PAUSES_S[1]


async def test_every_sentence_is_heard_to_its_last_word(engine: Kokoro, ear: Ear, tmp_path: Path) -> None:
    path = await spoken(engine, tmp_path, SENTENCES)
    heard = ear.hear(path, "zh")
    assert score(SENTENCES, heard).rate <= 0.05, heard
    pauses = sorted(silences_s(path))[-2:]
    assert PAUSES_S[0] < pauses[0] <= pauses[1] < PAUSES_S[1]


@pytest.mark.parametrize(
    ("text", "voice_id", "speed"),
    [
        (SENTENCES, VOICE_ID, 1.0),
        (SENTENCES, "zm_yunxi", 0.7),
        ("Please bring your ticket, a coat, and a book. The train leaves at nine.", "af_heart", 1.0),
        ("In the end, most of them agreed. Nobody wanted to wait, so we left.", "am_michael", 1.5),
    ],
)
async def test_words_begin_where_their_sound_does(
    engine: Kokoro, tmp_path: Path, text: str, voice_id: str, speed: float
) -> None:
    path = await spoken(engine, tmp_path, text, voice_id, speed)
    words = word_times.read(path)
    assert "".join(word.text for word in words) == text
    samples, rate_hz = sound.read(path)
    size = round(_FRAME_S * rate_hz)
    frames = samples[: len(samples) // size * size].reshape(-1, size)
    loud = np.flatnonzero(np.sqrt((frames**2).mean(axis=1)) > 10 ** (_LOUD_DB / 20))
    after_silence = [loud[0], *loud[1:][np.diff(loud) > 12]]
    assert len(after_silence) >= 2
    for frame in after_silence:
        nearest = min(abs(word.begin_s - frame * _FRAME_S) for word in words)
        assert nearest <= 0.1, (words, frame)


@pytest.mark.parametrize(
    ("phonemes", "voice_id"), [("ni↗xau↓.", VOICE_ID), ("ɡʊd mˈɔɹnɪŋ, hˌaʊ ɑɹ juː?", "af_heart")]
)
def test_the_sound_is_that_of_the_whole_model(kokoro_model: Path, phonemes: str, voice_id: str) -> None:
    """Where silence is neither decoded nor counted in the decoder's means, the sound is 4 to 12 dB softer,
    before its loudness is set."""
    model = LoadedModel(KokoroModel(os.fsencode(kokoro_model), threads=2, provider="cpu"))
    inputs = {
        "tokens": [[0, *(NUMBERS[symbol] for symbol in phonemes), 0]],
        "style": model.style([StyleShare(voice_id, sound=1.0, prosody=1.0)], len(phonemes)),
        "speed": np.array([1.0], np.float32),
    }
    whole = onnxruntime.InferenceSession(kokoro_model / "model.onnx").run(None, inputs)[0]
    found = model.run(inputs)
    assert len(found.samples) < 0.85 * len(whole)
    levels = [
        10 * np.log10((samples.reshape(-1, 600) ** 2).mean(axis=1))
        for samples in (whole[found.before :][: len(found.samples)], found.samples)
    ]
    differences = (levels[1] - levels[0])[levels[0] > _LOUD_DB]
    assert abs(differences.mean()) < 0.7 and differences.std() < 1.5


@pytest.mark.skipif(not has_vnni(), reason="The processor has no VNNI.")
def test_bytes_with_signs_make_the_same_sound(kokoro_model: Path) -> None:
    job = PieceJob("ni↗xau↓.", [StyleShare(VOICE_ID, sound=1.0, prosody=1.0)], 1.0)
    model = KokoroModel(os.fsencode(kokoro_model), threads=2, provider="cpu")
    without, signed = [
        LoadedModel(structs.replace(model, signed=signed)).speak(job).pcm for signed in (False, True)
    ]
    assert signed == without


@pytest.mark.parametrize(
    ("text", "voice_id"),
    [("好的。", VOICE_ID), ("谢谢", VOICE_ID), ("Yes.", "af_heart"), ("Thank you", "af_heart")],
)
async def test_a_very_short_text_is_heard(
    engine: Kokoro, ear: Ear, tmp_path: Path, text: str, voice_id: str
) -> None:
    path = await spoken(engine, tmp_path, text, voice_id)
    heard = ear.hear(path, "en" if voice_id == "af_heart" else "zh")
    assert units(heard)[: len(units(text))] == units(text), heard  # Whisper may add words
    samples, rate_hz = sound.read(path)
    assert 0.25 < len(samples) / rate_hz < 1.5
    assert sound.loudness_lufs(samples, rate_hz) == pytest.approx(-18, abs=1.5)
