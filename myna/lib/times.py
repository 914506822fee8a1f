"""Durations as commands and forms write them, and the days, months and hours of the reporting zone.

Hours begin at the minutes of the reporting zone: :00, :30 or :45.
"""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from myna.errors import CommandError
from myna.errors.sentences import WrongValue

_DURATION = re.compile(r"([1-9][0-9]{0,5})([smhdw])")
_UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
HOUR_MS = 3_600_000
EPOCH = date(1970, 1, 1)


def parse_duration(text: str) -> int:
    """The milliseconds of a duration such as `30d`, `12h` or `90s`. Raises CommandError."""
    match = _DURATION.fullmatch(text)
    if not match:
        raise CommandError(
            "{text!r} is not a duration: write a number from 1 to 999999 with s, m, h, d or w, such as 30d.",
            text=text,
        )
    return int(match[1]) * _UNIT_S[match[2]] * 1000


def hour_of(time_ms: int, offset_ms: int) -> int:
    """The start of the hour that contains this time, both in Unix milliseconds. `offset_ms` is the zone's
    offset from UTC modulo an hour. `commit_batch` computes the same."""
    return time_ms - (time_ms + offset_ms) % HOUR_MS


def zone_of(name: str) -> ZoneInfo:
    """The zone of this IANA name. Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise WrongValue("must be the name of a time zone, such as Europe/Berlin or UTC") from None


@lru_cache(maxsize=4096)
def day_start(zone: str, day: int) -> int:
    """The first Unix millisecond of the day, which is the number of days since 1970-01-01."""
    return _start_of(zone, EPOCH + timedelta(days=day))


def day_of(zone: str, time_ms: int) -> int:
    """The day that contains this time, as the number of days since 1970-01-01."""
    return (datetime.fromtimestamp(time_ms / 1000, zone_of(zone)).date() - EPOCH).days


def month_start(zone: str, year: int, month: int) -> int:
    """The first Unix millisecond of the month; month 13 is the first of the next year."""
    return _start_of(zone, date(year + (month - 1) // 12, (month - 1) % 12 + 1, 1))


def hour_offset(zone: str, time_ms: int) -> int:
    """The zone's offset from UTC at this time, modulo an hour, in ms."""
    offset = datetime.fromtimestamp(time_ms / 1000, zone_of(zone)).utcoffset() or timedelta()
    return offset // timedelta(milliseconds=1) % HOUR_MS


def _start_of(zone: str, day: date) -> int:
    """A day may begin after midnight, where clocks are set forward at midnight."""
    start = datetime(day.year, day.month, day.day, tzinfo=zone_of(zone)).astimezone(UTC)
    return int(start.timestamp() * 1000)
