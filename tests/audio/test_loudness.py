"""Loudness by the test signals of EBU Tech 3341, and the limit of peaks."""

import numpy as np
import numpy.typing as npt
import pytest
import soxr

from myna.audio.loudness import PEAK_MAX_DBTP, TARGET_LUFS, integrated, levelled, limited

RATE_HZ = 24_000
Samples = npt.NDArray[np.float32]


def sine(level_dbfs: float, seconds: float, hz: float = 1000) -> Samples:
    """A tone whose peak is at this level."""
    at = np.arange(round(seconds * RATE_HZ)) / RATE_HZ
    return (10 ** (level_dbfs / 20) * np.sin(2 * np.pi * hz * at)).astype(np.float32)


def true_peak_db(samples: Samples) -> float:
    return float(20 * np.log10(np.abs(soxr.resample(samples, RATE_HZ, 8 * RATE_HZ)).max()))


@pytest.mark.parametrize("level_dbfs", [-23.0, -33.0])
def test_a_tone_of_1_khz_has_its_level_as_loudness(level_dbfs: float) -> None:
    """Tech 3341, signals 1 and 2, in mono: 3 LU less than in stereo."""
    assert integrated(sine(level_dbfs, 20), RATE_HZ) == pytest.approx(level_dbfs - 3.01, abs=0.1)


def test_soft_parts_are_gated_out() -> None:
    """Tech 3341, signal 3."""
    signal = np.concatenate([sine(-36, 10), sine(-23, 60), sine(-36, 10)])
    assert integrated(signal, RATE_HZ) == pytest.approx(-26.01, abs=0.1)


def test_very_soft_parts_are_gated_out() -> None:
    """Tech 3341, signal 4."""
    parts = [sine(-72, 10), sine(-36, 10), sine(-23, 60), sine(-36, 10), sine(-72, 10)]
    assert integrated(np.concatenate(parts), RATE_HZ) == pytest.approx(-26.01, abs=0.1)


def test_low_tones_count_less() -> None:
    assert integrated(sine(-23, 5, hz=40), RATE_HZ) < integrated(sine(-23, 5), RATE_HZ) - 3


@pytest.mark.parametrize("level_dbfs", [-50.0, -25.0, -3.0])
@pytest.mark.parametrize("seconds", [0.2, 3.0])
def test_a_sound_is_brought_to_the_target(level_dbfs: float, seconds: float) -> None:
    level = integrated(levelled(sine(level_dbfs, seconds), RATE_HZ), RATE_HZ)
    expected = TARGET_LUFS if level_dbfs > -40 else level_dbfs - 3 + 20
    assert level == pytest.approx(expected, abs=0.3)


@pytest.mark.parametrize("samples", [np.zeros(0, np.float32), np.zeros(24_000, np.float32)])
def test_silence_stays_silence(samples: Samples) -> None:
    assert np.array_equal(levelled(samples, RATE_HZ), samples)


def test_peaks_are_limited_also_between_samples() -> None:
    clicks = sine(-20, 2)
    clicks[10_000:10_050] = sine(6, 1, hz=5900)[:50]
    clicks[-3:] = 1.5
    limited_clicks = limited(clicks, RATE_HZ)
    assert len(limited_clicks) == len(clicks)
    assert true_peak_db(limited_clicks[9_000:11_000]) <= PEAK_MAX_DBTP + 0.2
    assert np.array_equal(limited_clicks[:9_000], clicks[:9_000])
