"""Sound files as samples, and how loud they are."""

from pathlib import Path
from typing import Any

import numpy
import soundfile
import soxr

Samples = numpy.ndarray[Any, numpy.dtype[numpy.float32]]

LOUDNESS_BLOCK_S = 0.4


def read(path: Path) -> tuple[Samples, int]:
    """Mono samples from -1 to 1 and their rate in Hz."""
    samples, rate_hz = soundfile.read(path, dtype="float32", always_2d=True)
    return samples.mean(axis=1), rate_hz


def resampled(samples: Samples, rate_hz: int, wanted_hz: int) -> Samples:
    return numpy.asarray(soxr.resample(samples, rate_hz, wanted_hz), dtype=numpy.float32)


def loudness_lufs(samples: Samples, rate_hz: int) -> float:
    """Integrated loudness (ITU-R BS.1770) of at least 0.4 s of sound; silence has minus infinity.

    Imports SciPy, which takes a second.
    """
    import pyloudnorm

    meter = pyloudnorm.Meter(rate_hz, block_size=LOUDNESS_BLOCK_S)
    return float(meter.integrated_loudness(samples))
