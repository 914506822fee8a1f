"""The child program that speaks with espeak-ng, run by `pool/child_main.py`.

The library is under the GPL and can crash or hang, so only this process loads it.

How it finds the rate for a speed: the library's rate, in words a minute, isn't linear, and differs by
language, voice and text: at 300 one sentence takes 0.59 of its time at 175, another 0.40, since pauses shrink
less than sounds. So the beginning of the text is synthesized and discarded (about 2 ms for a second of audio)
until its length is right. Outside the engine's range, 0.45 to 2.4 times its normal speed, the sound is
stretched. The engine's rates from 450 up also stretch, but builds for Windows lack them, so they are not
used.
"""

import ctypes
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import regex

from myna.engines.audio.loudness import Leveller
from myna.engines.audio.stretch import Stretch
from myna.engines.espeak.library import PAUSE, Run, load, runs_of
from myna.engines.interface import EngineFailed, NothingSpoken, SpeechResult
from myna.engines.jobs import EspeakJob
from myna.engines.pool.child_main import Work
from myna.engines.sound import Sink, is_audible, make_sound
from myna.engines.text.signs import MEANS, kind_of

RATE_PLAIN = 175
# The speed at a rate, for texts of one or two sentences: the mean of Mandarin, Cantonese and English.
_CURVE = (
    (80, 0.455), (100, 0.545), (120, 0.66), (150, 0.84), (175, 1.0), (200, 1.16),
    (250, 1.48), (300, 1.84), (350, 2.15), (400, 2.47), (449, 2.8),
)  # fmt: skip
_CLOSE = 0.015  # accepted relative error of the length
_TRIES_MAX = 4
# speak_lib.h
_RATE, _POSITION_IN_CHARACTERS, _UTF8, _END_PAUSE = 1, 1, 1, 0x1000
_SAMPLE_BYTES = 2
_ASKED = regex.compile(rf"[{MEANS.pattern}--[\p{{Han}}\p{{Latin}}0-9]]", regex.VERSION1)
_SAMPLE_CHARS_MAX = 160  # spoken and discarded to find the rate of a text
_uint, _pointer = ctypes.c_uint, ctypes.c_void_p
_SYNTH_ARGUMENTS: Any = [
    ctypes.c_char_p, ctypes.c_size_t, _uint, ctypes.c_int, _uint, _uint, _pointer, _pointer
]  # fmt: skip
_Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.c_void_p)


class Pace(msgspec.Struct, frozen=True):
    """The engine's rate in words a minute, and the factor by which its sound is then stretched."""

    rate: int
    stretch: float


def paced(speed: float, length_at: Callable[[int], int]) -> Pace:
    """The pace that makes the text `1 / speed` times as long as at the plain rate.

    `length_at` returns the text's length, in samples, at a rate.
    """
    if speed == 1:
        return Pace(RATE_PLAIN, 1)
    rate, length = RATE_PLAIN, length_at(RATE_PLAIN)
    wanted, asked = length / speed, speed
    for _ in range(_TRIES_MAX):
        if abs(length - wanted) <= _CLOSE * wanted:
            return Pace(rate, 1)
        if _rate(asked) == rate:
            break
        rate = _rate(asked)
        length = length_at(rate)
        asked *= length / wanted
    return Pace(rate, wanted / length)


def _rate(speed: float) -> int:
    """The rate for the speed by linear interpolation, rounded, within the engine's range."""
    speed = min(max(speed, _CURVE[0][1]), _CURVE[-1][1])
    above = min(max(bisect_right(_CURVE, speed, key=lambda point: point[1]), 1), len(_CURVE) - 1)
    (rate_low, speed_low), (rate_high, speed_high) = _CURVE[above - 1], _CURVE[above]
    share = (speed - speed_low) / (speed_high - speed_low)
    return round(rate_low + share * (rate_high - rate_low))


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
            if voice == PAUSE:
                silence = int(text) * self.rate_hz * RATE_PLAIN // (1000 * rate)
                sink(bytes(_SAMPLE_BYTES * silence))
                continue
            if self._lib.espeak_SetVoiceByName(voice.encode()):  # a language of the text's markup
                self._check(self._lib.espeak_SetVoiceByName(b"en-us"))
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


def speak(
    library: Library, job: EspeakJob, send_part: Sink, not_spoken: Callable[[dict[str, int]], None]
) -> SpeechResult:
    """Makes the job's sound. `not_spoken` gets what of the text has none, before the first part.

    Raises EngineFailed or OSError."""

    def into(sink: Sink) -> None:
        runs = runs_of(job.text, job.voice, job.han_voice)
        if counts := unspoken(library, runs):
            not_spoken(counts)
        pace = paced(job.speed, lambda rate: library.length(_beginning(runs), rate))
        leveller = Leveller(library.rate_hz)
        _speak_into(lambda pcm: sink(leveller.feed(pcm)), library, runs, pace)
        sink(leveller.flush())

    return make_sound(job, library.rate_hz, send_part, into)


def unspoken(library: Library, runs: Sequence[Run]) -> dict[str, int]:
    """The characters of the runs that have no sound in their voice, by kind. Asks the engine, which takes a
    millisecond for each of other scripts and signs."""
    characters = Counter(
        (voice, one) for voice, text in runs if voice != PAUSE for one in _ASKED.findall(text)
    )
    found: Counter[str] = Counter()
    for (voice, one), count in characters.items():
        try:
            _speak_into(lambda _: None, library, [(voice, one)], Pace(RATE_PLAIN, 1))
        except NothingSpoken:
            found[kind_of(one)] += count
    return dict(found)


def _speak_into(sink: Sink, library: Library, runs: Sequence[Run], pace: Pace) -> None:
    """Raises NothingSpoken if all of the sound is silent, before the sink was called, and errors of the
    sink."""
    stretch = Stretch(library.rate_hz, pace.stretch)
    silent, audible = bytearray(), False

    def write(pcm: bytes) -> None:
        nonlocal audible
        audible = audible or is_audible(pcm)
        if not audible:
            silent.extend(pcm)
            return
        sink(bytes(silent) + pcm)
        silent.clear()

    library.speak(runs, pace.rate, lambda pcm: write(stretch.feed(pcm)))
    write(stretch.flush())
    if not audible:
        raise NothingSpoken("This voice has no sound for the text.")


def _beginning(runs: Sequence[Run]) -> list[Run]:
    """The first _SAMPLE_CHARS_MAX characters of the runs, or a little more."""
    left, beginning = _SAMPLE_CHARS_MAX, []
    for voice, text in runs:
        if left > 0 and voice != PAUSE:
            beginning.append((voice, text[:left]))
            left -= len(text)
    return beginning


def warm(_setup: bytes) -> Work:
    """Loads everything that the first job needs, and returns the work."""
    library = Library()
    library.length([("cmn", "你好"), ("yue", "你好"), ("en-us", "hello"), ("en", "hello")], RATE_PLAIN)
    decoder = msgspec.msgpack.Decoder(EspeakJob)
    return lambda packed, running: speak(library, decoder.decode(packed), running.part, running.unspoken)
