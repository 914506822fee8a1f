"""Neural voices with tiny models and the real library: every family speaks, or raises a clear error."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from demo import tiny_voices
from myna.engines.interface import (
    EngineFailed,
    EngineLimits,
    EngineUnavailable,
    SpeechResult,
    UnsupportedUtterance,
    Utterance,
    VoiceReference,
)
from myna.engines.sherpa.engine import Sherpa, SherpaConfig
from myna.engines.sherpa.models import inspect
from myna.engines.voices import VoiceConfig
from tests.engines.conftest import level, names, started
from tests.rig.samples import write_wav

HAN = "你好，世界。你好！"
ENGLISH = "Hello, world. It costs 3.14!"
LIMITS = EngineLimits(processes=1, queue_max=8, job_deadline_s=60)


def _engine(folder: Path) -> Sherpa:
    return Sherpa(inspect(folder), LIMITS)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
async def vits(models: Path) -> AsyncIterator[Sherpa]:
    async with started(_engine(tiny_voices.vits(models / "小 zh,vits"))) as engine:
        yield engine


@pytest.fixture(scope="module")
async def zipvoice(models: Path) -> AsyncIterator[Sherpa]:
    async with started(_engine(tiny_voices.zipvoice(models / "zipvoice"))) as engine:
        yield engine


def _reference(path: Path, loudness: int = 9000, channels: int = 1) -> VoiceReference:
    """Two seconds of noise that are accepted as a voice."""
    noise = np.random.default_rng(1).normal(0, loudness / 32_768, 32_000)
    write_wav(path, noise if channels == 1 else noise.reshape(-1, channels), 16_000)
    return VoiceReference(path, "你好世界", "zh-CN")


async def _say(
    engine: Sherpa,
    path: Path,
    text: str,
    *,
    voice: int = 0,
    speed: float = 1.0,
    reference: VoiceReference | None = None,
) -> SpeechResult:
    voice_id = engine.voices[voice].voice_id if engine.voices else ""
    return await engine.speak(Utterance(text, voice_id, speed, reference=reference), path, 60)


def _hums(path: Path, model: Path, token: str, speaker: int = 0) -> bool:
    return level(path, tiny_voices.pitch_hz(tiny_voices.token(model, token), speaker)) > 0.004


@pytest.mark.parametrize(
    ("family", "text", "rate_hz"),
    [
        ("vits", HAN, 16_000),
        ("piper", ENGLISH, 16_000),
        ("matcha", HAN, 16_000),
        ("kokoro", ENGLISH, 24_000),
        ("zipvoice", HAN, 24_000),
    ],
)
async def test_a_model_of_each_family_speaks_at_double_speed(
    tmp_path: Path, family: str, text: str, rate_hz: int
) -> None:
    async with started(_engine(getattr(tiny_voices, family)(tmp_path / family))) as engine:
        reference = _reference(tmp_path / "voice.wav") if engine.clones else None
        said = tmp_path / "said"
        said.mkdir()

        plain = await _say(engine, said / "plain.mp3", text, reference=reference)
        quick = await _say(engine, said / "quick.mp3", text, speed=2, reference=reference)
    assert names(said) == ["plain.mp3", "quick.mp3"]
    for spoken, path in ((plain, said / "plain.mp3"), (quick, said / "quick.mp3")):
        sound, found_hz = soundfile.read(path)
        assert found_hz == rate_hz and sound.ndim == 1 and abs(sound).max() > 0.01
        assert len(sound) / rate_hz == pytest.approx(spoken.seconds, abs=0.05)
    assert quick.seconds == pytest.approx(plain.seconds / 2, rel=0.1)


async def test_a_voice_uses_its_own_speaker(vits: Sherpa, models: Path, tmp_path: Path) -> None:
    model = models / "小 zh,vits"
    for speaker in (0, 1):
        await _say(vits, tmp_path / "said.mp3", "你你你", voice=speaker)
        assert _hums(tmp_path / "said.mp3", model, "i3", speaker)
        assert not _hums(tmp_path / "said.mp3", model, "i3", 1 - speaker)
        assert not _hums(tmp_path / "said.mp3", model, "ao3", speaker)


async def test_a_phoneme_model_receives_phonemes(tmp_path: Path) -> None:
    folder = tiny_voices.piper(tmp_path / "piper")
    async with started(_engine(folder)) as engine:
        await _say(engine, tmp_path / "three.mp3", "3 3 3")
        await _say(engine, tmp_path / "hello.mp3", "Hello hello")
    assert _hums(tmp_path / "three.mp3", folder, "θ") and not _hums(tmp_path / "hello.mp3", folder, "θ")
    assert engine.voices[1].language == "en-US"


async def test_a_changed_reference_changes_the_cloned_voice(zipvoice: Sherpa, tmp_path: Path) -> None:
    quiet = _reference(tmp_path / "quiet.wav", 20)
    loud = _reference(tmp_path / "loud.wav", 9000)
    high_tones = []
    for reference in (quiet, loud):
        await _say(zipvoice, tmp_path / "said.mp3", HAN, reference=reference)
        high_tones.append(level(tmp_path / "said.mp3", tiny_voices.CLONE_HIGH_HZ))
    assert high_tones[0] > 1.05 * high_tones[1]

    loud.wav.replace(quiet.wav)
    os.utime(quiet.wav, (1, 1))
    await _say(zipvoice, tmp_path / "said.mp3", HAN, reference=quiet)
    assert level(tmp_path / "said.mp3", tiny_voices.CLONE_HIGH_HZ) == pytest.approx(high_tones[1], rel=0.01)


@pytest.mark.parametrize("what", ["stereo", "garbage", "missing"])
async def test_an_invalid_reference_fails_its_own_call_without_a_path(
    zipvoice: Sherpa, tmp_path: Path, what: str
) -> None:
    reference = _reference(tmp_path / "secret.wav", channels=2 if what == "stereo" else 1)
    if what == "garbage":
        reference.wav.write_bytes(b"RIFF nothing")
    if what == "missing":
        reference.wav.unlink()
    with pytest.raises(EngineFailed) as failure:
        await _say(zipvoice, tmp_path / "said.mp3", HAN, reference=reference)
    assert "secret" not in str(failure.value)
    assert not (tmp_path / "said.mp3").exists()
    await _say(zipvoice, tmp_path / "said.mp3", HAN, reference=_reference(tmp_path / "voice.wav"))


async def test_an_unsupported_utterance_is_refused_before_the_job(
    vits: Sherpa, zipvoice: Sherpa, tmp_path: Path
) -> None:
    reference = _reference(tmp_path / "voice.wav")
    german = VoiceReference(reference.wav, "hallo", "de-DE")
    path = tmp_path / "said.mp3"
    for call in (
        vits.speak(Utterance(HAN, "nobody", 1), path, 60),
        vits.speak(Utterance(HAN, vits.voices[0].voice_id, 4.1), path, 60),
        vits.speak(Utterance(HAN, vits.voices[0].voice_id, 1, reference=reference), path, 60),
        zipvoice.speak(Utterance(HAN, "nobody", 1), path, 60),
        zipvoice.speak(Utterance(HAN, "nobody", 1, reference=german), path, 60),
    ):
        with pytest.raises(UnsupportedUtterance):
            await call
    assert not path.exists()


async def test_a_voice_with_an_unknown_speaker_fails_the_start(tmp_path: Path) -> None:
    folder = tiny_voices.vits(tmp_path / "model")
    voice = VoiceConfig(id="far", name="遥", language="zh-CN", speaker=2)
    engine = Sherpa(SherpaConfig(str(folder), voice=[voice]).model(Path()), LIMITS)
    said = r"^The voice far is speaker 2 of a model that has 2, counted from 0"
    with pytest.raises(EngineUnavailable, match=said):
        await engine.start()
    assert not engine.up() and not engine.pids()


async def test_a_language_without_phonemes_fails_the_start(tmp_path: Path) -> None:
    engine = _engine(tiny_voices.piper(tmp_path / "model", voice="tlh"))
    with pytest.raises(EngineUnavailable, match="no phonemes"):
        await engine.start()
    assert not engine.pids()


@pytest.mark.parametrize("damage", [b"junk", b""])
async def test_a_damaged_model_ends_only_its_process(tmp_path: Path, damage: bytes) -> None:
    folder = tiny_voices.vits(tmp_path / "model")
    (folder / "model.onnx").write_bytes(damage)
    engine = _engine(folder)
    with pytest.raises(EngineUnavailable, match="ended before it was ready"):
        await engine.start()
    assert not engine.pids()


async def test_without_the_extra_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sherpa_onnx.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'sherpa_onnx'\", name='sherpa_onnx')"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(EngineUnavailable, match=r"its extra 'neural'\.$"):
        await _engine(tiny_voices.vits(tmp_path / "model")).start()
