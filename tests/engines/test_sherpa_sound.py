"""Samples become PCM, also at speeds that the model does not support."""

import numpy as np
import pytest

from myna.engines.interface import EngineFailed
from myna.engines.sound import Tempo, is_audible, pcm_of, silence

RATE_HZ = 24_000


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
