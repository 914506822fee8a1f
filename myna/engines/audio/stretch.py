"""Makes speech longer or shorter without a change of pitch.

Inserts or removes whole pitch periods, with a cross-fade between two similar neighbours (PICOLA: Morita and
Itakura, "Time-scale expansion and compression of speech", 1986). The periods of a block are found together,
on downsampled sound: a second of sound takes 2 ms.
"""

import math

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

_FACTOR_MIN = 0.52
_FACTOR_MAX = 1.92
# A piece is a period of a deep voice or several of a high one: 8 to 15 ms, so that pieces stay few.
_PIECES_MIN_HZ, _PIECES_MAX_HZ = 65, 125
_COARSE_HZ = 3700  # enough to tell one period from another
_STEP = 4  # coarse samples, about a millisecond: the period doesn't change within

_Sound = npt.NDArray[np.float32]  # samples from -32768 to 32767
_Fine = npt.NDArray[np.float64]


class Stretch:
    """Stretches 16-bit mono PCM, in as many passes as `factor` needs, which is output over input length."""

    def __init__(self, rate_hz: int, factor: float) -> None:
        limit = _FACTOR_MAX if factor > 1 else _FACTOR_MIN
        passes = math.ceil(math.log(factor) / math.log(limit))
        self._passes = [_Pass(rate_hz, factor ** (1 / passes)) for _ in range(passes)]

    def feed(self, pcm: bytes) -> bytes:
        """The stretched sound so far; up to a second of each pass is buffered until `flush`."""
        for one in self._passes:
            pcm = one.feed(pcm)
        return pcm

    def flush(self) -> bytes:
        """The rest. Its last hundredths of a second are unchanged."""
        pcm = b""
        for one in self._passes:
            pcm = one.feed(pcm) + one.flush()
        return pcm


class _Pass:
    """Stretches by a factor from _FACTOR_MIN to _FACTOR_MAX."""

    def __init__(self, rate_hz: int, factor: float) -> None:
        self._factor = factor
        self._skip = max(1, rate_hz // _COARSE_HZ)
        self._lag_min = rate_hz // _PIECES_MAX_HZ // self._skip
        self._lag_max = rate_hz // _PIECES_MIN_HZ // self._skip
        self._steps = math.ceil((self._lag_max + 1) / _STEP)  # over which two periods are compared
        self._window = (
            self._lag_max + 1 + self._steps * _STEP
        ) * self._skip  # samples compared for one change
        self._block = rate_hz + self._window
        self._input = bytearray()
        self._consumed = self._produced = 0  # samples, over all
        self._copy = 0  # samples to copy before the next period is changed

    def feed(self, pcm: bytes) -> bytes:
        self._input += pcm
        pieces = []
        while len(self._input) >= 2 * self._block:
            out, taken = self._stretched(_sound(self._input[: 2 * self._block]))
            pieces.append(out)
            del self._input[: 2 * taken]
        return b"".join(pieces)

    def flush(self) -> bytes:
        out, taken = self._stretched(_sound(self._input))
        rest = bytes(self._input[2 * taken :])
        self._input.clear()
        return out + rest

    def _stretched(self, sound: _Sound) -> tuple[bytes, int]:
        """Stretches the part of the sound before the last window. Also returns its length in samples."""
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
        stretched = np.rint(np.concatenate(pieces)) if pieces else np.empty(0)
        return stretched.astype(np.int16).tobytes(), at

    def _change(self, sound: _Sound, period: int, pieces: list[_Sound]) -> int:
        """Inserts or removes one period. Returns the number of input samples consumed."""
        first, second = sound[:period], sound[period : 2 * period]
        if self._factor > 1:  # first, then a fade from the second to the first
            pieces += [first, _cross_fade(second, first)]
            taken, given = period, 2 * period
        else:
            pieces.append(_cross_fade(first, second))
            taken, given = 2 * period, period
        self._count(taken, given)
        owed = (self._factor * self._consumed - self._produced) / (1 - self._factor)
        self._copy = max(0, round(owed))
        return taken

    def _count(self, taken: int, given: int) -> None:
        self._consumed += taken
        self._produced += given

    def _periods(self, sound: _Sound) -> list[int]:
        """The pitch period in samples at each step of the sound."""
        coarse = sound[: len(sound) // self._skip * self._skip].reshape(-1, self._skip).mean(1, np.float64)
        low, top = self._lag_min - 1, self._lag_max + 1  # one more on each side, for interpolation
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
    """The minimum of a parabola through three neighbours, as an offset of -0.5 to 0.5 from the middle one."""
    bend = before - 2 * here + after
    lowest = np.divide(before - after, 2 * bend, out=np.zeros_like(bend), where=bend > 0)
    return np.clip(lowest, -0.5, 0.5)


def _cross_fade(first: _Sound, second: _Sound) -> _Sound:
    """Fades from one piece to another of the same length."""
    share = np.arange(len(first), dtype=np.float32) / np.float32(len(first))
    return first + (second - first) * share


def _sound(pcm: bytes | bytearray) -> _Sound:
    return np.frombuffer(pcm, np.int16).astype(np.float32)
