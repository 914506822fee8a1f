"""Speech made longer or shorter without a change of pitch.

Whole pitch periods are put in or left out where two neighbours resemble each other most, with a cross-fade
between them (PICOLA: Morita and Itakura, "Time-scale expansion and compression of speech", 1986). The periods
are found for a block of sound at once, on fewer samples than it has: a second of sound takes 2 ms.
"""

import math

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

FACTOR_MIN = 0.52
FACTOR_MAX = 1.92
# A piece is a period of a deep voice or several of a high one: 8 to 15 ms, so that pieces stay few.
_PIECES_MIN_HZ, _PIECES_MAX_HZ = 65, 125
_COARSE_HZ = 3700  # enough to tell one period from another
_STEP = 4  # coarse samples, about a millisecond: the period doesn't change within

_Sound = npt.NDArray[np.float32]  # samples from -32768 to 32767
_Fine = npt.NDArray[np.float64]


class Stretch:
    """`factor` is length out over length in, held between FACTOR_MIN and FACTOR_MAX. 16-bit mono PCM."""

    def __init__(self, rate_hz: int, factor: float) -> None:
        self._factor = min(max(factor, FACTOR_MIN), FACTOR_MAX)
        self._skip = max(1, rate_hz // _COARSE_HZ)
        self._lag_min = rate_hz // _PIECES_MAX_HZ // self._skip
        self._lag_max = rate_hz // _PIECES_MIN_HZ // self._skip
        self._steps = math.ceil((self._lag_max + 1) / _STEP)  # over which two periods are compared
        self._window = (self._lag_max + 1 + self._steps * _STEP) * self._skip  # samples a change looks at
        self._block = rate_hz + self._window
        self._waiting = bytearray()
        self._taken = self._given = 0  # samples, over all
        self._copy = 0  # samples to hand through before the next period is changed

    def feed(self, pcm: bytes) -> bytes:
        """What can be said so far; up to a second of sound stays inside."""
        self._waiting += pcm
        said = []
        while len(self._waiting) >= 2 * self._block:
            out, taken = self._stretched(_sound(self._waiting[: 2 * self._block]))
            said.append(out)
            del self._waiting[: 2 * taken]
        return b"".join(said)

    def flush(self) -> bytes:
        """The rest; its last hundredths of a second are unchanged."""
        out, taken = self._stretched(_sound(self._waiting))
        rest = bytes(self._waiting[2 * taken :])
        self._waiting.clear()
        return out + rest

    def _stretched(self, sound: _Sound) -> tuple[bytes, int]:
        """As much of the sound as has a window after it, stretched, and how many samples of it that was."""
        end = len(sound) - self._window
        periods = self._periods(sound) if end >= 0 else []
        pieces: list[_Sound] = []
        at = 0
        while at <= end:
            if self._copy:
                part = min(self._copy, end + 1 - at)
                pieces.append(sound[at : at + part])
                self._copy -= part
                self._count(part, part)
                at += part
            else:
                at += self._change(sound[at:], periods[at // (_STEP * self._skip)], pieces)
        return _pcm(pieces), at

    def _change(self, sound: _Sound, period: int, pieces: list[_Sound]) -> int:
        """Puts a period in or leaves one out; gives the samples taken from the sound."""
        first, second = sound[:period], sound[period : 2 * period]
        if self._factor > 1:  # first, then a fade from the second back into the first
            pieces += [first, _faded(second, first)]
            taken, given = period, 2 * period
        else:
            pieces.append(_faded(first, second))
            taken, given = 2 * period, period
        self._count(taken, given)
        owed = (self._factor * self._taken - self._given) / (1 - self._factor)
        self._copy = max(0, round(owed))
        return taken

    def _count(self, taken: int, given: int) -> None:
        self._taken += taken
        self._given += given

    def _periods(self, sound: _Sound) -> list[int]:
        """For each step into the sound: the length in samples at which it repeats itself from there on."""
        coarse = sound[: len(sound) // self._skip * self._skip].reshape(-1, self._skip).mean(1, np.float64)
        low, top = self._lag_min - 1, self._lag_max + 1  # one more on each side, to look between them
        steps = (len(coarse) - top) // _STEP
        shifted = sliding_window_view(coarse, top + 1)[: steps * _STEP, low:]
        unlike = np.square(coarse[: len(shifted), np.newaxis] - shifted).reshape(steps, _STEP, -1).sum(1)
        sums = np.pad(unlike.cumsum(0), ((1, 0), (0, 0)))
        unlike = sums[self._steps :] - sums[: -self._steps]
        best = 1 + unlike[:, 1:-1].argmin(1)
        before, here, after = (unlike[np.arange(len(best)), best + side] for side in (-1, 0, 1))
        found = (low + best + _lowest_between(before, here, after)) * self._skip
        periods: list[int] = np.rint(found).astype(int).tolist()
        return periods


def _lowest_between(before: _Fine, here: _Fine, after: _Fine) -> _Fine:
    """Where a parabola through three neighbours is lowest, from -0.5 to 0.5 of the middle one."""
    bend = before - 2 * here + after
    lowest = np.divide(before - after, 2 * bend, out=np.zeros_like(bend), where=bend > 0)
    return np.clip(lowest, -0.5, 0.5)


def _faded(going: _Sound, coming: _Sound) -> _Sound:
    """Two pieces of one length, the one turned down while the other is turned up."""
    share = np.arange(len(going), dtype=np.float32) / np.float32(len(going))
    return going + (coming - going) * share


def _sound(pcm: bytes | bytearray) -> _Sound:
    return np.frombuffer(pcm, np.int16).astype(np.float32)


def _pcm(pieces: list[_Sound]) -> bytes:
    return np.rint(np.concatenate(pieces)).astype(np.int16).tobytes() if pieces else b""
