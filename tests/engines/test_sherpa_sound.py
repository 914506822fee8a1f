"""Samples become PCM, also at speeds that the model does not support, and a sound has its loudness."""

from pathlib import Path

import numpy as np
import pytest
import soundfile

from demo import tiny_voices
from myna.audio.loudness import TARGET_LUFS, integrated
from myna.engines.interface import EngineFailed, EngineLimits, Utterance
from myna.engines.sherpa.config import SherpaConfig
from myna.engines.sound import Tempo, is_audible, pcm_of, silence
from tests.engines.conftest import started

RATE_HZ = 24_000
LIMITS = EngineLimits(processes=1, queue_max=4, job_deadline_s=60)


def _voice(seconds: float) -> bytes:
    """A tone with the period of a voice."""
    at = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    overtones = [0.1 / n * np.sin(2 * np.pi * 130 * n * at) for n in range(1, 6)]
    return pcm_of(np.sum(overtones, axis=0).astype(np.float32))


@pytest.mark.parametrize("speed", [0.25, 0.4, 0.8, 1.0, 1.3, 2.0, 3.0, 4.0])
def test_every_speed_is_reached(speed: float) -> None:
    pcm, tempo = _voice(6), Tempo(RATE_HZ, speed)
    said = (
        b"".join(tempo.feed(pcm[begin : begin + 9000]) for begin in range(0, len(pcm), 9000)) + tempo.flush()
    )
    assert len(said) / len(pcm) == pytest.approx(1 / speed, rel=0.04)
    assert is_audible(said)


def test_samples_out_of_range_are_clipped() -> None:
    pcm = pcm_of(np.array([0, 1, -1, 7, -7, 0.5], np.float32))
    assert np.frombuffer(pcm, "<i2").tolist() == [0, 32767, -32767, 32767, -32767, 16383]


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_nan_sample_is_an_error(bad: float) -> None:
    with pytest.raises(EngineFailed, match="not finite"):
        pcm_of(np.array([0, bad], np.float32))


def test_silence_has_the_requested_length_and_is_inaudible() -> None:
    pcm = silence(0.25, RATE_HZ)
    assert len(pcm) == 2 * 6000 and not is_audible(pcm) and not is_audible(b"")


@pytest.mark.anyio
@pytest.mark.parametrize("loudness", [0.03, 0.9])
async def test_a_voice_has_the_loudness_of_all_voices(tmp_path: Path, loudness: float) -> None:
    folder = tiny_voices.vits(tmp_path / "model", loudness=loudness)
    async with started(SherpaConfig(str(folder)).build(LIMITS, Path())) as engine:
        await engine.speak(Utterance("你好", engine.voices[0].voice_id, 1.0), tmp_path / "said.mp3", 60)
    samples, rate_hz = soundfile.read(tmp_path / "said.mp3", dtype="float32")
    assert integrated(samples, rate_hz) == pytest.approx(TARGET_LUFS, abs=1)
