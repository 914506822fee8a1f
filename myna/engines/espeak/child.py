"""The child program that speaks with espeak-ng, run by `child_program.py`.

The library is under the GPL and can crash or hang, so only this process loads it.
"""

import ctypes
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from myna.audio.loudness import Leveller
from myna.audio.mp3 import Mp3File
from myna.audio.stretch import Stretch
from myna.engines.espeak.job import EspeakJob
from myna.engines.espeak.library import load
from myna.engines.espeak.rate import RATE_PLAIN, Pace, paced
from myna.engines.espeak.text import Run, runs_of
from myna.engines.interface import EngineFailed, NothingSpoken, SpeechResult
from myna.engines.pool.child_main import Work
from myna.engines.sound_limit import bounded
from myna.engines.text import reading

Sink = Callable[[bytes], None]

# speak_lib.h
_RATE, _POSITION_IN_CHARACTERS, _UTF8, _END_PAUSE = 1, 1, 1, 0x1000
_SAMPLE_BYTES = 2

_AUDIBLE_PEAK = 200  # of 32767
_SAMPLE_CHARS_MAX = 160  # spoken and discarded to find the rate of a text

_uint, _pointer = ctypes.c_uint, ctypes.c_void_p
_SYNTH_ARGUMENTS: Any = [
    ctypes.c_char_p, ctypes.c_size_t, _uint, ctypes.c_int, _uint, _uint, _pointer, _pointer
]  # fmt: skip
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


class Library:
    """espeak-ng, once in a process; changes the working folder to that of its data."""

    def __init__(self) -> None:
        self._lib, self.rate_hz = load()
        self._lib.espeak_Synth.argtypes = _SYNTH_ARGUMENTS
        self._sink: Sink
        self._error: Exception | None = None
        self._callback = _Callback(self._receive)  # the library keeps no reference to it
        self._lib.espeak_SetSynthCallback(self._callback)

    def speak(self, runs: Sequence[Run], rate: int, sink: Sink) -> None:
        """Calls the sink with 16-bit mono PCM; `rate` is in words a minute. Raises errors of the sink."""
        self._sink = sink
        self._error = None
        for number, (voice, text) in enumerate(runs, 1):
            self._check(self._lib.espeak_SetVoiceByName(voice.encode()))
            self._check(self._lib.espeak_SetParameter(_RATE, rate, 0))
            encoded = text.encode() + b"\0"
            flags = _UTF8 | (_END_PAUSE if number == len(runs) else 0)
            self._check(
                self._lib.espeak_Synth(
                    encoded, len(encoded), 0, _POSITION_IN_CHARACTERS, 0, flags, None, None
                )
            )
            if self._error is not None:
                raise self._error

    def length(self, runs: Sequence[Run], rate: int) -> int:
        """The number of samples of the runs at this rate."""
        samples = 0

        def count(pcm: bytes) -> None:
            nonlocal samples
            samples += len(pcm) // _SAMPLE_BYTES

        self.speak(runs, rate, count)
        return samples

    def _receive(self, pcm: Any, samples: int, _events: int) -> int:
        """The library's callback. An exception can't pass through C, so it is stored, and 1 stops the
        synthesis."""
        if self._error is None and pcm and samples > 0:
            try:
                self._sink(ctypes.string_at(pcm, samples * _SAMPLE_BYTES))
            except Exception as error:
                self._error = error
        return int(self._error is not None)

    @staticmethod
    def _check(status: int) -> None:
        if status != 0:
            raise EngineFailed(f"espeak-ng refused the text with status {status}.")


def speak(library: Library, job: EspeakJob) -> SpeechResult:
    """Writes the job's audio to its target. Raises EngineFailed or OSError, and then leaves no file."""
    began_s = time.monotonic()
    runs = runs_of(job.text, job.voice, job.han_voice)
    pace = paced(job.speed, lambda rate: library.length(_beginning(runs), rate))
    part, target = Path(os.fsdecode(job.part)), Path(os.fsdecode(job.target))
    leveller = Leveller(library.rate_hz)
    with Mp3File(part, target, library.rate_hz) as file:

        def keep(pcm: bytes) -> None:
            file.write(leveller.feed(pcm))

        _speak_into(bounded(keep, library.rate_hz, job.sound_max_s), library, runs, pace)
        file.write(leveller.flush())
        finished = file.finish()
    took_s = time.monotonic() - began_s
    return SpeechResult(
        seconds=finished.seconds, size_bytes=finished.size_bytes, sha256=finished.sha256, took_s=took_s
    )


def _speak_into(keep: Sink, library: Library, runs: Sequence[Run], pace: Pace) -> None:
    """Raises NothingSpoken if all of the sound is silent, and errors of `keep`."""
    stretch = None if pace.stretch == 1 else Stretch(library.rate_hz, pace.stretch)
    audible = False

    def write(pcm: bytes) -> None:
        nonlocal audible
        audible = audible or max(memoryview(pcm).cast("h"), default=0) > _AUDIBLE_PEAK
        keep(pcm)

    library.speak(runs, pace.rate, write if stretch is None else lambda pcm: write(stretch.feed(pcm)))
    if stretch is not None:
        write(stretch.flush())
    if not audible:
        raise NothingSpoken("This voice has no sound for the text.")


def _beginning(runs: Sequence[Run]) -> list[Run]:
    """The first _SAMPLE_CHARS_MAX characters of the runs, or a little more."""
    left, beginning = _SAMPLE_CHARS_MAX, []
    for voice, text in runs:
        if left > 0:
            beginning.append((voice, text[:left]))
            left -= len(text)
    return beginning


def warm(_setup: bytes) -> Work:
    """Loads everything that the first job needs, and returns the work."""
    library = Library()
    reading.warm()
    library.length([("cmn", "你好"), ("yue", "你好"), ("en-us", "hello"), ("en", "hello")], RATE_PLAIN)
    decoder = msgspec.msgpack.Decoder(EspeakJob)
    return lambda packed, _report_progress: speak(library, decoder.decode(packed))
