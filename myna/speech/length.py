"""Estimates the length of a text's sound from its characters, before the charge.

The maximum per character was measured with the embedded voices, in all their languages, at speed 1. Voices
speak the name of an unknown character ("Braille pattern dots-1345678", 2.2 s). Engines enforce the bound on
the length, also if the estimate is too low.
"""

from collections import Counter
from functools import lru_cache
from operator import mul
from typing import Final

import regex

from myna.engines.text.signs import plain
from myna.errors import InvalidRequest

_SCRIPTS: Final = (
    "α-ωΑ-Ω" "а-яА-ЯёЁ" "ء-غف-ي" "א-ת" "अ-हा-्" "ก-ๅ" "ぁ-ゖァ-ヺー" "가-힣"
)  # fmt: skip
# Maximum seconds per character; the first matching class applies.
_CLASSES: Final = (
    (regex.compile(r"[\n\r]"), 0.45),
    (regex.compile(r"[\p{Z}\p{Cc}\p{Cf}]"), 0.05),
    (regex.compile(r"[一-鿿]"), 0.35),
    (regex.compile(r"[A-Za-zÀ-ſ]"), 0.37),
    (regex.compile(r"[0-9]"), 0.65),
    (regex.compile(r"[。！？，、；：…“”‘’（）《》「」『』【】—·!-/:-@\[-`{-~]"), 0.45),
    (regex.compile(rf"[{_SCRIPTS}]"), 1.1),
)
_OTHER_S: Final = 2.3


def sound_s(text: str, speed: float) -> float:
    """The maximum length of the sound, in seconds, at this speed."""
    counts = Counter(plain(text))
    seconds: float = sum(map(mul, counts.values(), map(_character_s, counts)))
    return seconds / speed


@lru_cache(maxsize=2**16)
def _character_s(character: str) -> float:
    return next((each_s for characters, each_s in _CLASSES if characters.match(character)), _OTHER_S)


def check_sound(text: str, speed: float, sound_max_s: int) -> float:
    """Returns the estimate in seconds. Raises InvalidRequest if it is above `sound_max_s`."""
    seconds = sound_s(text, speed)
    if seconds > sound_max_s:
        raise InvalidRequest(
            f"would make up to {_minutes(seconds)} minutes of sound at this speed; at most"
            f" {_minutes(sound_max_s)} are made of one text. Send less text, or a higher speed.",
            field="text",
        )
    return seconds


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f}".removesuffix(".0")
