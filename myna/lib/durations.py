"""Durations as commands and forms write them: a whole number with s, m, h, d or w, such as `30d`."""

import re

from myna.errors import CommandError

_DURATION = re.compile(r"([1-9][0-9]{0,5})([smhdw])")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def millis(text: str) -> int:
    """The milliseconds of a duration such as `30d`, `12h` or `90s`. Raises CommandError."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise CommandError(
            "{text!r} is not a duration: write a whole number from 1 on with s, m, h, d or w, such as 30d.",
            text=text,
        )
    return int(match[1]) * _UNIT_S[match[2]] * 1000


def text_of(duration_ms: int) -> str:
    """A duration as `millis` parses it, in its largest unit, rounded up to seconds."""
    seconds = -(-duration_ms // 1000)
    unit = max((unit for unit in _UNIT_S if seconds % _UNIT_S[unit] == 0), key=lambda one: _UNIT_S[one])
    return f"{seconds // _UNIT_S[unit]}{unit}"
