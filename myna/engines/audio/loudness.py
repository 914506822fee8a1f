"""Loudness of speech by ITU-R BS.1770-5, which EBU R 128 uses, and a limit of its peaks.

Also the levels of a recording, and the part of it that is louder than its background. All of it is pure.
"""

import functools
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

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
_HOP_S: Final = 0.1
_BLOCK_HOPS: Final = 4
_AT_ONCE_S: Final = 1.0
"""Longer arrays take longer, since the system provides their memory again each time."""
_OVERSAMPLING: Final = 4
_REACH: Final = 8
"""Samples on each side from which the sound between two of them is computed."""
_UNDER_PEAK: Final = 0.7
"""A peak between samples is less than 3 dB above them for sounds below a quarter of the rate."""
_FRAME_S: Final = 0.001
_LIMITER_FRAMES: Final = 4
"""The gain falls this long before a peak and rises this long after it."""
_MEASURED_S: Final = 10

Sound = NDArray[np.float32]
"""Samples from -1 to 1; of several channels, one row for each moment."""
CLIPPED: Final = 0.999  # |x| from here on is counted as clipped
_LEVEL_FRAME_S: Final = 0.02
_SILENCE_DB: Final = -70.0  # the lowest level: that of digital silence would be minus infinity
_BACKGROUND_PERCENTILE: Final = 5
# Speech has 80 to 95 % of its frames so far above its background; 65 to 70 % where the pauses are cut out,
# 55 % with noise 15 dB below it, 30 % with noise 10 dB below it. Tones, hum and even noise have 0 or 1 %.
_VOICE_DB: Final = 10.0


def levelled(samples: Sound, rate_hz: int) -> Sound:
    """Mono samples at TARGET_LUFS whose true peak is at most PEAK_MAX_DBTP."""
    return limited(samples * gain(samples, rate_hz), rate_hz)


def gain(samples: Sound, rate_hz: int) -> np.float32:
    """The factor that brings the samples to TARGET_LUFS; 1 for silence."""
    loudness = integrated(samples, rate_hz)
    if loudness <= _ABSOLUTE_GATE_LUFS:
        return np.float32(1)
    return np.float32(10 ** (min(TARGET_LUFS - loudness, GAIN_MAX_DB) / 20))


def integrated(samples: Sound, rate_hz: int) -> float:
    """The integrated loudness in LUFS, gated; -inf for silence. A sound shorter than a block is one block."""
    powers = _block_powers(samples, rate_hz)
    powers = powers[_lufs(powers) > _ABSOLUTE_GATE_LUFS]
    if not len(powers):
        return -np.inf
    powers = powers[_lufs(powers) > _lufs(powers.mean()) + _RELATIVE_GATE_LU]
    return float(_lufs(powers.mean()))


def limited(samples: Sound, rate_hz: int) -> Sound:
    """The samples, made softer for some milliseconds around each peak over PEAK_MAX_DBTP."""
    ceiling = 10 ** (PEAK_MAX_DBTP / 20)
    peaks = _true_peaks(samples, ceiling * _UNDER_PEAK)
    if peaks.max(initial=0.0) <= ceiling:
        return samples
    size = _frame(rate_hz)
    filling = -len(samples) % size
    framed = np.pad(peaks, (0, filling)).reshape(-1, size).max(axis=1)
    needed = np.minimum(1.0, ceiling / np.maximum(framed, 1e-9))
    # A gain for each edge between two frames, at most what the frames on both sides need.
    edges = np.pad(needed, 2 * _LIMITER_FRAMES - 1, mode="edge")
    lowest = np.lib.stride_tricks.sliding_window_view(edges, 2 * _LIMITER_FRAMES).min(axis=1)
    window = np.hanning(2 * _LIMITER_FRAMES + 1)[1:-1]
    gains = np.convolve(lowest, window / window.sum(), mode="valid").astype(np.float32)
    ramp = np.arange(size, dtype=np.float32) / np.float32(size)
    sloped = gains[:-1, np.newaxis] + np.diff(gains)[:, np.newaxis] * ramp
    return samples * sloped.reshape(-1)[: len(samples)]


class Leveller:
    """Brings a sound to the target as it comes: 16-bit mono PCM in `feed`, all of it out by `flush`.

    The loudness of the first 10 seconds sets the gain of the whole sound.
    """

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        frame = _frame(rate_hz)
        self._step = round(_AT_ONCE_S / _FRAME_S) * frame
        self._margin = 2 * _LIMITER_FRAMES * frame  # from so far away a peak changes the gain
        self._input = bytearray()
        self._done = 0  # samples at the beginning of the input that have been handed over
        self._gain: np.float32 | None = None

    def feed(self, pcm: bytes) -> bytes:
        """The sound so far, nothing for the first seconds."""
        self._input += pcm
        if self._gain is None and len(self._input) < 2 * _MEASURED_S * self._rate_hz:
            return b""
        return self._levelled(self._step + self._margin)

    def flush(self) -> bytes:
        """The rest of the sound."""
        return self._levelled(1)

    def _levelled(self, least: int) -> bytes:
        """Hands over a step of the sound while at least so many samples are left."""
        if self._gain is None:
            self._gain = gain(_floats(self._input), self._rate_hz)
        out = []
        while len(self._input) // 2 - self._done >= least:
            end = self._done + self._step
            samples = _floats(self._input[: 2 * (end + self._margin)]) * self._gain
            loud = limited(samples, self._rate_hz)[self._done : end]
            out.append(np.rint(loud * np.float32(32767)).astype("<i2").tobytes())
            del self._input[: 2 * (end - self._margin)]
            self._done = self._margin
        return b"".join(out)


def _floats(pcm: bytearray) -> Sound:
    return np.frombuffer(bytes(pcm), "<i2") * np.float32(1 / 32768)


def _frame(rate_hz: int) -> int:
    return round(_FRAME_S * rate_hz)


def _block_powers(samples: Sound, rate_hz: int) -> NDArray[np.float64]:
    """The K-weighted mean square of each block, computed on the spectra of its hops."""
    hop = round(_HOP_S * rate_hz)
    hops = min(_BLOCK_HOPS, len(samples) // hop)
    if not hops:
        return _hop_powers(samples[np.newaxis], rate_hz) if len(samples) > 1 else np.zeros(0)
    rows = samples[: len(samples) // hop * hop].reshape(-1, hop)
    step = round(_AT_ONCE_S / _HOP_S)
    powers = np.concatenate([
        _hop_powers(rows[at : at + step], rate_hz) for at in range(0, len(rows), step)
    ])  # fmt: skip
    return np.convolve(powers, np.full(hops, 1 / hops), mode="valid")


def _hop_powers(hops: Sound, rate_hz: int) -> NDArray[np.float64]:
    """The K-weighted mean square of each row.

    Two rows are the real and the imaginary part of one transform, which takes half the time of two. Of its
    values A and B at a frequency and at its negative, |A|² + |B|² and 2 Re(A B) are the sum and the
    difference of the powers of the two rows.
    """
    rows, size = hops.shape
    pairs = np.zeros(((rows + 1) // 2, size), np.complex64)
    pairs.real, pairs.imag[: rows // 2] = hops[::2], hops[1::2]
    spectra = np.fft.fft(pairs, axis=1)
    weights = _k_weights(size, rate_hz)
    above, below = spectra[:, 1 : len(weights) + 1], spectra[:, : -len(weights) - 1 : -1]
    squares = np.square(above.real) + np.square(above.imag) + np.square(below.real) + np.square(below.imag)
    sums = squares @ weights
    differences = (2 * (above.real * below.real - above.imag * below.imag)) @ weights
    both = np.stack([sums + differences, sums - differences], axis=1).reshape(-1)[:rows]
    return np.asarray(both / (2 * size**2), np.float64)


@functools.lru_cache(maxsize=8)
def _k_weights(size: int, rate_hz: int) -> Sound:
    """The squared magnitude of the two filters of BS.1770 at the frequencies of a transform between 0, where
    it is 0, and half of the rate."""
    z = np.exp(-2j * np.pi * np.fft.rfftfreq(size, 1 / rate_hz)[1 : (size + 1) // 2] / 48_000)
    gains = [np.polyval(up[::-1], z) / np.polyval(down[::-1], z) for up, down in (_SHELF, _HIGH_PASS)]
    return np.asarray(np.abs(gains[0] * gains[1]) ** 2, np.float32)


def _true_peaks(samples: Sound, least: float) -> Sound:
    """The magnitude of each sample, or of the sound up to the next ones if it is at least `least`."""
    peaks = np.abs(samples)
    near = np.flatnonzero(peaks >= least)
    if len(near):
        around = np.lib.stride_tricks.sliding_window_view(np.pad(samples, _REACH), 2 * _REACH + 1)[near]
        peaks[near] = np.maximum(peaks[near], np.abs(around @ _between()).max(axis=1))
    return peaks


@functools.cache
def _between() -> Sound:
    """The weights of the samples around one for the sound at each fraction of a sample before and after."""
    steps = np.arange(1, _OVERSAMPLING) / _OVERSAMPLING
    distances = np.arange(-_REACH, _REACH + 1)[:, np.newaxis] - np.concatenate([-steps, steps])
    window = np.cos(np.pi / 2 * np.clip(distances / (_REACH + 1), -1, 1)) ** 2
    return np.asarray(np.sinc(distances) * window, np.float32)


def _lufs(power: NDArray[np.float64] | np.float64) -> NDArray[np.float64]:
    return np.asarray(_OFFSET + 10 * np.log10(np.maximum(power, 1e-12)))


class Levels(NamedTuple):
    """The level that the loudest second exceeds throughout, in dB of full scale, and the seconds of voice."""

    loud_db: float
    voice_s: float


def levels(sound: Sound, rate_hz: int) -> Levels:
    """Measures mono sound of at least one frame (20 ms). A last partial frame is ignored."""
    frame = round(rate_hz * _LEVEL_FRAME_S)
    frames = sound[: len(sound) // frame * frame].reshape(-1, frame).astype(np.float64)
    powers = np.mean(frames * frames, axis=1)
    decibels = np.maximum(10 * np.log10(np.maximum(powers, 1e-12)), _SILENCE_DB)
    background = np.percentile(decibels, _BACKGROUND_PERCENTILE)
    second = min(round(1 / _LEVEL_FRAME_S), len(decibels))
    return Levels(
        loud_db=float(np.sort(decibels)[-second]),
        voice_s=float(np.count_nonzero(decibels > background + _VOICE_DB) * _LEVEL_FRAME_S),
    )
