"""Levels, loudness and encoders."""

import numpy as np
import numpy.typing as npt
import pytest
import soxr

from myna.engines.audio.loudness import (
    PEAK_MAX_DBTP,
    TARGET_LUFS,
    Leveller,
    integrated,
    levelled,
    levels,
    limited,
)
from tests.rig.samples import voice

RATE_HZ = 24_000
Samples = npt.NDArray[np.float32]


def sine(level_dbfs: float, seconds: float, hz: float = 1000) -> Samples:
    """A tone whose peak is at this level."""
    at = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    return (10 ** (level_dbfs / 20) * np.sin(2 * np.pi * hz * at)).astype(np.float32)


@pytest.mark.parametrize("level_dbfs", [0.0, -20.0, -60.0])
def test_the_level_of_a_tone_is_its_power(level_dbfs: float) -> None:
    assert levels(sine(level_dbfs, 5, 220), RATE_HZ).loud_db == pytest.approx(level_dbfs - 3, abs=0.1)


@pytest.mark.parametrize("rate_hz", [16_000, 24_000, 48_000])
def test_speech_except_its_pauses_is_voice_at_any_sample_rate(rate_hz: int) -> None:
    found = levels(voice(10, rate_hz), rate_hz)
    assert 8 < found.voice_s < 9
    assert -30 < found.loud_db < -10


def true_peak_db(samples: Samples) -> float:
    return float(20 * np.log10(np.abs(soxr.resample(samples, RATE_HZ, 8 * RATE_HZ)).max()))


@pytest.mark.parametrize("level_dbfs", [-23.0, -33.0])
def test_a_tone_of_1_khz_has_its_level_as_loudness(level_dbfs: float) -> None:
    """Tech 3341, signals 1 and 2, in mono: 3 LU less than in stereo."""
    assert integrated(sine(level_dbfs, 20), RATE_HZ) == pytest.approx(level_dbfs - 3.01, abs=0.1)


@pytest.mark.parametrize("level_dbfs", [-50.0, -25.0, -3.0])
@pytest.mark.parametrize("seconds", [0.2, 3.0])
def test_a_sound_is_brought_to_the_target(level_dbfs: float, seconds: float) -> None:
    level = integrated(levelled(sine(level_dbfs, seconds), RATE_HZ), RATE_HZ)
    expected = TARGET_LUFS if level_dbfs > -40 else level_dbfs - 3 + 20
    assert level == pytest.approx(expected, abs=0.3)


def test_peaks_are_limited_also_between_samples() -> None:
    clicks = sine(-20, 2)
    clicks[10_000:10_050] = sine(6, 1, hz=5900)[:50]
    clicks[-3:] = 1.5
    limited_clicks = limited(clicks, RATE_HZ)
    assert len(limited_clicks) == len(clicks)
    assert true_peak_db(limited_clicks[9_000:11_000]) <= PEAK_MAX_DBTP + 0.2
    assert np.array_equal(limited_clicks[:9_000], clicks[:9_000])


def speech_like(seconds: float, seed: int = 1) -> Samples:
    """Bursts of a tone with pauses and clicks, soft on the whole and with peaks that need the limiter."""
    random = np.random.default_rng(seed)
    samples = sine(-24, seconds, hz=300)
    bursts = np.repeat(random.uniform(0, 1, round(seconds * 10) + 1), RATE_HZ // 10)[: len(samples)]
    samples *= bursts.astype(np.float32)
    samples[random.integers(0, len(samples), round(20 * seconds))] *= 8
    return samples


def pcm_of(samples: Samples) -> bytes:
    return np.rint(samples * 32767).astype("<i2").tobytes()


def samples_of(pcm: bytes) -> Samples:
    return np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32767)


def fed(pcm: bytes, piece_bytes: int) -> bytes:
    leveller = Leveller(RATE_HZ)
    pieces = [leveller.feed(pcm[at : at + piece_bytes]) for at in range(0, len(pcm), piece_bytes)]
    return b"".join(pieces) + leveller.flush()


@pytest.mark.parametrize("seconds", [0.3, 2.0, 9.99, 10.0, 12.34])
@pytest.mark.parametrize("piece_s", [0.05, 0.2, 20])
def test_a_sound_in_pieces_is_levelled_like_the_whole(seconds: float, piece_s: float) -> None:
    samples = samples_of(pcm_of(speech_like(seconds)))
    whole = levelled(samples, RATE_HZ)
    pieces = samples_of(fed(pcm_of(samples), 2 * round(piece_s * RATE_HZ)))
    assert len(pieces) == len(samples)
    assert true_peak_db(whole) > PEAK_MAX_DBTP - 0.5 > true_peak_db(samples)
    assert true_peak_db(pieces) <= PEAK_MAX_DBTP + 0.2
    # A longer sound has the gain of its first 10 seconds; a 16-bit step is 3e-5.
    assert np.abs(pieces - whole).max() < (1e-4 if seconds <= 10 else 0.05)


def test_the_first_seconds_set_the_gain_of_a_long_sound() -> None:
    samples = np.concatenate([sine(-30, 11), sine(-36, 11)])
    pieces = samples_of(fed(pcm_of(samples), 9_600))
    assert integrated(pieces[: 10 * RATE_HZ], RATE_HZ) == pytest.approx(TARGET_LUFS, abs=0.1)
    assert integrated(pieces[12 * RATE_HZ :], RATE_HZ) == pytest.approx(TARGET_LUFS - 6, abs=0.1)


def test_a_long_sound_comes_while_it_is_fed() -> None:
    leveller = Leveller(RATE_HZ)
    second = pcm_of(sine(-30, 1))
    assert [len(leveller.feed(second)) // len(second) for _ in range(14)] == [0] * 9 + [9, 1, 1, 1, 1]


@pytest.mark.parametrize("samples", [np.zeros(0, np.float32), np.zeros(24_000, np.float32)])
def test_silence_stays_silence(samples: Samples) -> None:
    assert np.array_equal(levelled(samples, RATE_HZ), samples)
