"""Speech made longer or shorter without a change of pitch, in plain Python.

Whole pitch periods are put in or left out where two neighbours resemble each other most, with a cross-fade
between them (PICOLA: Morita and Itakura, "Time-scale expansion and compression of speech", 1986).
"""

from array import array
from collections.abc import Sequence
from operator import sub

FACTOR_MIN = 0.52
FACTOR_MAX = 1.92
# A piece is a period of a deep voice or several of a high one: 8 to 15 ms, so that pieces stay few.
_PIECES_MIN_HZ, _PIECES_MAX_HZ = 65, 125
_COARSE_HZ = 3700  # enough to tell one period from another
_FINE_STEP = 3
_QUIET = 200  # peak under which there is no pitch to look for, of 32767


class Stretch:
    """`factor` is length out over length in, held between FACTOR_MIN and FACTOR_MAX. 16-bit mono PCM."""

    def __init__(self, rate_hz: int, factor: float) -> None:
        self._factor = min(max(factor, FACTOR_MIN), FACTOR_MAX)
        self._period_min = rate_hz // _PIECES_MAX_HZ
        self._period_max = rate_hz // _PIECES_MIN_HZ
        self._skip = max(1, rate_hz // _COARSE_HZ)
        self._left = array("h")
        self._taken = self._given = 0  # samples, over all
        self._copy = 0  # samples to hand through before the next period is changed

    def feed(self, pcm: bytes) -> bytes:
        """What can be said so far; some hundredths of a second stay inside."""
        self._left.frombytes(pcm)
        out = array("h")
        at = 0
        while True:
            ready = len(self._left) - at
            if self._copy:
                part = min(self._copy, ready)
                out += self._left[at : at + part]
                at += part
                self._count(part, part)
                self._copy -= part
            if self._copy or len(self._left) - at < 2 * self._period_max:
                break
            at += self._change(self._left[at : at + 2 * self._period_max], out)
        del self._left[:at]
        return out.tobytes()

    def flush(self) -> bytes:
        """The rest, unchanged."""
        rest, self._left = self._left.tobytes(), array("h")
        return rest

    def _change(self, window: "array[int]", out: "array[int]") -> int:
        """Puts a period in or leaves one out; gives the samples taken from the window."""
        period = self._period(window)
        first, second = window[:period], window[period : 2 * period]
        if self._factor > 1:  # first, then a fade from the second back into the first
            out += first
            out += _faded(second, first)
            taken, given = period, 2 * period
        else:
            out += _faded(first, second)
            taken, given = 2 * period, period
        self._count(taken, given)
        owed = (self._factor * self._taken - self._given) / (1 - self._factor)
        self._copy = max(0, round(owed))
        return taken

    def _count(self, taken: int, given: int) -> None:
        self._taken += taken
        self._given += given

    def _period(self, window: "array[int]") -> int:
        """The length in samples at which the window resembles itself most, first coarsely, then finely."""
        if max(window) < _QUIET and min(window) > -_QUIET:
            return self._period_max
        skip = self._skip
        lanes = [window[lane::skip] for lane in range(skip)]
        coarse = [sum(samples) for samples in zip(*lanes, strict=False)]
        about = skip * _most_alike(coarse, range(self._period_min // skip, len(coarse) // 2 + 1))
        lags = range(max(self._period_min, about - skip), min(self._period_max, about + skip) + 1, _FINE_STEP)
        return _most_alike(window, lags)


def _most_alike(samples: Sequence[int], lags: Sequence[int]) -> int:
    """The lag with the smallest mean difference between the first `lag` samples and the next."""
    return min(lags, key=lambda lag: sum(map(abs, map(sub, samples[:lag], samples[lag : 2 * lag]))) / lag)


def _faded(going: Sequence[int], coming: Sequence[int]) -> "array[int]":
    """Two pieces of one length, the one turned down while the other is turned up."""
    length = len(going)
    return array(
        "h",
        [(a * (length - i) + b * i) // length for i, (a, b) in enumerate(zip(going, coming, strict=True))],
    )
