"""Conversion of a model's samples to PCM; pauses, and a change of speed for models that have none."""

import math
from typing import Final

import numpy as np
import numpy.typing as npt

from myna.engines.audio.stretch import FACTOR_MAX, FACTOR_MIN, Stretch
from myna.engines.interface import EngineFailed

Samples = npt.NDArray[np.float32]
"""Mono sound from -1 to 1."""

_PEAK: Final = 32767
_AUDIBLE_PEAK: Final = 200
_SOFT_FROM: Final = 0.8


def pcm_of(samples: Samples) -> bytes:
    """The samples as 16-bit PCM, clipped. Raises EngineFailed for samples that are not finite."""
    if not np.isfinite(samples).all():
        raise EngineFailed("The model returned samples that are not finite.")
    return (np.clip(samples, -1, 1) * _PEAK).astype("<i2").tobytes()


def at_volume(pcm: bytes, volume: float) -> bytes:
    """16-bit PCM `volume` times as loud; what would be over the limit is rounded off rather than cut."""
    if volume == 1:
        return pcm
    samples = np.frombuffer(pcm, "<i2").astype(np.float32) * np.float32(volume / _PEAK)
    over = np.maximum(np.abs(samples) - _SOFT_FROM, 0)
    room = 1 - _SOFT_FROM
    rounded = np.sign(samples) * (_SOFT_FROM + room * np.tanh(over / room))
    return pcm_of(np.where(over > 0, rounded, samples))


def is_audible(pcm: bytes) -> bool:
    """Whether any sample is above the audible peak."""
    return bool((np.abs(np.frombuffer(pcm, "<i2").astype(np.int32)) > _AUDIBLE_PEAK).any())


def silence(seconds: float, rate_hz: int) -> bytes:
    """A pause as PCM."""
    return bytes(2 * round(seconds * rate_hz))


class Tempo:
    """Makes 16-bit mono PCM `speed` times as fast, 0.25 to 4, in as many stretches as that needs."""

    def __init__(self, rate_hz: int, speed: float) -> None:
        factor = 1 / speed
        limit = FACTOR_MAX if factor > 1 else FACTOR_MIN
        passes = math.ceil(math.log(factor) / math.log(limit))
        self._stretches = [Stretch(rate_hz, factor ** (1 / passes)) for _ in range(passes)]

    def feed(self, pcm: bytes) -> bytes:
        """The output so far; some is buffered until `flush`."""
        for stretch in self._stretches:
            pcm = stretch.feed(pcm)
        return pcm

    def flush(self) -> bytes:
        """The rest of the output."""
        pcm = b""
        for stretch in self._stretches:
            pcm = stretch.feed(pcm) + stretch.flush()
        return pcm
