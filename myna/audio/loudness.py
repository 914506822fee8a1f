"""Loudness of speech by ITU-R BS.1770-5, which EBU R 128 uses, and a limit of its peaks."""

from typing import Final

import numpy as np
import numpy.typing as npt
import soxr

TARGET_LUFS: Final = -18.0
PEAK_MAX_DBTP: Final = -1.0
GAIN_MAX_DB: Final = 20.0
"""A sound that would need more is noise rather than speech."""
# The coefficients of BS.1770 at 48 kHz, feed forward and back.
_SHELF: Final = (
    (1.53512485958697, -2.69169618940638, 1.19839281085285),
    (1.0, -1.69065929318241, 0.73248077421585),
)
_HIGH_PASS: Final = ((1.0, -2.0, 1.0), (1.0, -1.99004745483398, 0.99007225036621))
_OFFSET: Final = -0.691
_ABSOLUTE_GATE_LUFS, _RELATIVE_GATE_LU = -70.0, -10.0
_BLOCK_S, _HOP_S = 0.4, 0.1
_OVERSAMPLING: Final = 4
_LIMITER_S: Final = 0.004

_Samples = npt.NDArray[np.float32]


def levelled(samples: _Samples, rate_hz: int) -> _Samples:
    """Mono samples at TARGET_LUFS whose true peak is at most PEAK_MAX_DBTP."""
    loudness = integrated(samples, rate_hz)
    if loudness <= _ABSOLUTE_GATE_LUFS:
        return samples
    gain_db = min(TARGET_LUFS - loudness, GAIN_MAX_DB)
    return limited(samples * np.float32(10 ** (gain_db / 20)), rate_hz)


def integrated(samples: _Samples, rate_hz: int) -> float:
    """The integrated loudness in LUFS, gated; -inf for silence. A sound shorter than a block is one block."""
    powers = _block_powers(samples, rate_hz)
    powers = powers[_lufs(powers) > _ABSOLUTE_GATE_LUFS]
    if not len(powers):
        return -np.inf
    powers = powers[_lufs(powers) > _lufs(powers.mean()) + _RELATIVE_GATE_LU]
    return float(_lufs(powers.mean()))


def limited(samples: _Samples, rate_hz: int) -> _Samples:
    """The samples, made softer for some milliseconds around each peak over PEAK_MAX_DBTP."""
    ceiling = 10 ** (PEAK_MAX_DBTP / 20)
    fine = np.abs(soxr.resample(samples, rate_hz, rate_hz * _OVERSAMPLING))
    fine = np.pad(fine, (0, max(0, len(samples) * _OVERSAMPLING - len(fine))))
    peaks = fine[: len(samples) * _OVERSAMPLING].reshape(-1, _OVERSAMPLING).max(axis=1, initial=0.0)
    if peaks.max(initial=0.0) <= ceiling:
        return samples
    width = 2 * round(_LIMITER_S * rate_hz) + 1
    needed = np.minimum(1.0, ceiling / np.maximum(peaks, 1e-9))
    padded = np.pad(needed, width - 1, mode="edge")
    lowest = np.lib.stride_tricks.sliding_window_view(padded, width).min(axis=1)
    window = np.hanning(width + 2)[1:-1]
    gains = np.convolve(lowest, window / window.sum(), mode="valid")
    return np.asarray(samples * gains, np.float32)


def _block_powers(samples: _Samples, rate_hz: int) -> npt.NDArray[np.float64]:
    """The K-weighted mean square of each block, computed on its spectrum."""
    size = min(len(samples), round(_BLOCK_S * rate_hz))
    if size < 2:
        return np.zeros(0)
    blocks = np.lib.stride_tricks.sliding_window_view(samples, size)[:: round(_HOP_S * rate_hz)]
    spectra = np.fft.rfft(blocks, axis=1)
    weighted = np.abs(spectra) ** 2 * _k_weights(size, rate_hz)
    return np.asarray(2 * weighted.sum(axis=1) / size**2)


def _k_weights(size: int, rate_hz: int) -> npt.NDArray[np.float64]:
    """The squared magnitude of the two filters of BS.1770 at the frequencies of `rfft`."""
    z = np.exp(-2j * np.pi * np.fft.rfftfreq(size, 1 / rate_hz) / 48_000)
    gains = [np.polyval(up[::-1], z) / np.polyval(down[::-1], z) for up, down in (_SHELF, _HIGH_PASS)]
    return np.asarray(np.abs(gains[0] * gains[1]) ** 2)


def _lufs(power: npt.NDArray[np.float64] | np.float64) -> npt.NDArray[np.float64]:
    return np.asarray(_OFFSET + 10 * np.log10(np.maximum(power, 1e-12)))
