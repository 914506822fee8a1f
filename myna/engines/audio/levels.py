"""Measures the loudness of a recording, and the part of it that is louder than its background; pure."""

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Sound = NDArray[np.float32]
"""Samples from -1 to 1; of several channels, one row for each moment."""

CLIPPED: Final = 0.999  # |x| from here on is counted as clipped

_FRAME_S: Final = 0.02
_SILENCE_DB: Final = -70.0  # the lowest level: that of digital silence would be minus infinity
_BACKGROUND_PERCENTILE: Final = 5
# Speech has 80 to 95 % of its frames so far above its background; 65 to 70 % where the pauses are cut out,
# 55 % with noise 15 dB below it, 30 % with noise 10 dB below it. Tones, hum and even noise have 0 or 1 %.
_VOICE_DB: Final = 10.0


class Levels(NamedTuple):
    """The level that the loudest second exceeds throughout, in dB of full scale, and the seconds of voice."""

    loud_db: float
    voice_s: float


def levels(sound: Sound, rate_hz: int) -> Levels:
    """Measures mono sound of at least one frame (20 ms). A last partial frame is ignored."""
    frame = round(rate_hz * _FRAME_S)
    frames = sound[: len(sound) // frame * frame].reshape(-1, frame).astype(np.float64)
    powers = np.mean(frames * frames, axis=1)
    decibels = np.maximum(10 * np.log10(np.maximum(powers, 1e-12)), _SILENCE_DB)
    background = np.percentile(decibels, _BACKGROUND_PERCENTILE)
    second = min(round(1 / _FRAME_S), len(decibels))
    return Levels(
        loud_db=float(np.sort(decibels)[-second]),
        voice_s=float(np.count_nonzero(decibels > background + _VOICE_DB) * _FRAME_S),
    )


def clipped(sound: Sound) -> int:
    """Counts the samples at full scale."""
    return int(np.count_nonzero(np.abs(sound) >= CLIPPED))
