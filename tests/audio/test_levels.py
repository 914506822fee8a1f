"""The loudness of a recording, and how much of it is voice above the background."""

import numpy as np
import pytest
from numpy.typing import NDArray

from myna.audio.levels import clipped, levels
from tests.rig.samples import voice

_RATE_HZ = 24_000
_Noise = np.random.Generator


@pytest.fixture
def noise() -> _Noise:
    return np.random.default_rng(1)


def _tone(seconds: float, peak: float) -> NDArray[np.float32]:
    time = np.arange(round(seconds * _RATE_HZ)) / _RATE_HZ
    return (peak * np.sin(2 * np.pi * 220 * time)).astype(np.float32)


def _silence(seconds: float) -> NDArray[np.float32]:
    return np.zeros(round(seconds * _RATE_HZ), np.float32)


def _white(noise: _Noise, seconds: float, rms: float) -> NDArray[np.float32]:
    return noise.normal(0, rms, round(seconds * _RATE_HZ)).astype(np.float32)


def _rms(sound: NDArray[np.float32]) -> float:
    return float(np.sqrt(np.mean(sound * sound)))


@pytest.mark.parametrize(("peak", "decibels"), [(1.0, -3.0), (0.1, -23.0), (0.001, -63.0)])
def test_the_level_of_a_tone_is_its_power(peak: float, decibels: float) -> None:
    assert levels(_tone(5, peak), _RATE_HZ).loud_db == pytest.approx(decibels, abs=0.1)


def test_silence_has_the_lowest_level() -> None:
    assert levels(_silence(5), _RATE_HZ) == (-70.0, 0.0)


def test_a_click_does_not_make_a_recording_loud() -> None:
    sound = _silence(5)
    sound[60_000:60_200] = 0.9
    assert levels(sound, _RATE_HZ).loud_db == -70.0


def test_one_second_of_sound_among_silence_has_its_level() -> None:
    sound = np.concatenate([_silence(10), _tone(1.1, 0.1), _silence(10)])
    assert levels(sound, _RATE_HZ).loud_db == pytest.approx(-23.0, abs=0.2)


@pytest.mark.parametrize("rate_hz", [16_000, 24_000, 48_000])
def test_speech_except_its_pauses_is_voice_at_any_sample_rate(rate_hz: int) -> None:
    found = levels(voice(10, rate_hz), rate_hz)
    assert 8 < found.voice_s < 9
    assert -30 < found.loud_db < -10


@pytest.mark.parametrize(("below_db", "least_s", "most_s"), [(40, 8, 9), (15, 4, 8), (0, 0, 1)])
def test_louder_noise_leaves_less_voice(
    noise: _Noise, below_db: float, least_s: float, most_s: float
) -> None:
    sound = voice(10)
    sound += _white(noise, 10, _rms(sound) * 10 ** (-below_db / 20))
    assert least_s <= levels(sound, _RATE_HZ).voice_s <= most_s


def test_neither_a_tone_nor_noise_is_voice(noise: _Noise) -> None:
    assert levels(_tone(30, 0.3), _RATE_HZ).voice_s == 0
    assert levels(_white(noise, 30, 0.1), _RATE_HZ).voice_s == 0


def test_voice_is_counted_however_much_silence_is_around_it() -> None:
    alone = levels(voice(6), _RATE_HZ).voice_s
    among = levels(np.concatenate([_silence(25), voice(6), _silence(25)]), _RATE_HZ).voice_s
    assert among == pytest.approx(alone, abs=0.1)


def test_full_scale_samples_count_as_clipped_in_every_channel() -> None:
    sound = np.array([[0.5, -1.0], [0.9989, 0.9991], [1.5, -0.2]], np.float32)
    assert clipped(sound) == 3
