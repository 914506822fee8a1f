"""Valid texts and speeds, and the error when every channel failed. No I/O."""

import pytest

from myna.engines.interface import (
    EngineBusy,
    EngineCrashed,
    EngineFailed,
    EngineTimedOut,
    EngineUnavailable,
    NothingSpoken,
    UnsupportedUtterance,
)
from myna.errors import InvalidRequest, UpstreamFailed
from myna.speech.plan import check_text, read_speed
from myna.speech.synthesize import error_for

NO_SOUND = NothingSpoken("m")
UNFIT = UnsupportedUtterance("u")
BUSY = EngineBusy("b")
DOWN = EngineUnavailable("d")


@pytest.mark.parametrize(
    ("text", "speed"),
    [(None, 1.0), ("", 1.0), ("1", 1.0), ("0.25", 0.25), ("4", 4.0), ("4.000", 4.0), ("01.5", 1.5)],
)
def test_a_speed_is_a_decimal_string(text: str | None, speed: float) -> None:
    assert read_speed(text) == speed


NO_SPEEDS = [
    "0.249999",
    "4.01",
    "0",
    "-1",
    "+1",
    "1,5",
    "1e0",
    ".5",
    "1.",
    " 1",
    "1 ",
    "1\n",
    "nan",
    "inf",
    "x",
]
LONG_OR_FOREIGN = ["٢", "１", "4.0000000000001", "1" * 5, "1." + "0" * 13]


@pytest.mark.parametrize("text", [*NO_SPEEDS, *LONG_OR_FOREIGN])
def test_an_invalid_speed_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="speed"):
        read_speed(text)


@pytest.mark.parametrize("text", ["a", "7", "你", " a ", "½", "ー", "é" * 10])
def test_a_text_with_a_letter_or_a_digit_is_accepted(text: str) -> None:
    check_text(text, 10)


@pytest.mark.parametrize("text", ["", " ", "\u3000\n", "。", "👍", "---", "\u200b", "a\0", "x" * 11])
def test_a_text_that_cannot_be_spoken_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="text"):
        check_text(text, 10)


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        ([], UpstreamFailed),
        ([DOWN], UpstreamFailed),
        ([EngineTimedOut("t")], UpstreamFailed),
        ([EngineCrashed("x")], UpstreamFailed),
        ([EngineFailed("x")], UpstreamFailed),
        ([BUSY], UpstreamFailed),
        ([BUSY, BUSY], UpstreamFailed),
        ([NO_SOUND], InvalidRequest),
        ([NO_SOUND, UNFIT], InvalidRequest),
        ([NO_SOUND, BUSY], UpstreamFailed),
        ([BUSY, DOWN], UpstreamFailed),
        ([DOWN, NO_SOUND], UpstreamFailed),
    ],
)
def test_the_most_severe_failure_decides_the_error(
    failures: list[EngineFailed], expected: type[Exception]
) -> None:
    assert type(error_for(failures)) is expected
