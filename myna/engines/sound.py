"""The sound of a model in its child: PCM, pauses, speed, and its way to a file or to the parent."""

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import soxr

from myna.engines.audio.mp3 import Mp3File
from myna.engines.audio.stretch import FACTOR_MAX, FACTOR_MIN, Stretch
from myna.engines.interface import STREAM_RATE_HZ, EngineFailed, SpeechResult, bounded
from myna.engines.jobs import OutputFile

Samples = npt.NDArray[np.float32]
"""Mono sound from -1 to 1."""

_PEAK: Final = 32767
_AUDIBLE_PEAK: Final = 200
Sink = Callable[[bytes], None]
"""Takes any whole number of samples of 16-bit mono PCM."""
_PART_MAX_BYTES: Final = 2 * STREAM_RATE_HZ


def pcm_of(samples: Samples) -> bytes:
    """The samples as 16-bit PCM, clipped. Raises EngineFailed for samples that are not finite."""
    if not np.isfinite(samples).all():
        raise EngineFailed("The model returned samples that are not finite.")
    return (np.clip(samples, -1, 1) * _PEAK).astype("<i2").tobytes()


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


def make_sound(
    file: OutputFile | None,
    rate_hz: int,
    sound_max_s: float,
    send_part: Sink,
    speak: Callable[[Sink], None],
) -> SpeechResult:
    """Writes the sound that `speak` makes at `rate_hz` to the file, as an mp3 of that rate.
    Without a file, sends it in parts of at most a second at STREAM_RATE_HZ, and the result has only `took_s`.

    Raises SoundTooLong past `sound_max_s` seconds, OSError, and errors of `speak`; then no file is left.
    """
    began_s = time.monotonic()
    if file is None:
        sender = _Sender(rate_hz, send_part)
        speak(bounded(sender.write, rate_hz, sound_max_s))
        sender.flush()
        return SpeechResult(0.0, 0, b"", time.monotonic() - began_s)
    with Mp3File(Path(os.fsdecode(file.part)), Path(os.fsdecode(file.target)), rate_hz) as mp3:
        speak(bounded(mp3.write, rate_hz, sound_max_s))
        done = mp3.finish()
    return SpeechResult(done.seconds, done.size_bytes, done.sha256, time.monotonic() - began_s)


class _Sender:
    """Sends 16-bit mono PCM in parts, at STREAM_RATE_HZ."""

    def __init__(self, rate_hz: int, send_part: Sink) -> None:
        self._resampler = soxr.ResampleStream(rate_hz, STREAM_RATE_HZ, 1, dtype="int16")
        self._send_part = send_part

    def write(self, pcm: bytes) -> None:
        self._send(self._resampler.resample_chunk(np.frombuffer(pcm, "<i2")))

    def flush(self) -> None:
        self._send(self._resampler.resample_chunk(np.empty(0, "<i2"), last=True))

    def _send(self, samples: npt.NDArray[np.int16]) -> None:
        pcm = samples.astype("<i2").tobytes()
        for at in range(0, len(pcm), _PART_MAX_BYTES):
            self._send_part(pcm[at : at + _PART_MAX_BYTES])
