"""The sound of a model in its child: PCM and its way to a file or to the parent."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import soxr
from msgspec import structs

from myna.engines.audio.loudness import Sound
from myna.engines.audio.mp3 import Mp3File
from myna.engines.interface import STREAM_RATE_HZ, EngineFailed, SpeechResult, bounded
from myna.engines.jobs import SpeechJob

_PEAK: Final = 32767
_AUDIBLE_PEAK: Final = 200
Sink = Callable[[bytes], None]
"""Takes any whole number of samples of 16-bit mono PCM."""
_PART_MAX_BYTES: Final = 2 * STREAM_RATE_HZ


def pcm_of(samples: Sound) -> bytes:
    """The samples as 16-bit PCM, clipped. Raises EngineFailed for samples that are not finite."""
    if not np.isfinite(samples).all():
        raise EngineFailed("The model returned samples that are not finite.")
    return np.rint(np.clip(samples, -1, 1) * _PEAK).astype("<i2").tobytes()


def is_audible(pcm: bytes) -> bool:
    """Whether any sample is above the audible peak."""
    return bool((np.abs(np.frombuffer(pcm, "<i2").astype(np.int32)) > _AUDIBLE_PEAK).any())


def make_sound(job: SpeechJob, rate_hz: int, send_part: Sink, speak: Callable[[Sink], None]) -> SpeechResult:
    """Writes the sound that `speak` makes at `rate_hz` to the file of the job, as an mp3 of that rate.
    Without a file, sends it in parts of at most a second at STREAM_RATE_HZ, and the result has only `work_s`.

    Raises SoundTooLong past the job's `sound_max_s`, OSError, and errors of `speak`; then no file is left.
    """
    began_s = time.monotonic()
    if job.file is None:
        resampler = soxr.ResampleStream(rate_hz, STREAM_RATE_HZ, 1, dtype="int16")

        def send(pcm: bytes, *, last: bool = False) -> None:
            samples = resampler.resample_chunk(np.frombuffer(pcm, "<i2"), last=last)
            resampled = samples.astype("<i2").tobytes()
            for at in range(0, len(resampled), _PART_MAX_BYTES):
                send_part(resampled[at : at + _PART_MAX_BYTES])

        speak(bounded(send, rate_hz, job.sound_max_s))
        send(b"", last=True)
        return SpeechResult(0.0, 0, b"", time.monotonic() - began_s)
    part, target = (Path(os.fsdecode(path)) for path in (job.file.part, job.file.target))
    with Mp3File(part, target, rate_hz) as mp3:
        speak(bounded(mp3.write, rate_hz, job.sound_max_s))
        done = mp3.finish()
    return structs.replace(done, work_s=time.monotonic() - began_s)
