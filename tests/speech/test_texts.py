"""Which texts and speeds are valid, how long a text may sound, the error when every channel failed, and what
the status of a failed task says."""

import asyncio
from pathlib import Path

import pytest

from myna.engines.espeak.engine import Espeak
from myna.engines.interface import (
    EngineBusy,
    EngineCrashed,
    EngineFailed,
    EngineLimits,
    EngineTimedOut,
    EngineUnavailable,
    NoConnection,
    NothingSpoken,
    UnsupportedUtterance,
    Utterance,
)
from myna.errors import InvalidRequest, Overloaded, UpstreamFailed
from myna.farm.tasks import TRIES_EXHAUSTED
from myna.speech.plan import check_sound, check_text, read_speed, sound_s
from myna.speech.synthesize import OTHERWISE, WHY, error_for, status_text
from myna.store.queries.clones import VOICE_DELETED
from myna.store.queries.tasks import TaskRow
from tests.engines.conftest import started


@pytest.mark.parametrize(
    ("text", "speed"),
    [(None, 1.0), ("", 1.0), ("1", 1.0), ("0.25", 0.25), ("4", 4.0), ("4.000", 4.0), ("01.5", 1.5)],
)
def test_a_speed_is_a_decimal_string(text: str | None, speed: float) -> None:
    assert read_speed(text) == speed


NO_SPEEDS = (
    "0.249999|4.01|0|-1|+1|1,5|1e0|.5|1.| 1|1 |1\n|nan|inf|x|٢|１|4.0000000000001|11111|1.0000000000000"
)


@pytest.mark.parametrize("text", NO_SPEEDS.split("|"))
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


NO_SOUND, UNFIT, BUSY = NothingSpoken("m"), UnsupportedUtterance("u"), EngineBusy("b")
FULL = NoConnection("f")
DOWN, LATE, CRASHED, FAILED = (
    EngineUnavailable("d"),
    EngineTimedOut("t"),
    EngineCrashed("x"),
    EngineFailed("x"),
)


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        *((failures, UpstreamFailed) for failures in ([], [DOWN], [LATE], [CRASHED], [FAILED], [BUSY])),
        *((failures, UpstreamFailed) for failures in ([NO_SOUND, BUSY], [BUSY, DOWN], [DOWN, NO_SOUND])),
        *((failures, Overloaded) for failures in ([FULL], [DOWN, FULL], [FULL, NO_SOUND])),
        *((failures, InvalidRequest) for failures in ([NO_SOUND], [NO_SOUND, UNFIT])),
    ],
)
def test_the_worst_failure_decides_the_error(failures: list[EngineFailed], expected: type[Exception]) -> None:
    assert type(error_for(failures)) is expected


VOICES = ("zh-female-1", "yue-female-1", "en-us-female-1")
ORDINARY = [
    "今天天气很好，我们一起去公园散步吧。" * 5,
    "The weather is lovely today, shall we go for a walk in the park? " * 3,
]
DENSE = [
    "ﷺ" * 30,
    "777777 " * 20,
    "99999.99元" * 10,
    "-9999999 " * 10,
    "⣽" * 15,
    "½" * 30,
    "㊿" * 20,
    "㍿" * 20,
    "好\n\n" * 20,
    "好。" * 20,
    "А" * 30,
    "かな" * 15,
    "@#$^&*=<>~|" * 5,
    "hi! " * 20,
    "5㎡" * 15,
    "六⅞" * 9,
    "１３:５９ " * 10,
]


async def test_no_text_is_longer_than_its_estimate(tmp_path: Path) -> None:
    """The length of a text's sound is estimated before the charge: never less than the engine then makes."""

    async def check(espeak: Espeak, number: int, text: str, voice_id: str) -> None:
        path = tmp_path / f"{number}-{voice_id}.mp3"
        spoken = await espeak.speak(Utterance(text, voice_id, 1.0), path, 60)
        assert spoken.seconds <= sound_s(text, 1.0), (text, voice_id)

    texts = [(*numbered, voice_id) for numbered in enumerate(ORDINARY + DENSE) for voice_id in VOICES]
    async with started(Espeak(EngineLimits(processes=2, queue_max=400, job_deadline_s=60))) as espeak:
        await asyncio.gather(*(check(espeak, *one) for one in texts))


@pytest.mark.parametrize("speed", [0.25, 1.0, 4.0])
def test_a_slower_speed_makes_more_sound(speed: float) -> None:
    assert sound_s(ORDINARY[0], speed) == pytest.approx(sound_s(ORDINARY[0], 1.0) / speed)


@pytest.mark.parametrize("text", [ORDINARY[0] * 11, ORDINARY[1] * 5])
def test_a_thousand_ordinary_characters_may_be_spoken_at_the_slowest_speed(text: str) -> None:
    assert check_sound(text[:1000], 0.25, 1800) <= 1800


@pytest.mark.parametrize(("text", "speed"), [("ﷺ" * 1000, 0.25), ("ﷺ" * 1000, 1.0), ("7" * 1000, 0.25)])
def test_a_text_over_the_sound_limit_is_refused_with_the_limit(text: str, speed: float) -> None:
    with pytest.raises(InvalidRequest, match=r"^text: would make up to [0-9.]+ minutes .* at most 30 are"):
        check_sound(text, speed, 1800)


def task(status: int, reason: str = "", progress: int = 0) -> TaskRow:
    return TaskRow(
        id=1, status=status, text="你好", chars=2, audio="", created_at=0, progress=progress, reason=reason
    )


@pytest.mark.parametrize("reason", [*WHY, "", "RuntimeError", "sk-secret at http://10.0.0.1"])
def test_a_failed_task_says_a_known_reason_alone_and_that_it_was_refunded(reason: str) -> None:
    chinese, english = WHY.get(reason, OTHERWISE)
    assert status_text(task(3, reason), "zh") == f"失败：{chinese}，已退还所扣点数"
    assert status_text(task(3, reason), "en") == f"failed: {english}; the units were refunded"


def test_the_reasons_that_are_stored_are_known() -> None:
    assert {TRIES_EXHAUSTED, VOICE_DELETED} <= WHY.keys()


def test_a_task_that_has_not_failed_shows_its_status() -> None:
    assert [status_text(task(status, "not done in time"), "en") for status in range(3)] == [
        *("queued", "processing", "completed")
    ]
    assert status_text(task(1, progress=40), "zh") == "处理中 40%"
