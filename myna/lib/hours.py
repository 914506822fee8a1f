"""The hours of the reports. They begin at the minutes of the reporting zone: :00, :30 or :45."""

HOUR_MS = 3_600_000


def hour_of(time_ms: int, offset_ms: int) -> int:
    """The start of the hour that contains this time, both in Unix milliseconds. `offset_ms` is the zone's
    offset from UTC modulo an hour. `commit_batch` computes the same."""
    return time_ms - (time_ms + offset_ms) % HOUR_MS
