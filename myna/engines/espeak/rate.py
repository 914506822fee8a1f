"""Finds the rate of espeak-ng for a speed, by trials on the text.

Its rate, in words a minute, isn't linear, and differs by language, voice and text: at 300 one sentence takes
0.59 of its time at 175, another 0.40, since pauses shrink less than sounds. So the beginning of the text is
synthesized and discarded (about 2 ms for a second of audio) until its length is right. Outside the engine's
range, 0.45 to 2.4 times its normal speed, the sound is stretched. The engine's rates from 450 up also
stretch, but builds for Windows lack them, so they are not used.
"""

from bisect import bisect_right
from collections.abc import Callable

import msgspec

RATE_PLAIN = 175
# The speed at a rate, for texts of one or two sentences: the mean of Mandarin, Cantonese and English.
_CURVE = (
    (80, 0.455), (100, 0.545), (120, 0.66), (150, 0.84), (175, 1.0), (200, 1.16),
    (250, 1.48), (300, 1.84), (350, 2.15), (400, 2.47), (449, 2.8),
)  # fmt: skip
_CLOSE = 0.015  # accepted relative error of the length
_TRIES_MAX = 4


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
