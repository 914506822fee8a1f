"""The program that speaks with espeak-ng: `python -m myna.engines.espeak_child <parent's pid>`.

It is a program of its own because the library is under the GPL and can crash or hang; the server talks to it
by frames (`child.py`) and never imports it.
"""

import ctypes
import os
import pkgutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from myna.engines import reading
from myna.engines.child import Work, serve
from myna.engines.espeak_job import EspeakJob
from myna.engines.espeak_library import load
from myna.engines.espeak_pace import RATE_PLAIN, Pace, paced
from myna.engines.espeak_text import Run, runs_of
from myna.engines.spoken import EngineFailed, NothingSpoken, Spoken
from myna.sound.mp3 import Mp3File

if TYPE_CHECKING:
    from myna.sound.stretch import Stretch

Sink = Callable[[bytes], None]

# speak_lib.h
_RATE, _POSITION_IN_CHARACTERS, _UTF8, _END_PAUSE = 1, 1, 1, 0x1000
_SAMPLE_BYTES = 2

_AUDIBLE_PEAK = 200  # of 32767
_SAMPLE_CHARS_MAX = 160  # what is spoken unheard to find a text's pace

_uint, _pointer = ctypes.c_uint, ctypes.c_void_p
_SYNTH_ARGUMENTS: Any = [
    ctypes.c_char_p, ctypes.c_size_t, _uint, ctypes.c_int, _uint, _uint, _pointer, _pointer
]  # fmt: skip
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


class Library:
    """espeak-ng as a voice, once in a process; changes the working folder to the one that holds its data."""

    def __init__(self) -> None:
        self._lib, self.rate_hz = load()
        self._lib.espeak_Synth.argtypes = _SYNTH_ARGUMENTS
        self._sink: Sink
        self._error: Exception | None = None
        self._heard = _Callback(self._hear)  # the library keeps no reference of its own
        self._lib.espeak_SetSynthCallback(self._heard)

    def speak(self, runs: Sequence[Run], rate: int, sink: Sink) -> None:
        """Gives the sink 16-bit mono PCM; `rate` is words a minute. Raises what the sink raises."""
        self._sink, self._error = sink, None
        for number, (voice, text) in enumerate(runs, 1):
            self._check(self._lib.espeak_SetVoiceByName(voice.encode()))
            self._check(self._lib.espeak_SetParameter(_RATE, rate, 0))
            said = text.encode() + b"\0"
            flags = _UTF8 | (_END_PAUSE if number == len(runs) else 0)
            self._check(
                self._lib.espeak_Synth(said, len(said), 0, _POSITION_IN_CHARACTERS, 0, flags, None, None)
            )
            if self._error is not None:
                raise self._error

    def length(self, runs: Sequence[Run], rate: int) -> int:
        """How many samples the runs take at this rate; nothing is kept of them."""
        samples = 0

        def count(pcm: bytes) -> None:
            nonlocal samples
            samples += len(pcm) // _SAMPLE_BYTES

        self.speak(runs, rate, count)
        return samples

    def _hear(self, pcm: Any, samples: int, _events: int) -> int:
        """The library's callback: an error can't pass through C, so it waits, and 1 stops the synthesis."""
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


def speak(library: Library, job: EspeakJob) -> Spoken:
    """The job's audio at its target. Raises EngineFailed or OSError; then nothing stays behind."""
    runs = runs_of(job.text, job.voice, job.han_voice)
    pace = paced(job.speed, lambda rate: library.length(_beginning(runs), rate))
    part, target = Path(os.fsdecode(job.part)), Path(os.fsdecode(job.target))
    with Mp3File(part, target, library.rate_hz) as file:
        _speak_into(file, library, runs, pace)
        finished = file.finish()
    return Spoken(finished.seconds, finished.size_bytes, finished.sha256)


def _speak_into(file: Mp3File, library: Library, runs: Sequence[Run], pace: Pace) -> None:
    """Raises NothingSpoken when none of it can be heard."""
    stretch = None if pace.stretch == 1 else _stretch(library.rate_hz, pace.stretch)
    audible = False

    def write(pcm: bytes) -> None:
        nonlocal audible
        audible = audible or max(memoryview(pcm).cast("h"), default=0) > _AUDIBLE_PEAK
        file.write(pcm)

    library.speak(runs, pace.rate, write if stretch is None else lambda pcm: write(stretch.feed(pcm)))
    if stretch is not None:
        write(stretch.flush())
    if not audible:
        raise NothingSpoken("The text has nothing in it that this voice can say.")


def _stretch(rate_hz: int, factor: float) -> "Stretch":
    """Few texts are for another speed, and numpy, which it takes, is a third of a process's time to start."""
    stretch: Stretch = pkgutil.resolve_name("myna.sound.stretch:Stretch")(rate_hz, factor)
    return stretch


def _beginning(runs: Sequence[Run]) -> list[Run]:
    """As much of the runs as is enough to know their pace."""
    left, beginning = _SAMPLE_CHARS_MAX, []
    for voice, text in runs:
        if left > 0:
            beginning.append((voice, text[:left]))
            left -= len(text)
    return beginning


def _warm(_setup: bytes) -> Work:
    """Loads what the first job would have to wait for, and gives the work."""
    library = Library()
    reading.warm()
    library.length([("cmn", "你好"), ("yue", "你好"), ("en-us", "hello"), ("en", "hello")], RATE_PLAIN)
    decoder = msgspec.msgpack.Decoder(EspeakJob)
    return lambda packed, _tell: speak(library, decoder.decode(packed))


if __name__ == "__main__":
    serve(_warm)
